"""Protocols: the data a detector is fitted on, the held-out ID data and the OOD sets it is judged by.

A protocol of your own is one record of names in `datasets`, entered with `register_protocol`; one of folders
needs no record, see `own_protocol`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..core.addresses import require_named
from ..core.errors import InputError
from ..data import ImageSource, open_source
from ..detectors.spec import Settings
from .datasets import dataset
from .feature_sets import AVERAGE, FIT, ID_VAL, OOD_VAL, TEST
from .locate import Located, locate

OWN = "own"
# Ends the name of a protocol whose lists of pictures are not compared with the originals.
OWN_LISTS = "-own-lists"


@dataclass(frozen=True)
class ProtocolSet:
    """One set of a protocol: by a data set's name and split, or (the user's own) by a path.

    ``published`` is the name the paper's tables use for it; ``group`` is what it is averaged with, such as
    near or far. ``own`` is for a list of pictures that need not be the original.
    """

    name: str
    dataset: str | None = None
    split: str = "test"
    path: Path | None = None
    kind: str | None = None
    published: str | None = None
    group: str | None = None
    own: bool = False

    @property
    def listed(self) -> bool:
        """Whether its pictures are named by a list of the data set."""
        return self.dataset is not None and dataset(self.dataset).split(self.split).images is not None

    def locate(self, root: Path | None, *, verify: bool = False) -> Located | None:
        """Where and in what state it is; None for a path of the user's own."""
        if self.dataset is None:
            return None
        return locate(self.dataset, self.split, root, verify=verify, own=self.own)

    def open(self, root: Path | None, *, note: Callable[[str], None] = lambda _: None) -> ImageSource | None:
        """The pictures, or None where they are absent. Pictures that are there but wrong are refused.

        ``note`` is told of a list that is not the original, where that is allowed.
        """
        if self.dataset is None:
            assert self.path is not None
            return open_source(str(self.path), kind=self.kind) if _exists(self.path) else None
        found = locate(self.dataset, self.split, root, verify=True, own=self.own)
        if found.state == "missing":
            return None
        if found.own_list:
            note(f"{self.name}: {found.detail}")
        return found.open()


@dataclass(frozen=True)
class Validation:
    """Data to choose settings on: ID and OOD samples that are in no set which judges."""

    known: ProtocolSet
    ood: ProtocolSet


@dataclass(frozen=True)
class Protocol:
    """Fit on ``fit``, judge ``test`` against every set of ``ood``.

    ``settings`` are the options the field uses on this protocol where they differ from a score's defaults.
    ``validation`` is for tuning, and never judged. ``shifted`` is ID data under a shift of its covariates:
    with ``full_spectrum`` it counts as ID beside ``test``, else it has no part.
    """

    name: str
    title: str
    fit: ProtocolSet
    test: ProtocolSet
    ood: tuple[ProtocolSet, ...]
    settings: Settings = field(default_factory=dict)
    shifted: tuple[ProtocolSet, ...] = ()
    validation: Validation | None = None
    full_spectrum: bool = False

    @property
    def sets(self) -> tuple[ProtocolSet, ...]:
        """The sets of a run: to fit on, held out, OOD."""
        return (self.fit, *self.known, *self.ood)

    @property
    def known(self) -> tuple[ProtocolSet, ...]:
        """The sets that count as ID when scores are judged."""
        return (self.test, *self.shifted) if self.full_spectrum else (self.test,)

    @property
    def tuning(self) -> tuple[ProtocolSet, ...]:
        """The sets that settings are chosen on: ID, then OOD."""
        return () if self.validation is None else (self.validation.known, self.validation.ood)

    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """The OOD sets that are averaged together, by the name of their group."""
        found: dict[str, tuple[str, ...]] = {}
        for part in self.ood:
            if part.group is not None:
                found[part.group] = (*found.get(part.group, ()), part.name)
        return found

    def as_full_spectrum(self) -> Protocol:
        """The same with shifted ID data counted as ID."""
        if not self.shifted:
            raise InputError(f"{self.name} has no shifted ID data that full-spectrum could count as ID")
        if self.full_spectrum:
            return self
        return replace(self, title=f"{self.title}, full-spectrum", full_spectrum=True)

    def with_own_lists(self) -> Protocol:
        """The same with lists of pictures taken as they are: nothing published compares with its figures."""
        if not any(part.listed for part in self.sets):
            raise InputError(f"{self.name} has no lists of pictures: its data sets are checked as they are")

        def own(part: ProtocolSet) -> ProtocolSet:
            return replace(part, own=True)

        known = self.validation
        return replace(
            self,
            name=f"{self.name.removesuffix(OWN_LISTS)}{OWN_LISTS}",
            title=f"{self.title.removesuffix(_NOT_COMPARED)}{_NOT_COMPARED}",
            fit=own(self.fit),
            test=own(self.test),
            ood=tuple(map(own, self.ood)),
            shifted=tuple(map(own, self.shifted)),
            validation=None if known is None else Validation(own(known.known), own(known.ood)),
        )


_NOT_COMPARED = " (lists of one's own)"
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
    if name is None:
        return None
    base = _protocols.get(name.removesuffix(OWN_LISTS))
    return base.with_own_lists() if base is not None and name.endswith(OWN_LISTS) else base


def protocol(name: str) -> Protocol:
    """The protocol of a name."""
    found = find_protocol(name)
    if found is None:
        raise InputError(
            f"no protocol is called {name!r}; known: {', '.join(_protocols)}, features:FOLDER, "
            f"or your own with --id, --fit and --ood"
        )
    return found


def own_protocol(
    *, test: str, fit: str | None, ood: Mapping[str, str], kind: str | None = None, name: str = OWN
) -> Protocol:
    """A protocol of one's own folders. Without ``fit`` the detectors would be judged on what they learnt.

    >>> protocol = th.own_protocol(test="my/test", fit="my/train", ood={"fog": "my/fog"})
    >>> protocol.name
    'own'
    """
    for path in (test, *([] if fit is None else [fit]), *ood.values()):
        require_named(path)
    if not ood:
        raise InputError("no OOD set is given: pass --ood NAME=DIR at least once")
    if fit is None:
        raise InputError("pass --fit DIR: ID data to fit on, other than the held-out data of --id")
    if Path(fit).resolve() == Path(test).resolve():
        raise InputError(f"--fit and --id are both {fit}: scores of data they were fitted on mean nothing")
    for outliers in ood:
        if outliers in (FIT, TEST, ID_VAL, OOD_VAL, AVERAGE) or "/" in outliers:
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
