"""A leaderboard as a table, and measured rows among its own.

A place is that by the mean AUROC of one group of OOD sets. Measured figures stand beside published ones of
the same architecture where the leaderboard has it, and beside all of them where it has not; which
architecture a model has is read from its name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ...benchmarks.result import RunResult
from ...core.errors import InputError, did_you_mean
from ...published import BoardCaveat, BoardRow, Leaderboard, SetFigures, load_leaderboard
from ...published.leaderboard import FAR, NEAR
from .table import Table, TableCell, printed

ACCURACY = "accuracy"
SORTS = (NEAR, FAR, ACCURACY)
HEADER = ("score", "place", NEAR, FAR, ACCURACY, "training", "architecture", "remark")
MEASURED = "measured"
# In the place of a training: what a model is called stands in the title, and may be anything.
_HERE = "measured here"
_TEXTS = 3
_METRIC = "auroc"
# Points of accuracy by which the same weights may differ, for reasons of reading and resizing pictures.
_SAME_WEIGHTS = 0.5
_ANOTHER = "another architecture than the leaderboard's"
# How the names of models spell the architectures of the leaderboard, as words of their own.
_ARCHITECTURES = {
    "ResNet18": r"resnet[-_]?18",
    "ResNet50": r"(?<!wide[-_])resnet[-_]?50",
    "Swin-T": r"swin[-_](t|tiny)",
    "ViT-B/16": r"vit[-_](b|base)[-_/]?(patch)?16",
    "RegNet_Y_16GF": r"regnet[-_]?y[-_]?16(gf|0)",
}


@dataclass(frozen=True)
class Standing:
    """One row, published or measured: figures in per cent, None where there is none."""

    score: str
    near: str
    far: str
    accuracy: str | None
    training: str
    architecture: str
    remark: str
    measured: bool = False

    def figure(self, name: str) -> float | None:
        text = {NEAR: self.near, FAR: self.far, ACCURACY: self.accuracy}[name]
        return None if text is None else float(text.split(" ")[0])


def standings(
    board: Leaderboard, *, architecture: str | None = None, training: str | None = None
) -> list[Standing]:
    """The published rows, of one architecture and one training if these are given."""
    rows = board.rows
    for name, wanted, known in (
        ("architecture", architecture, board.architectures),
        ("training", training, board.trainings),
    ):
        if wanted is not None:
            spelled = {_plain(word): word for word in known}
            if _plain(wanted) not in spelled:
                raise InputError(
                    f"{board.name} has no {name} {wanted!r}{did_you_mean(wanted, known)} It has: "
                    f"{', '.join(known)}"
                )
            rows = tuple(row for row in rows if getattr(row, name) == spelled[_plain(wanted)])
    return [_published(board, row) for row in rows]


def ranked(
    rows: Sequence[Standing], *, sort: str = NEAR, top: int | None = None
) -> list[tuple[int, Standing]]:
    """The rows with their places, best first by ``sort``; ``top`` keeps so many, and every measured one."""
    if sort not in SORTS:
        raise InputError(f"sort must be one of {', '.join(SORTS)}, got {sort!r}")
    ordered = sorted(rows, key=lambda row: -_or_last(row.figure(sort)))
    values = [_or_last(row.figure(sort)) for row in ordered]
    # What is equal shares its place: the first of them, as values stand from high to low.
    placed = [(values.index(value) + 1, row) for value, row in zip(values, ordered, strict=True)]
    return [one for number, one in enumerate(placed) if top is None or number < top or one[1].measured]


def leaderboard_table(
    board: Leaderboard, rows: Sequence[Standing], *, sort: str = NEAR, top: int | None = None
) -> Table:
    """The rows by their places, see `ranked`; the legend says what to read with care."""
    shown = ranked(rows, sort=sort, top=top)
    best = {
        name: sorted({_or_last(row.figure(name)) for row in rows}, reverse=True)[:2] for name in (NEAR, FAR)
    }
    notes = [
        caveat.note if caveat.row is None else f"{caveat.row}: {caveat.note}"
        for caveat in notes_on(board, rows)
    ]
    parts = [
        f"AUROC in %, place by {sort} among {len(rows)} rows",
        *([f"{len(rows) - len(shown)} rows are not shown"] if len(shown) < len(rows) else []),
    ]
    return Table(
        f"OpenOOD v1.5 leaderboard, {board.title}",
        HEADER,
        tuple((_label(row), _cells(row, place, best)) for place, row in shown),
        ". ".join(["; ".join(parts), " ".join(notes).removesuffix(".")]),
        text_columns=_TEXTS,
    )


def notes_on(board: Leaderboard, rows: Sequence[Standing]) -> list[BoardCaveat]:
    """What to read with care in these rows."""
    scores = {row.score for row in rows if not row.measured}
    return [caveat for caveat in board.caveats if caveat.row is None or caveat.row in scores]


def leaderboard_tables(result: RunResult, *, top: int | None = None) -> list[Table]:
    """Of every model that was measured on a leaderboard's data its rows among those published."""
    tables = (leaderboard_of(result, subject, top=top) for subject in result.subjects)
    return [table for table in tables if table is not None]


def leaderboard_of(result: RunResult, subject: str, *, top: int | None = None) -> Table | None:
    """The rows of one model among those published; None where nothing published compares with them."""
    facts = result.subjects.get(subject)
    if facts is None or facts.board is None or not {NEAR, FAR} <= set(result.groups(subject)):
        return None
    board = load_leaderboard(facts.board)
    found = architecture_of(subject, board)
    measured = [
        Standing(
            detector,
            printed(result.cell(subject, detector, NEAR, _METRIC).value),
            printed(result.cell(subject, detector, FAR, _METRIC).value),
            None if facts.accuracy is None else printed(facts.accuracy),
            _HERE,
            found or "",
            _remark(found, facts.accuracy, board),
            measured=True,
        )
        for detector in result.detector_names(subject)
    ]
    table = leaderboard_table(board, [*standings(board, architecture=found), *measured], top=top)
    return replace(table, title=f"{table.title}, with {subject}")


def set_table(board: Leaderboard, found: SetFigures, metric: str) -> Table:
    """What is published of one row on single OOD sets, and the means printed for groups of them."""
    columns = {**found.sets, **found.means}
    row = tuple(TableCell(figures[metric].text) for figures in columns.values())
    title = f"{found.postprocessor} ({found.training}, {found.architecture}), {board.title}: {metric} in %"
    return Table(title, ("score", *columns), ((found.postprocessor, row),))


def architecture_of(model: str, board: Leaderboard) -> str | None:
    """The architecture that a model's name speaks of, if the leaderboard has it."""
    name = model.partition("?")[0].casefold()
    found = [
        word
        for word, pattern in _ARCHITECTURES.items()
        if re.search(rf"(?<![a-z0-9]){pattern}(?![a-z0-9])", name)
    ]
    return found[0] if len(found) == 1 and found[0] in board.architectures else None


def _remark(architecture: str | None, accuracy: float | None, board: Leaderboard) -> str:
    """What sets a measured row apart from those it stands among."""
    if architecture is None:
        return _ANOTHER
    if accuracy is None:
        return "accuracy not known: perhaps other weights"
    same = [row.accuracy for row in board.rows if row.architecture == architecture and row.accuracy]
    near = any(abs(accuracy - figure.value) <= _SAME_WEIGHTS for figure in same)
    return "" if near else "other weights, by its accuracy"


def _published(board: Leaderboard, row: BoardRow) -> Standing:
    outliers = ["trained with outlier data"] if row.outliers else []
    doubts = [f"{caveat.kind}, see below" for caveat in board.caveats if caveat.row == row.postprocessor]
    return Standing(
        row.postprocessor,
        row.near.text,
        row.far.text,
        None if row.accuracy is None else row.accuracy.text,
        row.training,
        row.architecture,
        "; ".join([row.description, *outliers, *doubts]),
    )


def _label(row: Standing) -> str:
    return f"{row.score} ({MEASURED})" if row.measured else row.score


def _cells(row: Standing, place: int, best: Mapping[str, Sequence[float]]) -> tuple[TableCell, ...]:
    figures = []
    for name, text in ((NEAR, row.near), (FAR, row.far)):
        value = _or_last(row.figure(name))
        figures.append(TableCell(text, best[name].index(value) + 1 if value in best[name] else 0))
    texts = (row.training, row.architecture, row.remark)
    return (TableCell(str(place)), *figures, TableCell(row.accuracy or "–"), *map(TableCell, texts))


def _or_last(value: float | None) -> float:
    return -1.0 if value is None else value


def _plain(word: str) -> str:
    return re.sub(r"[^a-z0-9+]", "", word.casefold())
