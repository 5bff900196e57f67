"""Pictures in Parquet: a column of encoded pictures, or of where they are; one file, a folder, a pattern.

What is read to open them is the footers: how many rows each file has. A row is read when its turn comes, with
its neighbours, so that a run of rows costs what it holds, wherever in a hundred million it begins.
"""

from __future__ import annotations

import threading
import warnings
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, TypeAlias

from ..core.errors import FormatError, InputError, TheodoliteWarning, UnreadableImageError
from .digests import MISSING
from .formats import data_format
from .parquet_files import SUFFIX, is_whole, parquet_file, read_batches
from .sample import Sample, decode_image, fingerprint, line, whole_label, why_unreadable

# A row, by the names of its columns.
Cells: TypeAlias = dict[str, Any]

_PICTURES = ("image", "picture", "img", "bytes", "content", "data")
_PLACES = ("uri", "url", "path", "file", "file_name", "filename", *_PICTURES)
_LABELS = ("label", "labels", "target", "y")
_IDS = ("id", "ids", "key", "name", "path", "uri", "file_name", "filename")
# Rows that are decoded from a file at a time.
_ROWS = 32
# Ids that are looked at, of all files together and of each.
_LOOKED_AT, _LOOKED_AT_LEAST = 2**20, 1024


@dataclass(frozen=True)
class PictureColumns:
    """The columns of a file: encoded pictures, or ``places`` where they are; labels and ids if it has any."""

    pictures: str
    places: bool
    label: str | None
    id: str | None

    @classmethod
    def of(cls, schema: Any) -> PictureColumns | None:
        """None where the file holds no pictures: lists of numbers are features, whatever their ids."""
        kinds = {field.name: str(field.type) for field in schema}
        found = next((name for name in _PICTURES if name in kinds and _is_encoded(kinds[name])), None)
        encoded = [name for name, kind in kinds.items() if _is_encoded(kind)]
        picture = found or (encoded[0] if len(encoded) == 1 else None)
        features = any("list<" in kind and ("float" in kind or "double" in kind) for kind in kinds.values())
        if picture is None and not features:
            picture = next((name for name in _PLACES if kinds.get(name) in ("string", "large_string")), None)
        if picture is None:
            return None
        label = next((name for name in _LABELS if is_whole(kinds.get(name, ""))), None)
        names = (name for name in _IDS if name in kinds and name != picture)
        known = next((name for name in names if not _is_encoded(kinds[name])), None)
        return cls(picture, not _is_encoded(kinds[picture]), label, known)

    @property
    def read(self) -> list[str]:
        return [name for name in (self.pictures, self.label, self.id) if name is not None]


def _is_encoded(kind: str) -> bool:
    return kind in ("binary", "large_binary") or (kind.startswith("struct<") and "bytes: binary" in kind)


class ParquetPictures:
    """Rows of Parquet files, one after the other; ids are those of their column, or ``file#row``."""

    class_names = None
    content_digests = True

    def __init__(self, files: Sequence[Path], rows: Sequence[int], columns: PictureColumns) -> None:
        self.files, self.rows, self.columns = tuple(files), tuple(rows), columns
        self._ends = [*accumulate(rows)]
        self._window = _Window()
        self._turn = threading.Lock()

    def __reduce__(self) -> tuple[type[ParquetPictures], tuple[object, ...]]:
        return ParquetPictures, (self.files, self.rows, self.columns)

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, index: int) -> Sample:
        if not 0 <= index < len(self):
            raise IndexError(index)
        row, name = self._row(index)
        content = self._content(row, name)
        return Sample(decode_image(content, name), self._label(row, name), name)

    def labels_of_samples(self) -> list[int | None]:
        if self.columns.label is None:
            return [None] * len(self)
        name = self.columns.label
        batches = (read_batches(file, parquet_file(file), _LOOKED_AT_LEAST, [name]) for file in self.files)
        labels = (batch.column(0).to_pylist() for found in batches for batch in found)
        return [whole_label(label, name) for found in labels for label in found]

    def listing(self) -> Iterator[str]:
        return self.listing_of(range(len(self)))

    def listing_of(self, run: range) -> Iterator[str]:
        """The lines of neighbouring samples."""
        for index in run:
            row, name = self._row(index)
            try:
                content = self._content(row, name)
                said = f"{len(content)}:{fingerprint(content)}"
            except UnreadableImageError:
                said = MISSING
            yield line(name, self._label(row, name), said)

    def known_file(self) -> Path | None:
        """A picture that is here, where the rows say where pictures are: other machines must see it, too."""
        cell = self._row(0)[0][self.columns.pictures] if self.columns.places else None
        if cell is None or "://" in cell:
            return None
        place = Path(cell).expanduser()
        return place.absolute() if place.is_file() else None

    def _row(self, index: int) -> tuple[Cells, str]:
        """The cells of a row, and its id."""
        place = bisect_right(self._ends, index)
        inside = index - (self._ends[place] - self.rows[place])
        with self._turn:
            row = self._window.row(self.files[place], inside, self.columns.read)
        named = row.get(self.columns.id or "")
        if named is None and self.columns.places:
            named = row[self.columns.pictures]
        return row, f"{self.files[place].name}#{inside}" if named is None else str(named)

    def _label(self, row: Cells, name: str) -> int | None:
        return None if self.columns.label is None else whole_label(row[self.columns.label], name)

    def _content(self, row: Cells, name: str) -> bytes:
        cell = row[self.columns.pictures]
        content = held_in(cell) if isinstance(cell, dict) else cell
        if content is None:
            raise UnreadableImageError.of(name, "the row has none")
        return fetched(content, name) if isinstance(content, str) else bytes(content)


class _Window:
    """A few neighbouring rows of a file, and how to go on from there."""

    def __init__(self) -> None:
        self._at: tuple[Path, int] | None = None
        self._batches: Iterator[Any] = iter(())
        self._rows: list[Cells] = []
        self._start = 0

    def row(self, file: Path, index: int, columns: list[str]) -> Cells:
        if self._at is None or self._at[0] != file or index < self._start or index >= self._at[1]:
            self._open(file, parquet_file(file), index, columns)
        while index >= self._start + len(self._rows):
            self._start += len(self._rows)
            try:
                self._rows = next(self._batches).to_pylist()
            except FormatError:
                self._at = None  # whoever asks again is told again
                raise
        return self._rows[index - self._start]

    def _open(self, path: Path, file: Any, index: int, columns: list[str]) -> None:
        """At the beginning of the row group that the row is in."""
        start = 0
        for group in range(file.metadata.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if index < start + rows:
                self._batches = read_batches(path, file, _ROWS, columns, row_groups=[group])
                self._rows, self._start, self._at = [], start, (path, start + rows)
                return
            start += rows
        raise FormatError(f"{path} has fewer rows than its footer said: it was written over meanwhile")


def picture_columns(path: Path) -> PictureColumns | None:
    """The columns of a Parquet file of pictures; None where it holds none."""
    return PictureColumns.of(parquet_file(path).schema_arrow)


def _files(path: Path) -> list[Path]:
    found = (
        path.glob(f"*{SUFFIX}") if path.is_dir() else [path] if path.exists() else path.parent.glob(path.name)
    )
    return sorted(found)


@data_format(
    "parquet",
    title="Parquet with a column of pictures",
    place="either",
    suffixes=(SUFFIX,),
    named=lambda path: path.is_dir() and next(path.glob(f"*{SUFFIX}"), None) is not None,
    patterns=True,
)
def open_parquet(path: Path) -> ParquetPictures:
    """Parquet files with a column of encoded pictures (``image``), or of where they are (``uri``)."""
    files = _files(path)
    if not files:
        raise InputError(f"{path} holds no Parquet files")
    opened = [parquet_file(file) for file in files]
    columns = PictureColumns.of(opened[0].schema_arrow)
    if columns is None:
        raise InputError(
            f"{files[0]} has no column of pictures: expected one of their bytes, or of where they are, "
            f"called {', '.join(_PICTURES[:3])} or {', '.join(_PLACES[:3])}; it has "
            f"{', '.join(opened[0].schema_arrow.names[:8])}"
        )
    for file, found in zip(files, opened, strict=True):
        if PictureColumns.of(found.schema_arrow) != columns:
            raise InputError(
                f"{file} has other columns than {files[0]}: pictures of one data set have the same"
            )
    rows = [found.metadata.num_rows for found in opened]
    if not sum(rows):
        raise InputError(f"{path} holds no rows")
    _warn_unused(files[0], opened[0].schema_arrow, columns)
    return ParquetPictures(files, rows, _told_apart(files, opened, columns))


def _warn_unused(path: Path, schema: Any, columns: PictureColumns) -> None:
    """Say that a column of labels is none, for it holds no whole numbers."""
    named = next((field for field in schema if field.name in _LABELS), None)
    if columns.label is None and named is not None:
        warnings.warn(
            f"{path}: the column {named.name} holds {named.type}, and labels are whole numbers: the pictures "
            f"have none",
            TheodoliteWarning,
            stacklevel=2,
        )


def _told_apart(files: Sequence[Path], opened: Sequence[Any], columns: PictureColumns) -> PictureColumns:
    """Without a column of ids that calls several rows the same: a share that is held out by them would be
    whole classes. Up to a million rows are looked at, of every file the first."""
    if columns.id is None:
        return columns
    each = max(_LOOKED_AT_LEAST, _LOOKED_AT // len(files))
    seen: set[int] = set()
    for path, file in zip(files, opened, strict=True):
        batches = read_batches(path, file, _LOOKED_AT_LEAST, [columns.id])
        cells = (cell for batch in batches for cell in batch.column(0).to_pylist())
        for cell in islice(cells, each):
            if cell is not None and hash(str(cell)) in seen:
                warnings.warn(
                    f"{path}: the column {columns.id} calls several rows {str(cell)!r:.80}, so it does not "
                    f"tell them apart: they are called FILE#ROW",
                    TheodoliteWarning,
                    stacklevel=2,
                )
                return replace(columns, id=None)
            seen.add(hash(str(cell)))
    return columns


def held_in(cell: Cells) -> bytes | str | None:
    """What a struct of Hugging Face holds: the bytes of a picture, or the path where they are."""
    content = cell.get("bytes")
    return cell.get("path") if content is None else content


def fetched(place: str, name: str) -> bytes:
    """The bytes of a file: a path, or an address that Arrow has a file system for (s3://, gs://, hdfs://)."""
    try:
        if "://" not in place:
            return Path(place).expanduser().read_bytes()
        from pyarrow import fs

        system, path = fs.FileSystem.from_uri(place)
        with system.open_input_stream(path) as stream:
            content: bytes = stream.read()
            return content
    except Exception as error:  # of any file system
        raise UnreadableImageError.of(name, why_unreadable(error)) from error
