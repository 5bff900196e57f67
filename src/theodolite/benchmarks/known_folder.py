"""The ID side of a feature folder: its head and the rows to fit on; no set that is judged is opened."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from ..core.addresses import require_named
from ..core.errors import InputError
from ..features import head_files
from ..features.arrays import open_array
from ..features.folders import FIT, HEAD_OF_FOLDER, feature_sets, is_feature_folder
from ..features.recovered import recovered_head, require_logits_of
from ..features.store import FeatureStore, is_store
from ..reference.head import Head
from .feature_folder import read_about
from .feature_sets import ID_VAL, OOD_VAL, ArraySet, FeatureSet, FileSet, StoreSet
from .protocols import find_protocol


@dataclass(frozen=True)
class KnownFolder:
    """What is known without any test set: a name, the protocol it belongs to, the head, rows to fit on."""

    name: str
    protocol: str | None
    head: Head
    fit: FeatureSet
    folder: Path | None = None

    @property
    def validation_names(self) -> set[str]:
        """Sets that are there to choose settings on, and that no benchmark judges."""
        known = find_protocol(self.protocol)
        return {ID_VAL, OOD_VAL, *(part.name for part in (known.tuning if known is not None else ()))}

    def own_set(self, name: str) -> Path | None:
        """Where the folder has a set of its own, if it has."""
        if self.folder is None or not self.folder.is_dir():
            return None
        return feature_sets(self.folder).get(name)


def known_folder(folder: str | Path) -> KnownFolder:
    """Of a feature folder ``id_fit``, the head and ``about.json``; test and OOD sets may be absent."""
    require_named(folder)
    place = Path(folder).expanduser()
    if not is_feature_folder(place):
        raise InputError(
            f"{place} is no feature folder: expected head.safetensors, and ID rows to fit on as "
            f"id_fit.safetensors or a feature store id_fit/"
        )
    about = read_about(place)
    stored = is_store(place / FIT)
    fit: FeatureSet = StoreSet(place / FIT) if stored else FileSet(place / f"{FIT}.safetensors")
    return KnownFolder(about.name or place.resolve().name, about.protocol, _head(place), fit, place)


def _head(folder: Path) -> Head:
    """Its own file, that of the store of rows to fit on, or that of the logits beside these rows."""
    path, rows = folder / HEAD_OF_FOLDER, folder / f"{FIT}.safetensors"
    arrays = [open_array(rows)] if rows.is_file() and not is_store(folder / FIT) else []
    stored = FeatureStore(folder / FIT).head if is_store(folder / FIT) else None
    head = head_files.read_head(path) if path.is_file() else recovered_head(arrays) or stored
    if head is None:
        raise InputError(
            f"{folder} has no {HEAD_OF_FOLDER}: expected the weight and bias of the last layer, or logits "
            f"beside the features of {FIT}, from which they can be recovered"
        )
    require_logits_of(head, arrays)
    return head


def feature_set(path: str | Path) -> FeatureSet:
    """The features at a path: a feature store, or a .safetensors, .npy, .npz or .parquet file."""
    require_named(path)
    place = Path(path).expanduser()
    if is_store(place):
        return StoreSet(place)
    if place.is_dir():
        raise InputError(
            f"{place} is no feature store: name a store of `theodolite extract`, or a file of features"
        )
    if not place.is_file():
        raise InputError(f"{place} does not exist (looked from {Path.cwd()}): name features of a set")
    if place.suffix.lower() == ".safetensors":
        return FileSet(place)
    array = open_array(place)
    rows = list(array)
    labels = [labels for _, labels, _ in rows if labels is not None]
    return ArraySet(
        torch.cat([features for features, _, _ in rows]), torch.cat(labels) if array.labelled else None
    )
