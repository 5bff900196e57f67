"""The cells of a result: one measured number each, with its interval and what is published for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ..core.errors import FormatError
from ..core.plain import JsonObject, JsonValue, from_plain, to_plain

_PER_CENT = 100


class Bounds(NamedTuple):
    """A bootstrap confidence interval, in per cent."""

    low: float
    high: float


class Spread(NamedTuple):
    """Of how many repeats a value is the mean, and their standard deviation, n − 1 in its denominator."""

    std: float
    repeats: int


@dataclass(frozen=True)
class PublishedValue:
    """A number that a paper prints, with its place there and what makes it doubtful."""

    printed: str
    table: str
    row: str
    column: str
    caveats: tuple[str, ...] = ()

    @property
    def value(self) -> float:
        return float(self.printed)

    @property
    def doubtful(self) -> bool:
        """A setting that a paper leaves open is no doubt about the number itself."""
        return any(not caveat.startswith("unstated") for caveat in self.caveats)


@dataclass(frozen=True)
class Cell:
    """One measured number, in per cent: a metric of a detector on one OOD set, or their average.

    ``samples`` are those of the OOD set, and None for an average. ``over`` names the sets that the mean of a
    group is over; it is empty for the average over all of them. With a ``spread`` the value is a mean over
    repeats of one model.
    """

    subject: str
    detector: str
    ood: str
    metric: str
    value: float
    samples: int | None = None
    interval: Bounds | None = None
    published: tuple[PublishedValue, ...] = ()
    spread: Spread | None = None
    over: tuple[str, ...] = ()

    @property
    def doubtful(self) -> bool:
        """Whether what is published for this cell contradicts itself or has a caveat."""
        printed = {value.printed for value in self.published}
        return len(printed) > 1 or any(value.doubtful for value in self.published)


@dataclass(frozen=True)
class _Group:
    """A cell of ``results.json``, all metrics of one pair, without their values."""

    model: str
    entry: str
    ood: str
    samples: int | None = None
    intervals: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    published: Mapping[str, tuple[PublishedValue, ...]] = field(default_factory=dict)
    over: tuple[str, ...] = ()
    repeats: int | None = None
    std: Mapping[str, float] = field(default_factory=dict)


def cells_to_json(cells: Sequence[Cell]) -> list[JsonValue]:
    """As ``results.json`` has them: the metrics of a pair of detector and OOD set stand together."""
    pairs: dict[tuple[str, str, str], list[Cell]] = {}
    for cell in cells:
        pairs.setdefault((cell.subject, cell.detector, cell.ood), []).append(cell)
    groups: list[JsonValue] = []
    for (subject, detector, ood), found in pairs.items():
        group: JsonObject = {"model": subject, "entry": detector, "ood": ood}
        if found[0].samples is not None:
            group["samples"] = found[0].samples
        if found[0].over:
            group["over"] = list(found[0].over)
        group |= {cell.metric: cell.value for cell in found}
        spreads = {cell.metric: cell.spread for cell in found if cell.spread is not None}
        if spreads:
            group["repeats"] = next(iter(spreads.values())).repeats
            group["std"] = {name: spread.std for name, spread in spreads.items()}
        intervals = {cell.metric: list(cell.interval) for cell in found if cell.interval is not None}
        if intervals:
            group["intervals"] = to_plain(intervals)
        group["published"] = to_plain({cell.metric: cell.published for cell in found if cell.published})
        groups.append(group)
    return groups


def cells_from_json(content: Sequence[Mapping[str, JsonValue]]) -> tuple[Cell, ...]:
    """The cells that `cells_to_json` wrote; refused where they cannot have been measured."""
    cells: dict[tuple[str, str, str, str], Cell] = {}
    for place, group in enumerate(content):
        for cell in _ungrouped(group, f"cells[{place}]"):
            key = (cell.subject, cell.detector, cell.ood, cell.metric)
            if key in cells:
                raise FormatError(f"cells[{place}] says {cell.metric} of {', '.join(key[:3])} once more")
            cells[key] = cell
    return tuple(cells.values())


def _ungrouped(content: Mapping[str, JsonValue], where: str) -> list[Cell]:
    named = {key: value for key, value in content.items() if key in _Group.__annotations__}
    group = from_plain(_Group, named, where)
    values = from_plain(dict[str, float], {key: content[key] for key in content if key not in named}, where)
    _require_possible(group, values, where)
    return [
        Cell(
            group.model,
            group.entry,
            group.ood,
            metric,
            value,
            group.samples,
            Bounds(*group.intervals[metric]) if metric in group.intervals else None,
            group.published.get(metric, ()),
            Spread(group.std[metric], group.repeats or 0) if metric in group.std else None,
            group.over,
        )
        for metric, value in values.items()
    ]


def _require_possible(group: _Group, values: Mapping[str, float], where: str) -> None:
    """Refuse numbers that are no share in per cent, bounds in the wrong order, and words about no metric."""
    if group.samples is not None and group.samples < 1:
        raise FormatError(f"{where}.samples must be at least 1, got {group.samples}")
    if group.std and (group.repeats is None or group.repeats < 2):
        raise FormatError(f"{where}.repeats must be at least 2 where there is a std, got {group.repeats}")
    if not all(0 <= value <= _PER_CENT for value in group.std.values()):
        raise FormatError(f"{where}.std must lie in 0 to {_PER_CENT} (per cent), got {dict(group.std)}")
    for metric, bounds in group.intervals.items():
        if len(bounds) != len(Bounds._fields) or not bounds[0] <= bounds[1]:
            raise FormatError(
                f"{where}.intervals.{metric} must be a low and a high bound, got {list(bounds)}"
            )
    shares = [
        *values.items(),
        *((metric, bound) for metric, both in group.intervals.items() for bound in both),
    ]
    for metric, share in shares:
        if not 0 <= share <= _PER_CENT:
            raise FormatError(f"{where}.{metric} must lie in 0 to {_PER_CENT} (per cent), got {share}")
    for name, said in (
        ("intervals", group.intervals),
        ("published", group.published),
        ("std", group.std),
    ):
        unknown = sorted(set(said) - set(values))
        if unknown:
            raise FormatError(f"{where}.{name} speaks of {unknown[0]!r}, which has no value there")
