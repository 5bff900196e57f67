"""Scores as a stream: what `open_sink` wrote, read row by row in order, from files or from standard input.

CSV, JSON lines and Parquet are told apart by what they hold. A text with one number a line is a stream, too;
it has no p-values that would show whose scores they are.
"""

from __future__ import annotations

import csv
import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from ..core.arrays import FloatArray
from ..core.errors import FormatError, InputError, MissingExtraError
from ..core.files import parse_json
from ..guard import Calibration, ClassCalibration
from ..guard.verdicts import ID, OOD

STANDARD_INPUT = "-"
_COLUMNS = ("path", "predicted", "score", "p_value", "verdict")
# A line holds a path, a class and two numbers; a batch of rows must fit in memory, whatever the file holds.
_LINE = 2**16
_BATCH = 1_024
_PARQUET = b"PAR1"
# P-values are written with all their digits; other programs may round what they pass on.
_ROUNDING = 1e-6


class StreamRow(NamedTuple):
    """One sample: where it stands, its path and class, its score (NaN if it has none), its p-value."""

    place: str
    path: str | None
    score: float
    p_value: float | None
    predicted: int | None = None


def read_stream(path: str) -> Iterator[StreamRow]:
    """The rows of a file of scores; ``-`` is standard input, every row as soon as it is there."""
    if path == STANDARD_INPUT:
        yield from _text(sys.stdin.buffer, "standard input")
        return
    place = Path(path)
    if not place.is_file():
        raise InputError(f"no such file of scores: {path}")
    with place.open("rb") as file:
        if file.read(len(_PARQUET)) == _PARQUET:
            yield from _parquet(place)
            return
        file.seek(0)
        yield from _text(file, path)


def scores_of(rows: Sequence[StreamRow], calibration: Calibration) -> tuple[FloatArray, FloatArray]:
    """Scores, and the p-values that the calibration gives them; NaN where there is none.

    Rows that came with other p-values are another guard's, and refused. A calibration by class knows none of
    a row without class.
    """
    scores = np.array([row.score for row in rows], dtype=np.float64)
    own = np.full(len(rows), math.nan)
    classes = len(calibration.groups) if isinstance(calibration, ClassCalibration) else None
    known = [
        index for index, row in enumerate(rows) if not math.isnan(row.score) and _has_class(row, classes)
    ]
    if known:
        predicted = None if classes is None else np.array([rows[index].predicted for index in known])
        own[known] = calibration.p_values(scores[known], predicted)
    for row, expected in zip(rows, own.tolist(), strict=True):
        if row.p_value is not None and not abs(row.p_value - expected) <= _ROUNDING:
            raise InputError(
                f"{row.place}: the row says that score {row.score:.9g} has p-value {row.p_value:.6g}, but "
                f"with this guard's calibration it is {expected:.6g}. The scores are another guard's, or of "
                f"another calibration: score the data again with this guard"
            )
    return scores, own


def _has_class(row: StreamRow, classes: int | None) -> bool:
    """Whether a row has one of so many classes, or needs none."""
    return classes is None or (row.predicted is not None and 0 <= row.predicted < classes)


def _text(file: BinaryIO, name: str) -> Iterator[StreamRow]:
    """Rows of text; what kind it is, the first line says."""
    lines = _lines(file, name)
    first = next(lines, None)
    if first is None:
        return
    everything = chain([first], lines)
    if first[1].lstrip().startswith("{"):
        yield from _json_lines(everything, name)
    elif _number(first[1]) is None:
        yield from _csv(everything, name)
    else:
        yield from _numbers(everything, name)


def _lines(file: BinaryIO, name: str) -> Iterator[tuple[int, str]]:
    """Lines that are not blank, with their numbers; of bounded length."""
    number = 0
    while line := file.readline(_LINE + 1):
        number += 1
        if len(line) > _LINE:
            raise FormatError(
                f"{name}, line {number} is longer than {_LINE:,} bytes: it is no file of scores"
            )
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise FormatError(f"{name}, line {number} is not UTF-8: it is no file of scores") from error
        if text.strip():
            yield number, text


def _json_lines(lines: Iterable[tuple[int, str]], name: str) -> Iterator[StreamRow]:
    for number, line in lines:
        place = f"{name}, line {number}"
        content = parse_json(line, place)
        if not isinstance(content, Mapping):
            raise FormatError(f"{place} is not a JSON object with path, score, p_value and verdict")
        _require_columns(content, place)
        yield _row(place, content)


def _csv(lines: Iterator[tuple[int, str]], name: str) -> Iterator[StreamRow]:
    reader = csv.reader(text for _, text in lines)
    try:
        header = next(reader)
        _require_columns(header, name)
        for count, cells in enumerate(reader, start=1):
            place = f"{name}, row {count}"
            if len(cells) != len(header):
                raise FormatError(f"{place} has {len(cells)} cells, but the header has {len(header)}")
            yield _row(place, {key: cell or None for key, cell in zip(header, cells, strict=True)})
    except csv.Error as error:
        raise FormatError(f"{name} is not CSV that can be read: {error}") from error


def _numbers(lines: Iterable[tuple[int, str]], name: str) -> Iterator[StreamRow]:
    for number, line in lines:
        score = _number(line)
        if score is None:
            raise FormatError(f"{name}, line {number} is not a number: {_shown(line.strip())}")
        yield StreamRow(f"{name}, line {number}", None, score, None)


def _parquet(path: Path) -> Iterator[StreamRow]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise MissingExtraError("pyarrow", "parquet") from error
    count = 0
    try:
        with parquet.ParquetFile(path) as file:
            _require_columns(file.schema_arrow.names, str(path))
            for batch in file.iter_batches(_BATCH, columns=list(_COLUMNS)):
                for content in batch.to_pylist():
                    count += 1
                    yield _row(f"{path}, row {count}", content)
    except (ArrowException, OSError) as error:
        raise FormatError(f"{path} is not Parquet that can be read: {error}") from error


def _require_columns(names: Iterable[str], place: str) -> None:
    missing = [name for name in _COLUMNS if name not in set(names)]
    if missing:
        raise FormatError(
            f"{place} has no {' and no '.join(missing)}: expected rows as `theodolite score -o` writes them, "
            f"or one number a line"
        )


def _row(place: str, content: Mapping[str, object]) -> StreamRow:
    """A row that agrees with itself: a score and its p-value, or a verdict that there is none."""
    path = content["path"]
    score, p_value = (_cell(content[name], name, place) for name in ("score", "p_value"))
    if (score is None) != (p_value is None) or (score is None) != (content["verdict"] not in (ID, OOD)):
        raise FormatError(
            f"{place} contradicts itself: score {_shown(content['score'])}, p_value "
            f"{_shown(content['p_value'])}, verdict {_shown(content['verdict'])}"
        )
    named = path if isinstance(path, str) else None
    predicted = _cell(content["predicted"], "predicted", place)
    label = None if predicted is None or math.isinf(predicted) else int(predicted)
    return StreamRow(place, named, math.nan if score is None else score, p_value, label)


def _cell(value: object, name: str, place: str) -> float | None:
    number = _number(value)
    if number is None and value is not None:
        raise FormatError(f"{place}: {name} must be a number, got {_shown(value)}")
    return None if number is None or math.isnan(number) else number


def _number(value: object) -> float | None:
    """A number, or the text of one."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _shown(value: object) -> str:
    """A value of a stranger's file in a message: as JSON, and not longer than a line."""
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 40 else text[:40] + "…"
