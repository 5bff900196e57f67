"""Texts in files: JSON lines, tables (.csv, .tsv), and plain lines (.txt).

A row is a sample; its id is that of a column ``id`` without repeats, else ``file#row``. Labels are whole
numbers, or names: names are numbered in alphabetic order, as the sub-folders of a folder of pictures are. A
text that is empty, or no text, is unreadable: an error, or a sample that is skipped.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..core.errors import FormatError, InputError, UnreadableTextError
from .formats import data_format
from .lists import looks_like_list
from .sample import TEXTS, Sample, fingerprint, line
from .text_columns import TEXT_NAMES, Row, TextColumns
from .text_labels import text_labels

# Bytes of a file, which is read as a whole.
_LARGEST = 2**31
# What stands for the content of a row that has no text.
_NONE = "none"


class Texts:
    """Texts with optional labels; those that are None are unreadable."""

    holds = TEXTS
    from_arrays = content_digests = True

    def __init__(
        self,
        ids: Sequence[str],
        texts: Sequence[str | None],
        labels: Sequence[int | None],
        class_names: tuple[str, ...] | None = None,
    ) -> None:
        self.ids, self.texts, self.labels = ids, texts, labels
        self.class_names = class_names

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, index: int) -> Sample:
        return Sample(require_text(self.texts[index], self.ids[index]), self.labels[index], self.ids[index])

    def labels_of_samples(self) -> list[int | None]:
        return list(self.labels)

    def listing(self) -> Iterator[str]:
        for name, label, text in zip(self.ids, self.labels, self.texts, strict=True):
            yield line(name, label, content_of_text(text))


def require_text(text: object, name: str) -> str:
    """A text that says something."""
    if not isinstance(text, str):
        reason = "the row has none" if text is None else f"it is of type {type(text).__name__}"
        raise UnreadableTextError.of(name, reason)
    if not text.strip():
        raise UnreadableTextError.of(name, "it is empty")
    return text


def content_of_text(text: object) -> str:
    """Fingerprint of a text."""
    return fingerprint(text.encode("utf-8", "surrogatepass")) if isinstance(text, str) else _NONE


@data_format("jsonl", title="texts in .jsonl", suffixes=(".jsonl", ".ndjson"))
def open_jsonl(path: Path) -> Texts:
    """A JSON object a line, with a text under ``text`` and perhaps a ``label``."""
    rows: list[Row] = []
    for number, entry in enumerate(_content(path).split("\n"), start=1):
        if not entry.strip():
            continue
        try:
            row = json.loads(entry)
        except ValueError as error:
            raise FormatError(f"{path}, line {number} is no JSON: {error}") from error
        except RecursionError as error:
            raise FormatError(f"{path}, line {number} is nested too deeply") from error
        if not isinstance(row, dict):
            raise FormatError(f'{path}, line {number} is a {type(row).__name__}, expected {{"text": …}}')
        rows.append(row)
    return _of_rows(rows, path)


@data_format("csv", title="texts in .csv", suffixes=(".csv", ".tsv"))
def open_csv(path: Path) -> Texts:
    """A table with the names of its columns in the first row; ``.tsv`` has tabs between them."""
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    try:
        reader = csv.reader(io.StringIO(_content(path), newline=""), delimiter=delimiter, strict=True)
        first, *lines = [cells for cells in reader if cells] or [[]]
    except csv.Error as error:
        raise FormatError(f"{path} is no table of comma-separated values: {error}") from error
    header = [name.strip() for name in first]
    if len(set(header)) < len(header):
        raise FormatError(f"{path} has two columns of one name: {', '.join(header)}")
    if len(header) == 1:
        _require_header(header[0], path)
    for number, cells in enumerate(lines, start=1):
        if len(cells) != len(header):
            raise FormatError(
                f"{path}, row {number} has {len(cells)} cells, expected {len(header)}: a text with a comma "
                f"or a line break in it stands in quotes"
            )
    return _of_rows([dict(zip(header, cells, strict=True)) for cells in lines], path, cells=True)


def _require_header(name: str, path: Path) -> None:
    """Of a table with one column, whether its first row names it, or is a text, or several cells in truth."""
    for mark, called in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars"), (",", "commas")):
        if mark in name:
            remedy = "the name of such a file ends in .tsv" if mark == "\t" else "write it with commas"
            raise FormatError(f"{path} has {called} between its cells ({name!r:.80}): {remedy}")
    if name.lower() not in TEXT_NAMES:
        raise FormatError(
            f"{path} has one column, and its first row {name!r:.80} may be its name or a text: put a row "
            f"{TEXT_NAMES[0]!r} above the texts, or write them as a .txt file, a text a line"
        )


@data_format(
    "text", title="texts, one a line (.txt)", named=lambda path: _is_txt(path) and not looks_like_list(path)
)
def open_lines(path: Path) -> Texts:
    """A text a line, without labels; a line that is empty, but for the last ones, is an empty text."""
    lines = [entry.removesuffix("\r") for entry in _content(path).rstrip().split("\n")]
    if lines == [""]:
        raise InputError(f"{path} holds no texts")
    ids = [f"{path.name}#{row}" for row in range(len(lines))]
    return Texts(ids, lines, [None] * len(lines))


def _is_txt(path: Path) -> bool:
    return path.is_file() and path.suffix.lower() == ".txt"


def _of_rows(rows: Sequence[Row], path: Path, *, cells: bool = False) -> Texts:
    """Rows by the names of their columns; the ``cells`` of a table are texts, also where they are numbers."""
    if not rows:
        raise InputError(f"{path} holds no texts")
    columns = TextColumns.of(rows, str(path))
    ids = _ids(rows, columns, path.name)
    texts = [row.get(columns.text) for row in rows]
    known = [
        None if text is None else str(text) if cells or isinstance(text, str) else None for text in texts
    ]
    if columns.label is None:
        return Texts(ids, known, [None] * len(rows))
    given = [row.get(columns.label) for row in rows]
    return Texts(ids, known, *text_labels(given, ids, f"{path}: column {columns.label!r}"))


def _ids(rows: Sequence[Row], columns: TextColumns, file: str) -> list[str]:
    """Those of the column of ids; where it has one twice, or there is none, the places in the file."""
    places = [f"{file}#{place}" for place in range(len(rows))]
    if columns.id is None:
        return places
    given = zip((row.get(columns.id) for row in rows), places, strict=True)
    known = [place if one is None or one == "" else str(one) for one, place in given]
    return known if len(set(known)) == len(known) else places


def _content(path: Path) -> str:
    size = path.stat().st_size
    if size > _LARGEST:
        raise InputError(f"{path} has {size:,} bytes, more than is read at once: split it into parts")
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(f"{path} is no text in UTF-8: {error.reason} at byte {error.start:,}") from error
    except OSError as error:
        raise InputError(f"{path} cannot be opened: {error.strerror}") from error
