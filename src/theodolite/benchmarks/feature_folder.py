"""Feature folders: a subject on disk.

A feature folder holds ``head.safetensors`` (weight, bias) and, each a safetensors file (features, labels) or
a feature store: ``id_fit``, ``id_test``, and one for every OOD set. Where files hold ``logits`` as well, the
head must give them; without a head it is recovered from those of the ID sets. ``about.json`` may say which
protocol and backbone it belongs to, so that published numbers are found. ``id_val`` and ``ood_val`` are to
choose settings on: they are never judged.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..core.addresses import require_named
from ..core.errors import FormatError, InputError, did_you_mean
from ..core.files import read_json, write_json
from ..core.plain import to_plain
from ..features import head_files
from ..features.arrays import open_array
from ..features.folders import HEAD_OF_FOLDER, feature_sets
from ..features.recovered import recovered_head, require_logits_of
from ..features.store import FeatureStore, is_store
from ..models import list_models
from ..published import backbones
from ..reference.head import Head
from .feature_sets import AVERAGE, FIT, ID_VAL, OOD_VAL, TEST, FileSet, StoreSet
from .full_spectrum import with_shifted
from .protocols import OWN, Protocol, find_protocol, list_protocols
from .subject import Subject

HEAD, ABOUT = HEAD_OF_FOLDER, "about.json"


@dataclass(frozen=True)
class About:
    """What a feature folder says of itself."""

    name: str | None = None
    protocol: str | None = None
    backbone: str | None = None


def from_folder(folder: str | Path, *, name: str | None = None, full_spectrum: bool = False) -> Subject:
    """The subject in a feature folder.

    Validation sets, and the shifted ID data of its protocol, are no OOD sets; with ``full_spectrum`` the
    shifted data count as ID.
    """
    require_named(folder)
    place = Path(folder).expanduser()
    if not place.is_dir():
        raise InputError(f"the feature folder {place} does not exist")
    fit, test = (_required(place, part) for part in (FIT, TEST))
    about = read_about(place)
    known = find_protocol(about.protocol)
    names = _outliers(place, known)
    if AVERAGE in names:
        raise InputError(f"{place}: an OOD set cannot be called {AVERAGE!r}, tables use that name")
    if not names:
        raise InputError(f"{place} holds no OOD set: put NAME.safetensors with features beside id_test")
    ood = {outliers: _required(place, outliers) for outliers in names}
    _require_backbone(about, place)
    subject = Subject(
        name or about.name or place.resolve().name,
        read_head(place),
        fit,
        test,
        ood,
        backbone=about.backbone,
        protocol=about.protocol,
        folder=place,
        groups={} if known is None else known.groups,
    )
    if not full_spectrum:
        return subject
    if known is None:
        raise InputError(
            f"{place}: full-spectrum counts shifted ID data as ID, and {ABOUT} names no protocol that says "
            f"which sets those are"
        )
    parts = known.as_full_spectrum().shifted
    return with_shifted(subject, {part.name: _required(place, part.name) for part in parts})


def _outliers(folder: Path, known: Protocol | None) -> list[str]:
    """The OOD sets of a feature folder; in the order of the protocol, then by their names."""
    found = set(feature_sets(folder)) - {FIT, TEST, ID_VAL, OOD_VAL}
    if known is None:
        return sorted(found)
    found -= {part.name for part in (*known.shifted, *known.tuning)}
    # Only where sets are in groups does their order say something.
    order = {part.name: place for place, part in enumerate(known.ood)} if known.groups else {}
    return sorted(found, key=lambda name: (order.get(name, len(order)), name))


def read_head(folder: Path) -> Head:
    """The head of a feature folder: its own file, that of the store of ID data, or that of stored logits."""
    path = folder / HEAD
    arrays = [open_array(file) for file in feature_sets(folder).values() if file.is_file()]
    if not path.is_file():
        known = [array for array in arrays if array.path.stem in (FIT, TEST)]
        if (head := recovered_head(known)) is not None:
            require_logits_of(head, arrays)
            return head
        if is_store(folder / TEST):
            return head_files.require_head_of(FeatureStore(folder / TEST))
        raise InputError(
            f"{folder} has no {HEAD}: a feature folder holds the weight and bias of the last layer, or the "
            f"logits of its ID sets, from which they can be recovered"
        )
    head = head_files.read_head(path)
    require_logits_of(head, arrays)
    return head


def read_about(folder: Path) -> About:
    """What a feature folder says of itself.

    A protocol that is not known is refused: its shifted ID data would pass for OOD sets, its settings would
    not be taken, and no published number would be found, all without a word.
    """
    path = folder / ABOUT
    if not path.is_file():
        return About()
    said = read_json(path)
    names = [said.get(key) for key in ("name", "protocol", "backbone")] if isinstance(said, dict) else [0]
    if not all(value is None or isinstance(value, str) for value in names):
        raise FormatError(f"{path} must hold a JSON object with name, protocol and backbone, each a text")
    about = About(*names)
    if about.protocol not in (None, OWN) and find_protocol(about.protocol) is None:
        known = [known.name for known in list_protocols()]
        raise InputError(
            f"{path}: no protocol is called {about.protocol!r}{did_you_mean(str(about.protocol), known)} "
            f"Known: {', '.join(known)}"
        )
    return about


def write_about(folder: Path, about: About) -> None:
    said = to_plain(about)
    assert isinstance(said, dict)
    write_json(folder / ABOUT, said)


def _required(folder: Path, name: str) -> FileSet | StoreSet:
    if is_store(folder / name):
        return StoreSet(folder / name)
    path = folder / f"{name}.safetensors"
    if path.is_file():
        return FileSet(path)
    raise InputError(f"{folder} has neither {name}.safetensors nor a feature store {name}/")


def _require_backbone(about: About, folder: Path) -> None:
    """A misspelt backbone would silently find no published number."""
    if about.backbone is None or about.protocol == OWN:
        return
    if about.protocol is None:
        raise InputError(
            f"{folder / ABOUT} names the backbone {about.backbone!r} and no protocol: name the protocol too, "
            f"one of {', '.join(known.name for known in list_protocols())}"
        )
    known = sorted({*backbones(), *(card.backbone for card in list_models())})
    if about.backbone not in known:
        raise InputError(
            f"{folder / ABOUT}: no table of the paper has a backbone {about.backbone!r}"
            f"{did_you_mean(about.backbone, known)} Known: {', '.join(known)}"
        )
