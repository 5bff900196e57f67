"""Texts in files: JSON lines, tables (.csv, .tsv), and plain lines (.txt).

A row is a sample; its id is that of a column ``id``, else ``file#row``. Labels are whole numbers, or names:
names are numbered in alphabetic order, as the sub-folders of a folder of pictures are. A text that is empty,
or no text, is unreadable: an error, or a sample that is skipped.
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
from .sample import TEXTS, Sample, fingerprint, line, whole_label
from .text_columns import Row, TextColumns

# Bytes of a file, which is read as a whole.
_LARGEST = 2**31
# What stands for the content of a row that has no text.
_NONE = "none"
_DIGITS = 12


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

    @classmethod
    def named(cls, ids: Sequence[str], texts: Sequence[str | None], labels: Sequence[str | None]) -> Texts:
        """Texts whose labels are names."""
        names = tuple(sorted({label for label in labels if label is not None}))
        numbers = {name: number for number, name in enumerate(names)}
        return cls(ids, texts, [None if label is None else numbers[label] for label in labels], names)

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
        header, *lines = [cells for cells in reader if cells] or [[]]
    except csv.Error as error:
        raise FormatError(f"{path} is no table of comma-separated values: {error}") from error
    if len(set(header)) < len(header):
        raise FormatError(f"{path} has two columns of one name: {', '.join(header)}")
    for number, cells in enumerate(lines, start=1):
        if len(cells) != len(header):
            raise FormatError(
                f"{path}, row {number} has {len(cells)} cells, expected {len(header)}: a text with a comma "
                f"or a line break in it stands in quotes"
            )
    return _of_rows([dict(zip(header, cells, strict=True)) for cells in lines], path, cells=True)


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
    ids = [_id(row, columns, f"{path.name}#{place}") for place, row in enumerate(rows)]
    texts = [row.get(columns.text) for row in rows]
    known = [
        None if text is None else str(text) if cells or isinstance(text, str) else None for text in texts
    ]
    if columns.label is None:
        return Texts(ids, known, [None] * len(rows))
    found = [_label(row.get(columns.label)) for row in rows]
    names = [label for label in found if isinstance(label, str)]
    if not names:
        pairs = zip(found, ids, strict=True)
        return Texts(ids, known, [whole_label(label, name) for label, name in pairs])
    if len(names) + found.count(None) < len(found):
        raise InputError(f"{path}: column {columns.label!r} holds names as well as numbers, expected either")
    return Texts.named(ids, known, [label if isinstance(label, str) else None for label in found])


def _label(label: object) -> object:
    """The label of a row: an empty one is none, and what is written as a number is one."""
    if not isinstance(label, str):
        return label
    text = label.strip()
    number = text.isascii() and text.removeprefix("-").isdecimal() and len(text) < _DIGITS
    return int(text) if number else text or None


def _id(row: Row, columns: TextColumns, otherwise: str) -> str:
    named = None if columns.id is None else row.get(columns.id)
    return otherwise if named is None or named == "" else str(named)


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
