"""What lies at a path: pictures or features; and the feature folders that a benchmark takes.

A feature folder holds ``head.safetensors`` (weight, bias) and sets of features, each a safetensors file or a
feature store: ``id_fit``, ``id_test``, and one for every OOD set.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..core.errors import InputError
from ..data.npy import ArrayArchive, mapped_array
from ..data.parquet import picture_columns
from ..data.parquet_files import SUFFIX
from .arrays import FEATURES
from .store import is_store

HEAD_OF_FOLDER = "head.safetensors"
FIT, TEST = "id_fit", "id_test"
# What a path can be said to hold; any other kind is one of pictures.
HOLDS_FEATURES, HOLDS_PICTURES = "features", "pictures"
_MATRIX = 2


def is_feature_folder(path: str | Path) -> bool:
    """Whether a folder holds a head and sets of features, and is not itself a store."""
    folder = Path(path).expanduser()
    if is_store(folder) or not folder.is_dir():
        return False
    return (folder / f"{FIT}.safetensors").is_file() or is_store(folder / FIT)


def feature_sets(folder: Path) -> dict[str, Path]:
    """The sets of a feature folder by their names, the one to fit on first: files or stores."""
    files = {path.stem: path for path in folder.glob("*.safetensors") if path.name != HEAD_OF_FOLDER}
    stores = {path.name: path for path in folder.iterdir() if is_store(path)}
    found = files | stores
    return {name: found[name] for name in sorted(found, key=lambda name: (name != FIT, name))}


def holds_features(path: str | Path, kind: str | None = None) -> bool:
    """Whether a path is a file or folder of features, not of pictures and not a feature store.

    ``kind`` says it; without one the shape and the dtype of an array do: (N, D) of floating-point numbers
    are features, (N, height, width) and (N, height, width, channels) are pictures.
    """
    place = Path(path).expanduser()
    if kind is not None or is_store(place):
        return kind == HOLDS_FEATURES and not is_store(place)
    if place.is_dir():
        return is_feature_folder(place)
    suffix = place.suffix.lower()
    if not place.is_file() or suffix not in (".npy", ".npz"):
        return place.is_file() and (suffix == ".safetensors" or (suffix == SUFFIX and _is_table(place)))
    if suffix == ".npy":
        array = mapped_array(place)
        return _is_matrix(place, array.shape, array.dtype)
    archive = ArrayArchive(place)
    named = [name for name in archive.names if name.lower() in FEATURES]
    if named:
        return True
    return any(_is_matrix(place, *archive.form(name)) for name in archive.names if name == "arr_0")


def _is_table(path: Path) -> bool:
    """Whether a Parquet file holds features: none of its columns is one of pictures."""
    return picture_columns(path) is None


def _is_matrix(path: Path, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> bool:
    if len(shape) != _MATRIX:
        return False
    if not np.issubdtype(dtype, np.floating):
        raise InputError(
            f"{path} holds {dtype} numbers of shape {shape}, which is neither: features are (N, D) of "
            f"floating-point numbers, pictures (N, height, width) or (N, height, width, channels). Save it "
            f"as one of them: features with .astype('float32'), pictures with their height and width"
        )
    return True
