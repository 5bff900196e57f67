"""What experiments produce: typed records, each a JSON file, tables on the screen and a document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, Self

from ..benchmarks.result import FORMAT as RUN_FORMAT
from ..benchmarks.result import RunResult, versions
from ..core.errors import FormatError
from ..core.plain import JsonObject, JsonValue, from_plain, to_plain
from ..report.documents import result_document, tables_document
from ..report.tables import Table, TableCell, markdown, metric_tables, printed


class Study(Protocol):
    """One file of results."""

    def to_json(self) -> JsonObject: ...

    def tables(self) -> list[Table]: ...

    def document(self) -> str: ...


@dataclass(frozen=True)
class Training:
    """How a network was trained."""

    epochs: int
    seed: int


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation."""

    mean: float
    std: float

    def text(self, sign: str = "") -> str:
        return f"{self.mean:{sign}.2f} ± {self.std:.2f}"


@dataclass(frozen=True)
class Candidate:
    """One candidate of a choice: per cent, averaged over the development sets."""

    candidate: str
    fpr95: float
    auroc: float
    behind_best: tuple[float, ...]
    eligible: bool
    tied: bool
    chosen: bool


@dataclass(frozen=True)
class Choice:
    """A choice among candidates by a rule, made on the development sets and reported on one held out."""

    development: tuple[str, ...]
    held_out: str
    choice: tuple[Candidate, ...]
    recommended: str


@dataclass(frozen=True)
class RunStudy:
    """A run, and what a study adds to it."""

    result: RunResult
    training: Training | None = None
    distributions: Mapping[str, Mapping[str, Spread]] | None = None
    choice: Choice | None = None

    def to_json(self) -> JsonObject:
        content = self.result.to_json()
        if self.choice is not None:
            added = to_plain(self.choice)
            assert isinstance(added, dict)
            content |= added
        if self.distributions is not None:
            content["distributions"] = to_plain(self.distributions)
        if self.training is not None:
            content["training"] = to_plain(self.training)
        return content

    @classmethod
    def from_json(cls, content: Mapping[str, JsonValue]) -> RunStudy:
        choice = {key: content[key] for key in Choice.__annotations__ if key in content}
        training, distributions = content.get("training"), content.get("distributions")
        return cls(
            RunResult.from_json(content),
            None if training is None else from_plain(Training, training, "training"),
            None
            if distributions is None
            else from_plain(dict[str, Mapping[str, Spread]], distributions, "distributions"),
            from_plain(Choice, choice, "the choice") if choice else None,
        )

    def tables(self) -> list[Table]:
        return metric_tables(self.result)

    def document(self) -> str:
        parts = [self._distributions(), self._choice()]
        sections = [
            "\n".join(["", f"## {table.title}", "", *markdown(table), ""]) for table in parts if table
        ]
        return result_document(self.result) + "".join(sections)

    def _distributions(self) -> Table | None:
        """Mean ± deviation of every score on every set."""
        if self.distributions is None:
            return None
        sets = tuple(next(iter(self.distributions.values())))
        rows = tuple(
            (label, tuple(TableCell(f"{found[name].mean:.4f} ± {found[name].std:.4f}") for name in sets))
            for label, found in self.distributions.items()
        )
        return Table("Mean ± standard deviation", ("score", *sets), rows)

    def _choice(self) -> Table | None:
        """The candidates in the order of the rule."""
        if self.choice is None:
            return None
        header = ("candidate", "FPR95", "AUROC", "FPR95 behind the best", "eligible", "tied", "chosen")
        rows = tuple((row.candidate, _candidate_cells(row)) for row in self.choice.choice)
        title = f"The choice, on {' and '.join(self.choice.development)}"
        return Table(title, header, rows, text_columns=3)


def _candidate_cells(row: Candidate) -> tuple[TableCell, ...]:
    low, high = (printed(bound) for bound in row.behind_best)
    marks = ["yes" if mark else "" for mark in (row.eligible, row.tied, row.chosen)]
    return tuple(map(TableCell, (printed(row.fpr95), printed(row.auroc), f"[{low}, {high}]", *marks)))


_formats: dict[str, type[TableStudy]] = {}


@dataclass(frozen=True, kw_only=True)
class TableStudy:
    """A study with tables of its own. A subclass says its ``format`` and its `tables`, and adds fields."""

    format: ClassVar[str]
    title: str
    command: str
    versions: Mapping[str, str] = field(default_factory=versions)

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        _formats[cls.format] = cls

    def tables(self) -> list[Table]:
        raise NotImplementedError(f"{type(self).__name__} defines no tables")

    def to_json(self) -> JsonObject:
        content = to_plain(self)
        assert isinstance(content, dict)
        return {"format": self.format, **content}

    @classmethod
    def from_json(cls, content: Mapping[str, JsonValue]) -> Self:
        return from_plain(cls, {key: value for key, value in content.items() if key != "format"})

    def document(self) -> str:
        return tables_document(self.title, self.command, self.tables(), self.versions)


def read_study(content: Mapping[str, JsonValue]) -> Study:
    """The study that a JSON file of results holds."""
    kind = content.get("format")
    if kind == RUN_FORMAT:
        return RunStudy.from_json(content)
    known = _formats.get(str(kind))
    if known is None:
        names = ", ".join([RUN_FORMAT, *_formats])
        raise FormatError(f"the content has format {kind!r}; known: {names}")
    return known.from_json(content)
