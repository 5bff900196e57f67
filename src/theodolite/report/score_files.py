"""Verdicts as files: CSV, JSON lines or Parquet, written as they come, in place only when complete."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, get_args, get_type_hints

from ..core.errors import InputError, MissingExtraError
from ..core.files import replacing
from ..guard import PathVerdict


class Sink(Protocol):
    """Takes rows as they come."""

    def write(self, rows: Sequence[PathVerdict]) -> None: ...


class _Nothing:
    def write(self, rows: Sequence[PathVerdict]) -> None:
        """Without a file the summary on screen is all."""


class _Csv:
    def __init__(self, file: Any) -> None:
        self._writer = csv.writer(file, lineterminator="\n")
        self._writer.writerow(PathVerdict._fields)

    def write(self, rows: Sequence[PathVerdict]) -> None:
        self._writer.writerows(rows)


class _JsonLines:
    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, rows: Sequence[PathVerdict]) -> None:
        self._file.writelines(json.dumps(row._asdict(), ensure_ascii=False) + "\n" for row in rows)


class _Parquet:
    def __init__(self, arrow: Any, writer: Any) -> None:
        self._arrow, self._writer = arrow, writer

    def write(self, rows: Sequence[PathVerdict]) -> None:
        if rows:
            table = self._arrow.Table.from_pylist([row._asdict() for row in rows], schema=self._writer.schema)
            self._writer.write_table(table)


@contextmanager
def open_sink(path: str | Path | None) -> Iterator[Sink]:
    """A sink for the kind of file that the suffix names; nothing is left behind if it fails."""
    if path is None:
        yield _Nothing()
        return
    path = Path(path)
    kinds: dict[str, Callable[[Any], Sink]] = {".csv": _Csv, ".jsonl": _JsonLines}
    if path.suffix == ".parquet":
        with replacing(path) as partial, _parquet(partial) as sink:
            yield sink
    elif path.suffix in kinds:
        with replacing(path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
            yield kinds[path.suffix](file)
    else:
        raise InputError(f"{path}: scores are written as .csv, .jsonl or .parquet, not {path.suffix!r}")


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
