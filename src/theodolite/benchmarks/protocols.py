"""Protocols: the data a detector is fitted on, the held-out ID data and the OOD sets it is judged by.

A protocol of your own is one record of names in `datasets`, entered with `register_protocol`; one of folders
needs no record, see `own_protocol`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..core.addresses import require_named
from ..core.errors import InputError
from ..data import ImageSource, open_source
from ..detectors.spec import Settings
from .feature_sets import AVERAGE, FIT, TEST
from .locate import Located, locate

OWN = "own"


@dataclass(frozen=True)
class ProtocolSet:
    """One set of a protocol: by a data set's name and split, or (the user's own) by a path.

    ``published`` is the name the paper's tables use for it.
    """

    name: str
    dataset: str | None = None
    split: str = "test"
    path: Path | None = None
    kind: str | None = None
    published: str | None = None

    def locate(self, root: Path | None, *, verify: bool = False) -> Located | None:
        """Where and in what state it is; None for a path of the user's own."""
        return None if self.dataset is None else locate(self.dataset, self.split, root, verify=verify)

    def open(self, root: Path | None) -> ImageSource | None:
        """The pictures, or None where they are absent. Pictures that are there but wrong are refused."""
        if self.dataset is None:
            assert self.path is not None
            return open_source(str(self.path), kind=self.kind) if _exists(self.path) else None
        found = locate(self.dataset, self.split, root, verify=True)
        return None if found.state == "missing" else found.open()


@dataclass(frozen=True)
class Protocol:
    """Fit on ``fit``, judge ``test`` against every set of ``ood``.

    ``settings`` are the options the field uses on this protocol where they differ from a score's defaults.
    """

    name: str
    title: str
    fit: ProtocolSet
    test: ProtocolSet
    ood: tuple[ProtocolSet, ...]
    settings: Settings = field(default_factory=dict)

    @property
    def sets(self) -> tuple[ProtocolSet, ...]:
        return (self.fit, self.test, *self.ood)


_protocols: dict[str, Protocol] = {}


def register_protocol(new: Protocol) -> Protocol:
    """Enter a protocol under its name."""
    if new.name == OWN or _protocols.setdefault(new.name, new) != new:
        raise InputError(f"a protocol is called {new.name!r} already: choose another name")
    return new


def on_dataset(
    name: str, title: str, known: str, ood: Mapping[str, str | None], settings: Settings | None = None
) -> Protocol:
    """A protocol whose ID data is one data set with the splits ``train`` and ``test``.

    ``ood`` maps the OOD sets to the names that published tables use for them, where those differ.
    """
    return Protocol(
        name,
        title,
        ProtocolSet(FIT, known, "train"),
        ProtocolSet(TEST, known, "test"),
        tuple(ProtocolSet(outliers, outliers, published=called) for outliers, called in ood.items()),
        settings or {},
    )


_IMAGENET: Settings = {
    "knn": {"k": 1000},
    "cop": {"variance": 0.99},
    "corp": {"gamma": 3.0, "components": 4096, "variance": 0.5},
}
register_protocol(
    on_dataset(
        "cifar10",
        "CIFAR-10 against SVHN, iSUN, Places365 and Textures",
        "cifar10",
        {"svhn": None, "isun": None, "places365": "places", "textures": None},
    )
)
register_protocol(
    on_dataset(
        "imagenet",
        "ImageNet against iNaturalist, SUN, Places and Textures",
        "imagenet",
        dict.fromkeys(("inaturalist", "sun", "places", "textures")),
        _IMAGENET,
    )
)
register_protocol(
    on_dataset(
        "near-ood",
        "ImageNet against NINCO and SSB-hard, which resemble its classes",
        "imagenet",
        dict.fromkeys(("ninco", "ssb-hard")),
        _IMAGENET,
    )
)
register_protocol(
    on_dataset(
        "mnist",
        "MNIST against Fashion-MNIST, notMNIST and its own negatives",
        "mnist",
        dict.fromkeys(("fashion-mnist", "notmnist", "negatives")),
    )
)


def list_protocols() -> list[Protocol]:
    """All protocols with a name, in the order they were entered."""
    return list(_protocols.values())


def find_protocol(name: str | None) -> Protocol | None:
    """The protocol of a name, or None where there is none."""
    return None if name is None else _protocols.get(name)


def protocol(name: str) -> Protocol:
    """The protocol of a name."""
    if name not in _protocols:
        raise InputError(
            f"no protocol is called {name!r}; known: {', '.join(_protocols)}, features:FOLDER, "
            f"or your own with --id, --fit and --ood"
        )
    return _protocols[name]


def own_protocol(
    *, test: str, fit: str | None, ood: Mapping[str, str], kind: str | None = None, name: str = OWN
) -> Protocol:
    """A protocol of one's own folders. Without ``fit`` the detectors would be judged on what they learnt."""
    for path in (test, *([] if fit is None else [fit]), *ood.values()):
        require_named(path)
    if not ood:
        raise InputError("no OOD set is given: pass --ood NAME=DIR at least once")
    if fit is None:
        raise InputError("pass --fit DIR: ID data to fit on, other than the held-out data of --id")
    if Path(fit).resolve() == Path(test).resolve():
        raise InputError(f"--fit and --id are both {fit}: scores of data they were fitted on mean nothing")
    for outliers in ood:
        if outliers in (FIT, TEST, AVERAGE) or "/" in outliers:
            raise InputError(
                f"an OOD set cannot be called {outliers!r}: choose another NAME in --ood NAME=DIR"
            )
    return Protocol(
        name,
        f"{Path(test).name} against {', '.join(ood)}",
        ProtocolSet(FIT, path=Path(fit), kind=kind),
        ProtocolSet(TEST, path=Path(test), kind=kind),
        tuple(ProtocolSet(key, path=Path(place), kind=kind) for key, place in ood.items()),
    )


def _exists(path: Path) -> bool:
    return path.exists() or ("*" in path.name and any(path.parent.glob(path.name)))
