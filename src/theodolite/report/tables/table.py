"""A table before it has a form: texts with their digits, the best and the second of a column marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class TableCell:
    """One entry as printed. ``rank`` is 1 for the best of its column, 2 for the second, else 0.

    ``spread`` is the deviation of repeats.
    """

    text: str
    rank: int = 0
    interval: str | None = None
    published: str | None = None
    spread: str | None = None

    @property
    def extras(self) -> str:
        """What follows the number: its deviation, its interval, then the published value."""
        parts = [f"± {self.spread}"] if self.spread else []
        parts += [f"[{self.interval}]"] if self.interval else []
        return " ".join([*parts, f"({self.published})"] if self.published else parts)


@dataclass(frozen=True)
class Table:
    """Rows of cells, each behind its label: numbers, and in the last ``text_columns`` of them texts.

    ``groups`` are headings over several columns behind the label, each with how many. ``name`` is a short
    one, to refer to the table by.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, tuple[TableCell, ...]], ...]
    legend: str = ""
    text_columns: int = 0
    groups: tuple[tuple[str, int], ...] = ()
    name: str = ""

    @property
    def full_header(self) -> tuple[str, ...]:
        """Every column with the heading of its group before its own."""
        above = [group for group, width in self.groups for _ in range(width)]
        if not above:
            return self.header
        first, *others = self.header
        return (first, *(f"{group} {column}" for group, column in zip(above, others, strict=True)))

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Of every column behind the label, whether it holds numbers."""
        count = len(self.header) - 1
        return tuple(place < count - self.text_columns for place in range(count))

    @classmethod
    def of_texts(cls, title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
        """A table of texts, without ranks."""
        cells = tuple((label, tuple(TableCell(text) for text in texts)) for label, *texts in rows)
        return cls(title, tuple(header), cells, text_columns=len(header) - 1)


ABSENT = TableCell("–")


def printed(value: float) -> str:
    """The digits of a measured value, the same in every form."""
    return f"{value:.2f}"


def ranks(texts: Sequence[str], *, lower_is_better: bool) -> list[int]:
    """1 and 2 for the best and the second value, else 0; what prints the same ranks the same.

    What is `ABSENT` has no rank.
    """
    values = [None if text == ABSENT.text else float(text) for text in texts]
    present = [value for value in values if value is not None]
    if len(present) < 2:
        return [0] * len(texts)
    order = sorted(set(present), reverse=not lower_is_better)
    places = {value: place for place, value in enumerate(order[:2], start=1)}
    return [0 if value is None else places.get(value, 0) for value in values]
