"""Protocols: the data a detector is fitted on, the held-out ID data and the OOD sets it is judged by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..core.errors import InputError
from ..data import ImageSource, open_source
from .locate import Presence, look

FIT, TEST, OWN = "id_fit", "id_test", "own"


@dataclass(frozen=True)
class Part:
    """One set of a protocol: by a card's name and split, or (the user's own) by a path.

    ``published`` is the name the paper's tables use for it.
    """

    name: str
    card: str | None = None
    split: str = "test"
    path: Path | None = None
    kind: str | None = None
    published: str | None = None

    def presence(self, root: Path | None, *, verify: bool = False) -> Presence | None:
        """How the card sees it; None for a path of the user's own."""
        return None if self.card is None else look(self.card, self.split, root, verify=verify)

    def open(self, root: Path | None) -> ImageSource | None:
        """The pictures, or None where they are absent. Pictures that are there but wrong are refused."""
        if self.card is None:
            assert self.path is not None
            return open_source(str(self.path), kind=self.kind) if _exists(self.path) else None
        found = look(self.card, self.split, root, verify=True)
        return None if found.state == "missing" else found.open()


@dataclass(frozen=True)
class Protocol:
    """Fit on ``fit``, judge ``test`` against every set of ``ood``.

    ``options`` are the settings the field uses on this protocol where they differ from a score's defaults.
    """

    name: str
    title: str
    fit: Part
    test: Part
    ood: tuple[Part, ...]
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def parts(self) -> tuple[Part, ...]:
        return (self.fit, self.test, *self.ood)


def _built_in(
    name: str, title: str, known: str, ood: Mapping[str, str], options: Mapping[str, Mapping[str, Any]]
) -> Protocol:
    return Protocol(
        name,
        title,
        Part(FIT, known, "train"),
        Part(TEST, known, "test"),
        tuple(Part(outliers, outliers, "test", published=published) for outliers, published in ood.items()),
        options,
    )


def _same(*names: str) -> dict[str, str]:
    return {name: name for name in names}


_IMAGENET_OPTIONS = {"knn": {"k": 1000}}
PROTOCOLS = {
    protocol.name: protocol
    for protocol in (
        _built_in(
            "cifar10",
            "CIFAR-10 against SVHN, iSUN, Places365 and Textures",
            "cifar10",
            {"svhn": "svhn", "isun": "isun", "places365": "places", "textures": "textures"},
            {},
        ),
        _built_in(
            "imagenet",
            "ImageNet against iNaturalist, SUN, Places and Textures",
            "imagenet",
            _same("inaturalist", "sun", "places", "textures"),
            _IMAGENET_OPTIONS,
        ),
        _built_in(
            "near-ood",
            "ImageNet against NINCO and SSB-hard, which resemble its classes",
            "imagenet",
            _same("ninco", "ssb-hard"),
            _IMAGENET_OPTIONS,
        ),
        _built_in(
            "mnist",
            "MNIST against Fashion-MNIST, notMNIST and its own negatives",
            "mnist",
            _same("fashion-mnist", "notmnist", "negatives"),
            {},
        ),
    )
}


def own_protocol(
    *, test: str, fit: str | None, ood: Mapping[str, str], kind: str | None = None, name: str = OWN
) -> Protocol:
    """A protocol of one's own folders. Without ``fit`` the detectors would be judged on what they learnt."""
    if not ood:
        raise InputError("no OOD set is given: pass --ood NAME=DIR at least once")
    if fit is None:
        raise InputError("pass --fit DIR: ID data to fit on, other than the held-out data of --id")
    if Path(fit).resolve() == Path(test).resolve():
        raise InputError(f"--fit and --id are both {fit}: scores of data they were fitted on mean nothing")
    for outliers in ood:
        if outliers in (FIT, TEST, "average") or "/" in outliers:
            raise InputError(
                f"an OOD set cannot be called {outliers!r}: choose another NAME in --ood NAME=DIR"
            )
    sets = tuple(Part(key, path=Path(place), kind=kind) for key, place in ood.items())
    return Protocol(
        name,
        f"{Path(test).name} against {', '.join(ood)}",
        Part(FIT, path=Path(fit), kind=kind),
        Part(TEST, path=Path(test), kind=kind),
        sets,
    )


def protocol(name: str) -> Protocol:
    """A built-in protocol by name."""
    if name not in PROTOCOLS:
        raise InputError(
            f"no protocol is called {name!r}; known: {', '.join(PROTOCOLS)}, features:FOLDER, "
            f"or your own with --id, --fit and --ood"
        )
    return PROTOCOLS[name]


def _exists(path: Path) -> bool:
    return path.exists() or ("*" in path.name and any(path.parent.glob(path.name)))
