"""Features in a Parquet file: a column of lists, or one column a dimension; read in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.errors import InputError
from ..data.bounds import require_unpackable
from ..data.parquet_files import is_whole, parquet_file, read_batches

_WIDEST = 8
# Rows of a column of labels or ids that are read at a time.
_ROWS = 2**16


@dataclass(frozen=True)
class ParquetColumns:
    """Which columns of a file are features, labels and ids; ``lists``: the features are one column."""

    path: Path
    rows: int
    width: int
    dtype: str
    features: tuple[str, ...]
    lists: bool
    labels: str | None
    ids: str | None

    @classmethod
    def open(
        cls, path: Path, features: Sequence[str], labels: Sequence[str], ids: Sequence[str]
    ) -> ParquetColumns:
        """A column of lists under one of the names ``features``, or else all columns that hold numbers."""
        file = parquet_file(path)
        schema, rows = file.schema_arrow, file.metadata.num_rows
        found = [next((name for name in names if name in schema.names), None) for names in (labels, ids)]
        own = [field for field in schema if field.name not in found]
        chosen, lists = _chosen(path, own, features)
        kind = chosen[0].type.value_type if lists else chosen[0].type
        if rows == 0:
            raise InputError(f"{path} holds no rows")
        _require_bounded(path, file.metadata)
        names = tuple(field.name for field in chosen)
        width = len(names)
        if lists:
            width = len(next(read_batches(path, file, 1, names)).column(0)[0].as_py() or ())
        if width == 0:
            raise InputError(f"{path}: the lists of {names[0]} are empty, expected D numbers a row")
        return cls(path, rows, width, str(kind), names, lists, *found)

    def batches(self, step: int) -> Iterator[npt.NDArray[np.floating]]:
        """(n, D) rows, at most ``step`` at a time."""
        start = 0
        for batch in read_batches(self.path, parquet_file(self.path), step, self.features):
            yield self._listed(batch.column(0), start) if self.lists else self._side_by_side(batch)
            start += batch.num_rows

    def column(self, name: str | None) -> npt.NDArray[np.generic] | None:
        """One column whole; labels that are missing are −1."""
        if name is None:
            return None
        found = read_batches(self.path, parquet_file(self.path), _ROWS, [name])
        columns = [batch.column(0) for batch in found]
        if name == self.labels:
            columns = [self._whole(column) for column in columns]
        return np.concatenate([column.to_numpy(zero_copy_only=False) for column in columns])

    def _whole(self, column: Any) -> Any:
        if not is_whole(str(column.type)):
            raise InputError(f"{self.path}: labels are {column.type}, expected whole numbers")
        try:
            return column.cast("int64").fill_null(-1)
        except ValueError as error:  # beyond what 64 bits hold with a sign
            raise InputError(f"{self.path}: labels are out of range, expected 0 or more") from error

    def _side_by_side(self, batch: Any) -> npt.NDArray[np.floating]:
        columns = [batch.column(place).to_numpy(zero_copy_only=False) for place in range(self.width)]
        return np.stack(columns, axis=1)

    def _listed(self, column: Any, start: int) -> npt.NDArray[np.floating]:
        lengths = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        odd = np.flatnonzero(lengths != self.width)
        if len(odd):
            raise InputError(
                f"{self.path}: row {start + int(odd[0])} of {self.features[0]} has {int(lengths[odd[0]])} "
                f"numbers, the rows before it have {self.width}"
            )
        values: npt.NDArray[np.floating] = column.flatten().to_numpy(zero_copy_only=False)
        return values.reshape(-1, self.width)


def _chosen(path: Path, fields: list[Any], names: Sequence[str]) -> tuple[list[Any], bool]:
    """The columns of features, and whether they are one of lists."""
    lists = [field for field in fields if _is_list(field.type)]
    named = [field for field in lists if field.name in names]
    if named or len(lists) == 1:
        (column, *_) = named or lists
        if not _is_float(column.type.value_type):
            raise InputError(
                f"{path}: the lists of {column.name} hold {column.type.value_type}, but features are "
                f"floating-point numbers"
            )
        return [column], True
    others = [f"{field.name} ({field.type})" for field in fields if not _is_float(field.type)]
    if others or not fields:
        raise InputError(
            f"{path}: features are one column of lists called {names[0]}, or one column of floating-point "
            f"numbers a dimension, beside labels and ids; neither are: "
            f"{', '.join(others[:_WIDEST]) or 'there are none'}"
        )
    kinds = {field.type for field in fields}
    if len(kinds) > 1:
        raise InputError(f"{path}: columns of features have different types: {', '.join(map(str, kinds))}")
    return fields, False


def _require_bounded(path: Path, metadata: Any) -> None:
    """A few bytes can stand for a column of equal numbers: what it unpacks to is known beforehand."""
    groups = (metadata.row_group(index) for index in range(metadata.num_row_groups))
    entries = sum(group.column(place).num_values for group in groups for place in range(group.num_columns))
    require_unpackable(path, max(entries * _WIDEST, 0), path.stat().st_size)


def _is_list(kind: Any) -> bool:
    return str(kind).startswith(("list<", "large_list<", "fixed_size_list<"))


def _is_float(kind: Any) -> bool:
    return str(kind) in ("halffloat", "float16", "float", "float32", "double", "float64")
