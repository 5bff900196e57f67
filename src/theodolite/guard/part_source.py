"""Where the features of a part come from, and which lots of which data a merged part is made of.

Parts of different models, layers or classes are not merged, and a lot that is missing or there twice is
found by its number.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..core.errors import InputError, TheodoliteWarning
from .origin import Origin
from .provenance import Provenance


@dataclass(frozen=True)
class Lot:
    """The ``number``-th of ``count`` lots of data, which has so many ``samples`` in all; of each lot a
    ``limit`` was taken, or all."""

    data: tuple[str, ...]
    samples: int
    number: int
    count: int
    limit: int | None = None

    @property
    def taken(self) -> int:
        """Samples of all lots together, at most."""
        every = self.count * len(self.data)
        return self.samples if self.limit is None else min(self.samples, self.limit * every)

    def __str__(self) -> str:
        limit = "" if self.limit is None else f" (limit {self.limit:,})"
        return f"part {self.number}/{self.count}{limit} of {', '.join(self.data)}"


@dataclass(frozen=True)
class PartSource:
    """Whose features a part holds, of which data; ``folders`` are the classes that the labels number."""

    lots: tuple[Lot, ...]
    labelled: bool
    provenance: Provenance | None = None
    origin: Origin | None = None
    class_names: tuple[str, ...] | None = None
    folders: tuple[str, ...] | None = None

    @property
    def named(self) -> str:
        return ", ".join(dict.fromkeys(name for lot in self.lots for name in lot.data))

    def __add__(self, other: PartSource) -> PartSource:
        require_one_source(self, other)
        if self.folders != other.folders:
            raise InputError(
                f"{self.named} and {other.named} number different classes by their labels: their data has "
                f"other folders. Collect parts of one folder with --part, or leave the labels out "
                f"(--kind flat)"
            )
        if self.labelled != other.labelled:
            raise InputError(
                f"of {self.named} and {other.named} one has a label for every sample and the other has not: "
                f"collect both with labels or both without (--kind flat for a folder)"
            )
        for lot in other.lots:
            _require_beside(lot, self.lots)
        return replace(
            self,
            lots=(*self.lots, *other.lots),
            origin=_joined(self.origin, other.origin),
            class_names=self.class_names if self.class_names == other.class_names else None,
        )


def require_complete(lots: Sequence[Lot], *, incomplete: bool) -> None:
    """Refuse lots of which some are missing; if ``incomplete`` ones will do, warn."""
    missing = []
    for data in dict.fromkeys(lot.data for lot in lots):
        here = [lot for lot in lots if lot.data == data]
        numbers = sorted({*range(1, here[0].count + 1)} - {lot.number for lot in here})
        if numbers:
            listed = ", ".join(map(str, numbers[:10])) + (", …" if len(numbers) > 10 else "")
            count = f"{len(numbers)} of {here[0].count}"
            missing.append(f"{count} parts of {', '.join(data)} are not there ({listed})")
    if not missing:
        return
    told = "; ".join(missing)
    if not incomplete:
        raise InputError(
            f"{told}. Collect them and name all parts, or fit without them: --incomplete (incomplete=True in "
            f"Python)"
        )
    warnings.warn(
        f"{told}: the guard knows nothing of their samples, and if these are of other classes it flags them",
        TheodoliteWarning,
        stacklevel=2,
    )


def _require_beside(lot: Lot, known: Sequence[Lot]) -> None:
    """Refuse a lot that is there already, or that was cut from other data of the same name."""
    for other in known:
        if lot.data != other.data:
            continue
        if (lot.count, lot.samples, lot.limit) != (other.count, other.samples, other.limit):
            raise InputError(
                f"{lot} was cut from {lot.samples:,} samples and {other} from {other.samples:,}: the parts "
                f"do not fit together. Collect all of them anew, from data that does not change meanwhile"
            )
        if lot.number == other.number:
            raise InputError(
                f"{lot} is there twice: what its samples gave would count twice. Name every part once"
            )


def require_one_source(one: PartSource, other: PartSource) -> None:
    """Refuse features of different models."""
    if _model(one.provenance) != _model(other.provenance) or _features(one.origin) != _features(other.origin):
        raise InputError(
            f"the parts of {one.named} and of {other.named} are features of different models, layers or "
            f"preprocessing: {_said(one)} and {_said(other)}. Collect all parts with the same one"
        )


def _model(provenance: Provenance | None) -> Provenance | None:
    """Without where the checkpoint lies, which may differ from machine to machine."""
    return None if provenance is None else replace(provenance, weights_file=None)


def _features(origin: Origin | None) -> Origin | None:
    return None if origin is None else replace(origin, source="", dtype=None)


def _joined(one: Origin | None, other: Origin | None) -> Origin | None:
    if one is None or other is None:
        return one
    sources = dict.fromkeys([*one.source.split(", "), *other.source.split(", ")])
    return replace(one, source=", ".join(sources))


def _said(source: PartSource) -> str:
    if source.provenance is not None:
        return f"{source.provenance.model} ({source.provenance.layer})"
    return "not known" if source.origin is None else f"{source.origin.source} (width {source.origin.width})"
