"""Published numbers: every table of the ORA paper as data, to stand next to what we measure.

One JSON file is one table, with the digits as printed: values are strings ("60.70" keeps its zero) and null
where the paper prints a dash. What a cell is about (protocol, backbone, detector, OOD set, options) may be
said by its row, its column or the whole table; `PublishedTable.cells` puts the three together. The paper
contradicts itself in places: nothing is corrected, and `caveats` say where, by kind:

    average   the printed average is not the mean of the cells it summarises, beyond rounding
    bold      the cell is printed as the best, and is not
    conflict  another table (`see`) prints another number for the same experiment
    suspect   the cell looks misplaced or copied
    unstated  the paper leaves a setting open, and we had to read it in or leave it out

    >>> [(c.table, c.value) for c in lookup(backbone="vit-b16", detector="ora", ood="sun", metric="fpr95")]
    [('ensemble-extended', 48.98), ('vit', 48.81)]
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import TypeAlias

from ..core.plain import from_plain

AVERAGE = "average"
# Options of a detector as tables spell them; an ensemble is the list of its members.
Option: TypeAlias = bool | int | float | str | tuple[str, ...]
Options: TypeAlias = Mapping[str, Option]
# An ablation table spells out the setting that is ORA's default: it is still the plain detector.
DEFAULTS = {"centre": "mean", "aggregate": "max"}
_FILES = files("theodolite.published")


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What a number was measured on; None where it is left to the other levels, or to nobody."""

    protocol: str | None = None
    backbone: str | None = None
    detector: str | None = None
    ood: str | None = None
    options: Options = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Column(Setting):
    """A column: its heading, the metric, and which way is better ("lower", "higher" or None)."""

    name: str
    metric: str
    better: str | None

    @property
    def average(self) -> bool:
        return self.ood == AVERAGE


@dataclass(frozen=True, kw_only=True)
class Row(Setting):
    """A row under the paper's name for it; [brackets] are ours, where the paper uses a name twice."""

    name: str
    values: tuple[str | None, ...]
    bold: tuple[str, ...]

    @property
    def average(self) -> bool:
        return self.backbone == AVERAGE


@dataclass(frozen=True, kw_only=True)
class Caveat:
    """Why a cell should be read with care; no row means the whole table, no columns the whole row."""

    kind: str
    row: str | None
    columns: tuple[str, ...]
    note: str
    see: tuple[str, ...] = ()

    def covers(self, row: str, column: str) -> bool:
        return self.row in (None, row) and (not self.columns or column in self.columns)


@dataclass(frozen=True, kw_only=True)
class PublishedCell(Setting):
    """One printed number with all that is known about it."""

    table: str
    row: str
    column: str
    metric: str
    printed: str
    bold: bool
    caveats: tuple[Caveat, ...]

    @property
    def value(self) -> float:
        return float(self.printed)


@dataclass(frozen=True, kw_only=True)
class PublishedTable(Setting):
    """One table of the paper; `label` is its LaTeX label, `title` our own words."""

    name: str
    label: str | None
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    caveats: tuple[Caveat, ...]

    def cells(self) -> Iterator[PublishedCell]:
        for row in self.rows:
            for column, printed in zip(self.columns, row.values, strict=True):
                if printed is not None:
                    yield PublishedCell(
                        protocol=row.protocol or column.protocol or self.protocol,
                        backbone=row.backbone or column.backbone or self.backbone,
                        detector=row.detector or column.detector or self.detector,
                        ood=row.ood or column.ood or self.ood,
                        options={**self.options, **column.options, **row.options},
                        table=self.name,
                        row=row.name,
                        column=column.name,
                        metric=column.metric,
                        printed=printed,
                        bold=column.name in row.bold,
                        caveats=tuple(c for c in self.caveats if c.covers(row.name, column.name)),
                    )


def list_tables() -> list[str]:
    """Names of all tables, sorted."""
    return sorted(f.name.removesuffix(".json") for f in _FILES.iterdir() if f.name.endswith(".json"))


@cache
def backbones() -> tuple[str, ...]:
    """The backbones that some table has a number for, sorted."""
    return tuple(sorted({cell.backbone for cell in _every_cell() if cell.backbone not in (None, AVERAGE)}))


@cache
def load_table(name: str) -> PublishedTable:
    """The table called `name`, one of `list_tables()`."""
    if name not in list_tables():
        raise ValueError(f"no published table is called {name!r}: choose one of {', '.join(list_tables())}")
    raw = json.loads(_FILES.joinpath(f"{name}.json").read_text(encoding="utf-8"))
    return from_plain(PublishedTable, {"name": name, **raw}, f"{name}.json")


def lookup(
    *,
    protocol: str | None = None,
    backbone: str | None = None,
    detector: str | None = None,
    ood: str | None = None,
    metric: str | None = None,
    options: Options | None = None,
) -> list[PublishedCell]:
    """All printed numbers that fit; a filter left at None fits all, `options={}` only the plain detector.

    Several cells come back where tables repeat or contradict each other: the caller sees both.
    """
    asked = {"protocol": protocol, "backbone": backbone, "detector": detector, "ood": ood, "metric": metric}
    wanted = {name: _key(value) for name, value in asked.items() if value is not None}
    return [
        cell
        for cell in _every_cell(wanted.get("detector"))
        if all(_key(getattr(cell, name)) == value for name, value in wanted.items())
        and (options is None or _without_defaults(cell.options) == _without_defaults(options))
    ]


@cache
def _every_cell(detector: str | None = None) -> tuple[PublishedCell, ...]:
    """Of all tables, or those of a detector by its key: a bench asks beside each of its own numbers."""
    if detector is not None:
        return tuple(cell for cell in _every_cell() if _key(cell.detector) == detector)
    return tuple(cell for name in list_tables() for cell in load_table(name).cells())


def _key(name: str | None) -> str | None:
    """Names compare as in the registry of detectors: case, hyphens and underscores do not count."""
    return None if name is None else name.casefold().replace("-", "").replace("_", "")


def _without_defaults(options: Options) -> str:
    # Through JSON, so that a tuple of ensemble members equals the list in the file.
    plain = {key: value for key, value in options.items() if DEFAULTS.get(key) != value}
    return json.dumps(plain, sort_keys=True)
