"""OpenOOD's leaderboard as data: near-OOD and far-OOD AUROC of post-processors, as printed.

One CSV file in ``openood/`` is one table, row for row and digit for digit ("87.62 ± 0.29" keeps both parts,
"/" is no figure); those in ``openood/sets/`` hold the figures of single OOD sets for the few rows whose
authors published them. ``about.json`` says what each file is, and in which ways the numbers should be read
with care: nothing is corrected.

    >>> board = load_leaderboard("imagenet1k")
    >>> [row.near.text for row in board.rows if (row.postprocessor, row.training) == ("SCALE", "ISH")]
    ['84.01']
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

from ..core.errors import InputError, did_you_mean
from ..core.plain import from_plain

FULL_SPECTRUM = "-full-spectrum"
NEAR, FAR = "near", "far"
_PLUS_MINUS = " ± "
_NONE = "/"
_FILES = files("theodolite.published").joinpath("openood")
_MEANS = {"nearood": NEAR, "farood": FAR}
# The heading of a file of single sets, and our name of the metric: FPR95 is with OOD positive.
_METRICS = {
    "FPR@95": "fpr95_ood_positive",
    "AUROC": "auroc",
    "AUPR_IN": "aupr_in",
    "AUPR_OUT": "aupr_out",
    "ACC": "accuracy",
}


@dataclass(frozen=True)
class Figure:
    """A number in per cent as printed, with the deviation over runs where there are several."""

    mean: str
    deviation: str | None = None

    @classmethod
    def parse(cls, text: str) -> Figure:
        mean, _, deviation = text.partition(_PLUS_MINUS)
        return cls(mean, deviation or None)

    @property
    def value(self) -> float:
        return float(self.mean)

    @property
    def text(self) -> str:
        return self.mean if self.deviation is None else f"{self.mean}{_PLUS_MINUS}{self.deviation}"


@dataclass(frozen=True)
class BoardRow:
    """One row: a post-processor on a network, and how that was trained.

    ``outliers`` says whether training saw outlier data; the accuracy is missing where the network has no
    classifier.
    """

    training: str
    postprocessor: str
    near: Figure
    far: Figure
    accuracy: Figure | None
    outliers: bool
    architecture: str
    description: str


@dataclass(frozen=True)
class BoardCaveat:
    """Why numbers should be read with care, in the words of `published.Caveat`: no boards means all."""

    kind: str
    note: str
    boards: tuple[str, ...] = ()
    row: str | None = None


@dataclass(frozen=True)
class Leaderboard:
    """One table. ``protocol`` is ours of the same data; ``full_spectrum`` counts shifted ID data as ID.

    ``classes`` are those that the networks tell apart.
    """

    name: str
    title: str
    protocol: str
    classes: int
    full_spectrum: bool
    rows: tuple[BoardRow, ...]
    caveats: tuple[BoardCaveat, ...]

    @property
    def architectures(self) -> tuple[str, ...]:
        """In the order of the table."""
        return tuple(dict.fromkeys(row.architecture for row in self.rows))

    @property
    def trainings(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row.training for row in self.rows))


@dataclass(frozen=True)
class SetFigures:
    """The figures of one row by OOD set and metric; ``means`` are those printed for the groups of sets."""

    name: str
    board: str
    training: str
    postprocessor: str
    architecture: str
    sets: Mapping[str, Mapping[str, Figure]]
    groups: Mapping[str, tuple[str, ...]]
    means: Mapping[str, Mapping[str, Figure]]


@dataclass(frozen=True)
class _Board:
    title: str
    protocol: str
    classes: int
    full_spectrum: bool = False


@dataclass(frozen=True)
class _Row:
    board: str
    training: str
    postprocessor: str
    architecture: str


@dataclass(frozen=True)
class _About:
    """``about.json``."""

    source: str
    boards: Mapping[str, _Board]
    sets: Mapping[str, _Row]
    caveats: tuple[BoardCaveat, ...] = field(default_factory=tuple)


def list_leaderboards() -> list[str]:
    """The names of all tables; those that end in ``-full-spectrum`` count shifted ID data as ID."""
    return list(_about().boards)


def find_leaderboard(protocol: str | None, *, full_spectrum: bool = False) -> str | None:
    """The table that was measured on a protocol, or None where there is none."""
    wanted = (protocol, full_spectrum)
    boards = _about().boards.items()
    return next((name for name, board in boards if (board.protocol, board.full_spectrum) == wanted), None)


@cache
def load_leaderboard(name: str) -> Leaderboard:
    """The table called ``name``, one of `list_leaderboards`."""
    about = _about()
    if name not in about.boards:
        raise InputError(
            f"no leaderboard is called {name!r}{did_you_mean(name, about.boards)} "
            f"Known: {', '.join(about.boards)}"
        )
    board = about.boards[name]
    return Leaderboard(
        name,
        board.title,
        board.protocol,
        board.classes,
        board.full_spectrum,
        tuple(_row(row) for row in _lines(f"{name}.csv")),
        tuple(caveat for caveat in about.caveats if not caveat.boards or name in caveat.boards),
    )


def list_set_figures() -> list[str]:
    """The names of all files of single OOD sets."""
    return list(_about().sets)


@cache
def load_set_figures(name: str) -> SetFigures:
    """The figures of a row on single OOD sets, one of `list_set_figures`."""
    rows = _about().sets
    if name not in rows:
        raise InputError(
            f"no file of single sets is called {name!r}{did_you_mean(name, rows)} Known: {', '.join(rows)}"
        )
    row = rows[name]
    sets: dict[str, Mapping[str, Figure]] = {}
    groups: dict[str, tuple[str, ...]] = {}
    means: dict[str, Mapping[str, Figure]] = {}
    open_group: list[str] = []
    for line in _lines(f"sets/{name}.csv"):
        figures = {metric: Figure.parse(line[heading]) for heading, metric in _METRICS.items()}
        # The mean of a group stands below its sets.
        if line[""] in _MEANS:
            group = _MEANS[line[""]]
            groups[group], means[group] = tuple(open_group), figures
            open_group = []
        else:
            sets[line[""]] = figures
            open_group.append(line[""])
    return SetFigures(name, row.board, row.training, row.postprocessor, row.architecture, sets, groups, means)


@cache
def _about() -> _About:
    return from_plain(_About, json.loads(_FILES.joinpath("about.json").read_text(encoding="utf-8")))


def _lines(path: str) -> list[dict[str, str]]:
    text = _FILES.joinpath(*path.split("/")).read_text(encoding="utf-8")
    return list(csv.DictReader(io.StringIO(text, newline="")))


def _row(line: Mapping[str, str]) -> BoardRow:
    accuracy = line["ID_Accuracy"]
    return BoardRow(
        line["Training"],
        line["Postprocessor"],
        Figure.parse(line["Near-OOD_AUROC"]),
        Figure.parse(line["Far-OOD_AUROC"]),
        None if accuracy == _NONE else Figure.parse(accuracy),
        line["Outlier_Data"] == "Yes",
        line["Arch"],
        line["Additional_Description"],
    )
