"""A part: what one machine learnt from its share of the data, as one file that merges with those of others.

    collect("train/", "timm:resnet18", settings=ExtractionSettings(part="3/16")).save("part-3.safetensors")
    fitted = fit_parts(Path(".").glob("part-*.safetensors"))

It holds the statistics that detectors asked for, the rows held out to calibrate on, an account of the samples
(`reference.seen`), and whose features they are. Parts that do not belong together, or that share samples, are
refused. A *first look* holds what a shaping learns from (ReAct: how often activations were seen), and nothing
else: it learns from the first look of all parts, and then the parts are collected.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .._version import __version__
from ..core.errors import FormatError, InputError
from ..core.files import read_tensors, undamaged, write_tensors
from ..core.plain import JsonObject, from_plain, to_plain
from ..detectors import Detector
from ..reference.bank import Bank
from ..reference.head import Head
from ..reference.looks import Look
from ..reference.pairs import merged_in_pairs
from ..reference.reference import Batch, Reference
from ..reference.seen import Seen, require_apart
from ..reference.storage import (
    pack_bank,
    pack_head,
    pack_seen,
    pack_statistics,
    require_fitting,
    unpack_bank,
    unpack_head,
    unpack_seen,
    unpack_statistics,
)
from .fitted_rows import FittedRows
from .holdout import SHARE_SEED, in_share
from .part_files import (
    FORMAT,
    REMEDY,
    Description,
    StoredView,
    pack_detectors,
    pack_looks,
    unpack_detectors,
    unpack_looks,
)
from .part_source import PartSource

# Rows that are held out and kept, over all parts: those with the smallest keys, a smaller share of the data.
HELD_OUT_ROWS = 20_000
# Standard deviations by which the parts together keep more: the rows with the smallest keys are among them.
_SPARE = 10
# Rows with labels that are kept where none are held out, to see whether the classifier agrees with them.
LOOKED_AT_ROWS = 2_000


def kept_share(share: float, samples: int) -> float:
    """The share of so many samples, in all parts, that is enough to keep of those that are held out."""
    return min(share, (HELD_OUT_ROWS + _SPARE * math.sqrt(HELD_OUT_ROWS)) / samples)


def looked_at_bank(width: int) -> Bank:
    """Room for rows that show whether classifier and labels agree."""
    return Bank(LOOKED_AT_ROWS, width, seed=SHARE_SEED)


def held_out_bank(width: int) -> Bank:
    """Room for rows that are held out: of too many, those that a smaller share would hold out."""
    return Bank(HELD_OUT_ROWS, width, seed=SHARE_SEED)


@dataclass(frozen=True)
class Part:
    """What was learnt from some of the data; ``a + b`` is what both learnt.

    ``references`` are the statistics of each view of the features, ``held_out`` the rows to calibrate on: of
    the ``share`` that was not fitted on (0: none) a smaller share ``kept``. ``looks`` are those of a first
    look, by their names. ``samples`` are the ids of all samples, ``contents`` digests of their pictures where
    they have any; ``looked_at`` are some rows that were fitted on, kept for their labels where none are held
    out.

    >>> means, labels = 4 * np.eye(3, 8), np.arange(300) % 3
    >>> rows = means[labels] + np.random.default_rng(0).normal(size=(300, 8))
    >>> np.savez("train.npz", features=rows, labels=labels)
    >>> halves = [th.ExtractionSettings(part=part) for part in ("1/2", "2/2")]
    >>> parts = [th.collect("train.npz", head=th.Head(means), settings=half) for half in halves]
    >>> (parts[0] + parts[1]).fitted_on == parts[0].fitted_on + parts[1].fitted_on
    True
    """

    detectors: tuple[Detector, ...]
    head: Head | None
    references: tuple[Reference, ...]
    share: float
    kept: float
    fitted_on: int
    held_out: Bank
    looked_at: Bank
    samples: Seen
    rows: FittedRows
    source: PartSource
    contents: Seen | None = None
    looks: Mapping[str, Look] = field(default_factory=dict)

    @property
    def first_look(self) -> bool:
        """Whether a shaping has yet to learn from it, and no statistics were collected."""
        return bool(self.looks)

    @property
    def offered(self) -> int:
        """Rows that were held out, also those that were too many to keep."""
        return self.samples.count - self.fitted_on

    def calibration(self) -> list[Batch]:
        """The rows held out, with labels where all samples have one."""
        return self._batches(self.held_out)

    def labelled_rows(self) -> tuple[list[Batch], int]:
        """Rows that show whether classifier and labels agree, and how many there are."""
        bank = self.held_out if self.share else self.looked_at
        return self._batches(bank), len(bank)

    def _batches(self, bank: Bank) -> list[Batch]:
        return [(bank.features, bank.labels if self.source.labelled else None, bank.ids)]

    def reference(self, detector: Detector) -> Reference:
        """The statistics that a detector is to be fitted on."""
        seen = [one for one in self.references if one.view == detector.view_key]
        own = [one for one in seen if one.statistics.seed == detector.bank_seed]
        if seen:
            return (own or seen)[0]
        if self.head is not None and not detector.needs.anything:
            return Reference.empty(self.head, detector.view_key)
        known = ", ".join(dict.fromkeys(one.view for one in self.references))
        raise InputError(
            f"the parts hold statistics of {known} features, {detector.record.title} needs those of "
            f"{detector.view_key}: collect again with it, --detector (more than once for several)"
        )

    def __add__(self, other: Part) -> Part:
        source, kept = self.source + other.source, min(self.kept, other.kept)
        self._require_alike(other)
        require_apart(self.samples, other.samples)
        return Part(
            self.detectors,
            self.head,
            tuple(one + two for one, two in zip(self.references, other.references, strict=True)),
            self.share,
            kept,
            self.fitted_on + other.fitted_on,
            _within(self.held_out, kept) + _within(other.held_out, kept),
            self.looked_at + other.looked_at,
            self.samples + other.samples,
            self.rows + other.rows,
            source,
            _both(self.contents, other.contents),
            {name: look + other.looks[name] for name, look in self.looks.items()},
        )

    @classmethod
    def merged(cls, parts: Iterable[Part]) -> Part:
        """All of them as one, merged in pairs: exact to float64 rounding for thousands of parts."""
        return merged_in_pairs(parts, "parts")

    def _require_alike(self, other: Part) -> None:
        if self.first_look != other.first_look:
            raise InputError(
                "some parts are a first look, from which a shaping learns, others hold statistics: name "
                "those of one kind"
            )
        one, two = (_asked(part.detectors) for part in (self, other))
        if one != two or self.looks.keys() != other.looks.keys():
            raise InputError(
                f"the parts were collected for different scores, {one} and {two}: collect all for the same"
            )
        if self.share != other.share:
            raise InputError(
                f"one part holds out {100 * self.share:g} % to calibrate on, another "
                f"{100 * other.share:g} %: collect all with the same --calibration-share"
            )
        if (self.head is None) != (other.head is None) or (
            self.head is not None and other.head is not None and not self.head.equals(other.head)
        ):
            raise InputError("the parts were collected with different heads: they are of different models")
        if self.held_out.width != other.held_out.width:
            raise InputError(
                f"the parts hold features of width {self.held_out.width} and {other.held_out.width}: they "
                f"are of different models or layers"
            )

    def save(self, path: str | Path) -> None:
        """Write the part as one safetensors file, atomically."""
        shapings, detectors = pack_detectors(self.detectors)
        keys, rows = self.rows.packed()
        tensors = {**shapings, **keys, **pack_head(self.head), **pack_looks(self.looks)}
        for place, reference in enumerate(self.references):
            tensors |= pack_statistics(reference.statistics, f"reference.{place}.")
        for name, bank in (("held_out", self.held_out), ("looked_at", self.looked_at)):
            tensors |= {f"{name}.{column}": tensor for column, tensor in pack_bank(bank).items()}
        tensors |= pack_seen(self.samples, "samples.")
        if self.contents is not None:
            tensors |= pack_seen(self.contents, "contents.")
        description: JsonObject = {
            "format": FORMAT,
            "theodolite": __version__,
            "detectors": detectors,
            "views": to_plain([StoredView.of(reference) for reference in self.references]),
            "unit_features": self.head is not None and self.head.unit_features,
            "width": self.held_out.width,
            "share": self.share,
            "kept": self.kept,
            "fitted_on": self.fitted_on,
            "samples": self.samples.count,
            "contents": None if self.contents is None else self.contents.count,
            "rows": rows,
            "source": to_plain(self.source),
        }
        write_tensors(Path(path), tensors, description)

    @classmethod
    def load(cls, path: str | Path) -> Part:
        """A part from a file that `save` wrote, bit by bit; one that is damaged is refused."""
        tensors, description = read_tensors(Path(path), FORMAT)
        with undamaged(path, REMEDY):
            said = from_plain(Description, description, "the part")
            head = unpack_head(tensors, said.unit_features)
            if not said.detectors:
                raise FormatError("it was collected for no score")
            for one in said.views:
                require_fitting(head, one.statistics, one.width)
            return cls(
                unpack_detectors(said.detectors, tensors),
                head,
                tuple(
                    Reference(
                        head,
                        unpack_statistics(one.statistics, tensors, f"reference.{place}."),
                        one.view,
                        width=one.width,
                    )
                    for place, one in enumerate(said.views)
                ),
                said.share,
                said.kept,
                said.fitted_on,
                unpack_bank(held_out_bank(said.width), tensors, "held_out."),
                unpack_bank(looked_at_bank(said.width), tensors, "looked_at."),
                unpack_seen(said.samples, tensors, "samples."),
                FittedRows.unpacked(tensors, said.rows),
                said.source,
                None if said.contents is None else unpack_seen(said.contents, tensors, "contents."),
                unpack_looks(tensors),
            )


def _within(bank: Bank, share: float) -> Bank:
    """The rows that a share of the samples holds out: parts of different data keep the same one."""
    here = in_share(bank.ids, share)
    return bank.restored(bank.features[here], bank.labels[here], bank.ids[here], bank.class_sizes)


def _both(one: Seen | None, other: Seen | None) -> Seen | None:
    return None if one is None or other is None else one + other


def _asked(detectors: Iterable[Detector]) -> str:
    """Scores with their options, and what their shapings have learnt."""
    return ", ".join(
        f"{one.record.name} {sorted(one.options().items(), key=str)} on {one.view_key} features"
        for one in detectors
    )
