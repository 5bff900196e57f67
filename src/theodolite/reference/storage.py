"""Statistics, heads and accounts of samples as tensors and records, for files. What is read is checked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from ..core.errors import FormatError
from .answers import Answers
from .bank import Bank
from .head import Head
from .likelihood import FACTS, SHAPE
from .moments import Moments
from .seen import LIMIT, Seen
from .statistics import Needs, Statistics

_UNKNOWN = torch.full(FACTS, torch.nan, dtype=torch.float64)
_FLOATS = (torch.float32, torch.float64)


@dataclass(frozen=True)
class StatisticsRecord:
    """All of statistics but their tensors."""

    needs: Needs
    width: int
    classes: int | None
    seed: int
    count: int
    answered: int = 0

    @classmethod
    def of(cls, statistics: Statistics) -> StatisticsRecord:
        return cls(
            statistics.needs,
            statistics.width,
            statistics.classes,
            statistics.seed,
            statistics.count,
            statistics.answers.rows,
        )


@dataclass(frozen=True)
class ReferenceRecord:
    """All of a reference but its tensors; ``samples`` is None where their ids are not known, ``width`` that
    of the features where statistics are of something wider or narrower."""

    view: str
    unit_features: bool
    statistics: StatisticsRecord
    samples: int | None
    width: int | None = None

    @classmethod
    def of(
        cls, head: Head | None, statistics: Statistics, samples: Seen | None, view: str, width: int
    ) -> ReferenceRecord:
        unit = head is not None and head.unit_features
        count = None if samples is None else samples.count
        own = width if width != statistics.width else None
        return cls(view, unit, StatisticsRecord.of(statistics), count, own)


def pack_reference(head: Head | None, statistics: Statistics, samples: Seen | None) -> dict[str, Tensor]:
    """The tensors of a reference."""
    known = {} if samples is None else pack_seen(samples, "samples.")
    return {**pack_head(head), **pack_statistics(statistics, "statistics."), **known}


def unpack_reference(
    record: ReferenceRecord, tensors: Mapping[str, Tensor]
) -> tuple[Head | None, Statistics, Seen | None]:
    """What `pack_reference` was given."""
    samples = None if record.samples is None else unpack_seen(record.samples, tensors, "samples.")
    head = unpack_head(tensors, record.unit_features)
    require_fitting(head, record.statistics, record.width)
    return head, unpack_statistics(record.statistics, tensors, "statistics."), samples


def require_fitting(head: Head | None, record: StatisticsRecord, width: int | None) -> None:
    """Refuse statistics of features that are not those of the head; ``width`` as in `ReferenceRecord`."""
    features = record.width if width is None else width
    if head is not None and (head.width != features or record.classes not in (None, head.classes)):
        raise FormatError(
            f"its head has {head.classes} classes and width {head.width}, its statistics {record.classes} "
            f"and {features}"
        )


def pack_statistics(statistics: Statistics, prefix: str) -> dict[str, Tensor]:
    """The tensors of what was asked for; of a scatter the upper half, row after row."""
    needs, moments = statistics.needs, statistics.moments
    found: dict[str, Tensor] = {}
    if needs.moments:
        found |= {"counts": moments.counts, "means": moments.means}
        if moments.upper is not None:
            rows = moments.upper.cpu()
            found["scatter"] = torch.cat([rows[place, place:] for place in range(len(rows))])
        if moments.spread is not None:
            found["spread"] = moments.spread
    if needs.class_accuracy:
        found["correct"] = statistics.correct
    if needs.extremes:
        found |= {"maximum": statistics.maximum, "minimum": statistics.minimum}
    if needs.bank or needs.bank_share:
        found |= {f"bank.{name}": tensor for name, tensor in pack_bank(statistics.bank).items()}
    if statistics.answers.rows:
        found |= pack_answers(statistics.answers)
    return {prefix + name: tensor for name, tensor in found.items()}


def unpack_statistics(record: StatisticsRecord, tensors: Mapping[str, Tensor], prefix: str) -> Statistics:
    """Statistics as they were, bit by bit."""
    needs, width = record.needs, record.width
    found = Statistics(needs, width, classes=record.classes, seed=record.seed)
    found.count = record.count

    def taken(name: str, shape: tuple[int, ...], *kinds: torch.dtype) -> Tensor:
        return take(tensors, prefix + name, shape, *(kinds or (torch.float64,)))

    if needs.moments:
        groups = len(tensors.get(prefix + "counts", ()))
        counts, means = taken("counts", (groups,)), taken("means", (groups, width))
        upper = taken("scatter", (width * (width + 1) // 2,)) if needs.scatter else None
        spread = taken("spread", (groups,)) if needs.class_spread else None
        if int(counts.sum()) != record.count or bool((counts < 0).any()):
            raise FormatError(f"its counts do not sum to {record.count} rows")
        found.moments = Moments.restored(
            counts, means, None if upper is None else _unrolled(upper, width), spread
        )
    if needs.class_accuracy:
        found.correct = taken("correct", (record.classes or 1,), torch.int64)
    if needs.extremes:
        found.maximum, found.minimum = taken("maximum", (width,)), taken("minimum", (width,))
    if needs.bank or needs.bank_share:
        found.bank = unpack_bank(found.bank, tensors, prefix + "bank.")
        _require_rows(found.bank, record.count, prefix)
    if record.answered:
        unpack_answers(found.answers, record, tensors, prefix)
    return found


def pack_answers(answers: Answers) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for name, moments in (("right", answers.right), ("softmax", answers.softmax)):
        if moments is not None:
            found |= {f"{name}.counts": moments.counts, f"{name}.means": moments.means}
    if answers.likelihood is not None:
        found |= {"likelihood": answers.likelihood.sums, "likelihood.facts": answers.likelihood.facts}
    return found


def unpack_answers(
    empty: Answers, record: StatisticsRecord, tensors: Mapping[str, Tensor], prefix: str
) -> None:
    """Fill empty answers with those in the tensors."""
    if record.answered != record.count:
        raise FormatError(f"{record.answered} of its {record.count} rows were answered")
    empty.rows = record.answered
    for name, moments in (("right", empty.right), ("softmax", empty.softmax)):
        if moments is None:
            continue
        groups, width = moments.means.shape
        counts = take(tensors, f"{prefix}{name}.counts", (groups,), torch.float64)
        means = take(tensors, f"{prefix}{name}.means", (groups, width), torch.float64)
        total = int(counts.sum())
        # Every row has an answer, not every row is answered right.
        fewest = record.answered if name == "softmax" else 0
        if bool((counts < 0).any()) or not fewest <= total <= record.answered:
            raise FormatError(f"{prefix}{name}.counts are not those of {record.answered} rows")
        moments.counts, moments.means = counts, means
    if empty.likelihood is not None:
        empty.likelihood.sums = take(tensors, prefix + "likelihood", SHAPE, torch.float64)
        facts = prefix + "likelihood.facts"
        known = facts in tensors  # a file may be older than them
        empty.likelihood.facts = take(tensors, facts, FACTS, torch.float64) if known else _UNKNOWN.clone()


def pack_bank(bank: Bank) -> dict[str, Tensor]:
    return {
        "features": bank.features,
        "labels": bank.labels,
        "ids": bank.ids,
        "class_sizes": bank.class_sizes,
    }


def unpack_bank(empty: Bank, tensors: Mapping[str, Tensor], prefix: str) -> Bank:
    """The bank like ``empty`` that holds the rows in the tensors."""
    rows = len(tensors.get(prefix + "ids", ()))
    ids = take(tensors, prefix + "ids", (rows,), torch.int64)
    labels = take(tensors, prefix + "labels", (rows,), torch.int64)
    features = take(tensors, prefix + "features", (rows, empty.width), *_FLOATS)
    sizes = tensors.get(prefix + "class_sizes", torch.zeros(0))
    sizes = take(tensors, prefix + "class_sizes", (sizes.numel(),), torch.int64)
    if rows and (int(labels.min()) < -1 or int(labels.max()) + 1 >= len(sizes)):
        raise FormatError(f"{prefix}labels and {prefix}class_sizes do not belong together")
    return empty.restored(features, labels, ids, sizes)


def _require_rows(bank: Bank, count: int, prefix: str) -> None:
    """Refuse a bank with other rows than ``count`` rows would have left in it."""
    wanted = min(bank.size, count)
    if bank.share:
        wanted = max(wanted, sum(math.ceil(bank.share * size) for size in bank.class_sizes.tolist()))
    if int(bank.class_sizes.sum()) != count or not wanted <= len(bank) <= count:
        raise FormatError(f"{prefix}bank has {len(bank)} rows, which {count} rows do not leave in it")


def pack_seen(seen: Seen, prefix: str) -> dict[str, Tensor]:
    found = {prefix + "values": seen.values}
    return found if seen.repeated == 0 else {**found, prefix + "times": seen.times}


def unpack_seen(count: int, tensors: Mapping[str, Tensor], prefix: str, limit: int = LIMIT) -> Seen:
    length = len(tensors.get(prefix + "values", ()))
    values = take(tensors, prefix + "values", (length,), torch.int64)
    times = torch.ones_like(values)
    if prefix + "times" in tensors:
        times = take(tensors, prefix + "times", (length,), torch.int64)
    if length > limit or int(times.sum()) > count or (length == 0) != (count == 0):
        raise FormatError(f"{prefix}values are {length}, which {count} samples do not have")
    return Seen.restored(values, times, count, limit)


def pack_head(head: Head | None) -> dict[str, Tensor]:
    return {} if head is None else {"head.weight": head.weight, "head.bias": head.bias}


def unpack_head(tensors: Mapping[str, Tensor], unit_features: bool) -> Head | None:
    if "head.weight" not in tensors:
        return None
    if "head.bias" not in tensors:
        raise FormatError("it has a head without head.bias")
    return Head(tensors["head.weight"], tensors["head.bias"], unit_features=unit_features)


def take(tensors: Mapping[str, Tensor], name: str, shape: tuple[int, ...], *kinds: torch.dtype) -> Tensor:
    """A tensor of a file, if it is what is expected."""
    tensor = tensors.get(name)
    if tensor is None or tensor.shape != shape or tensor.dtype not in kinds:
        has = "nothing" if tensor is None else f"{tensor.dtype} {tuple(tensor.shape)}"
        raise FormatError(f"{name} must be {' or '.join(map(str, kinds))} {shape}, it has {has}")
    return tensor


def _unrolled(rows: Tensor, width: int) -> Tensor:
    upper = rows.new_zeros(width, width)
    start = 0
    for place in range(width):
        upper[place, place:] = rows[start : start + width - place]
        start += width - place
    return upper
