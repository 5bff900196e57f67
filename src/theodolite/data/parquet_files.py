"""Parquet files: opened, and read in batches; what Arrow cannot read is an error of ours."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..core.errors import FormatError, MissingExtraError
from .sample import why_unreadable

SUFFIX = ".parquet"


def parquet_file(path: Path) -> Any:
    """An open Parquet file."""
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise MissingExtraError("pyarrow", "parquet") from error
    try:
        return parquet.ParquetFile(path)
    except (ArrowException, OSError) as error:
        raise FormatError(f"{path} is not a readable Parquet file: {why_unreadable(error)}") from error


def read_batches(
    path: Path, file: Any, rows: int, columns: Sequence[str], *, row_groups: list[int] | None = None
) -> Iterator[Any]:
    """Some columns of an open file, so many rows at a time; what cannot be read is an error of ours."""
    from pyarrow import ArrowException

    try:
        yield from file.iter_batches(rows, row_groups=row_groups, columns=list(columns))
    except (ArrowException, OSError) as error:
        raise FormatError(
            f"{path} is damaged, and cannot be read to its end: {why_unreadable(error)}"
        ) from error


def is_whole(kind: str) -> bool:
    """Whether a type of Arrow, by its name, is one of whole numbers."""
    return re.fullmatch(r"u?int(8|16|32|64)", kind) is not None
