"""Verdicts as files: CSV, JSON lines or Parquet, written as they come, in place only when complete.

The path ``-`` is standard output: whoever reads it gets every row as soon as it is known.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import Any, Protocol, TextIO, TypedDict, get_args, get_type_hints

from ..core.errors import InputError, MissingExtraError
from ..core.files import replacing
from ..guard import PathVerdict


class Encoding(TypedDict):
    """How text becomes bytes."""

    encoding: str
    errors: str


STANDARD_OUTPUT = "-"
_PARQUET = "parquet"
_AS_UTF8: Encoding = {"encoding": "utf-8", "errors": "backslashreplace"}


class Sink(Protocol):
    """Takes rows as they come."""

    def write(self, rows: Sequence[PathVerdict]) -> None: ...


class _Nothing:
    def write(self, rows: Sequence[PathVerdict]) -> None:
        """Without a file the summary on screen is all."""


class _Csv:
    def __init__(self, file: TextIO) -> None:
        self._writer = csv.writer(file, lineterminator="\n")
        self._writer.writerow(PathVerdict._fields)

    def write(self, rows: Sequence[PathVerdict]) -> None:
        self._writer.writerows(rows)


class _JsonLines:
    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, rows: Sequence[PathVerdict]) -> None:
        self._file.writelines(json.dumps(row._asdict(), ensure_ascii=False) + "\n" for row in rows)


class _Parquet:
    def __init__(self, arrow: Any, writer: Any) -> None:
        self._arrow, self._writer = arrow, writer

    def write(self, rows: Sequence[PathVerdict]) -> None:
        if rows:
            known = [{**row._asdict(), "path": row.path.encode(**_AS_UTF8).decode()} for row in rows]
            table = self._arrow.Table.from_pylist(known, schema=self._writer.schema)
            self._writer.write_table(table)


_TEXTS: dict[str, Callable[[TextIO], Sink]] = {"csv": _Csv, "jsonl": _JsonLines}


@contextmanager
def open_sink(path: str | Path | None, *, kind: str | None = None) -> Iterator[Sink]:
    """A sink for a file; nothing is left behind if it fails.

    ``kind`` is ``csv``, ``jsonl`` or ``parquet``, by default what the suffix says, in capitals or not. The
    path ``-`` is standard output, by default CSV. Names of files that are no UTF-8 are written with their
    odd bytes as ``\\udc…``, which JSON reads back as Python names such files.
    """
    if path is None:
        yield _Nothing()
        return
    chosen = _kind(str(path), kind)
    if str(path) == STANDARD_OUTPUT:
        with _standard_output() as file:
            yield _TEXTS[chosen](file)
    elif chosen == _PARQUET:
        with replacing(Path(path)) as partial, _parquet(partial) as sink:
            yield sink
    else:
        with replacing(Path(path)) as partial, partial.open("w", newline="", **_AS_UTF8) as file:
            yield _TEXTS[chosen](file)


def _kind(path: str, kind: str | None) -> str:
    """What kind of file is to be written, if it can be."""
    piped = path == STANDARD_OUTPUT
    chosen = kind or ("csv" if piped else Path(path).suffix.lower().removeprefix("."))
    if chosen not in (*_TEXTS, _PARQUET):
        if kind is not None:
            raise InputError(f"scores are written as csv, jsonl or parquet, not {kind!r}")
        raise InputError(
            f"{path}: scores are written as .csv, .jsonl or .parquet, not {Path(path).suffix!r}. "
            f"Remedy: use one of these suffixes, or name the format (--format; kind= in Python)"
        )
    if piped and chosen == _PARQUET:
        raise InputError("parquet cannot go to standard output: choose csv or jsonl, or name a file")
    return chosen


@contextmanager
def _standard_output() -> Iterator[TextIO]:
    """Standard output as a file is written: UTF-8, line ends as they are; left open."""
    sys.stdout.flush()
    file = TextIOWrapper(sys.stdout.buffer, newline="", line_buffering=True, **_AS_UTF8)
    try:
        yield file
    finally:
        file.detach()


@contextmanager
def _parquet(path: Path) -> Iterator[Sink]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtraError("pyarrow", "parquet") from error
    kinds = {str: pyarrow.string(), int: pyarrow.int64(), float: pyarrow.float64()}
    hints = get_type_hints(PathVerdict).items()
    schema = pyarrow.schema([(name, kinds[(get_args(kind) or (kind,))[0]]) for name, kind in hints])
    with parquet.ParquetWriter(path, schema) as writer:
        yield _Parquet(pyarrow, writer)
