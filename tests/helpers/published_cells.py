"""The cells of all published tables, for the tests that read them."""

from __future__ import annotations

from collections.abc import Iterator

from theodolite.published import PublishedCell, list_tables, load_table


def all_cells() -> Iterator[PublishedCell]:
    for name in list_tables():
        yield from load_table(name).cells()


def cell(table: str, row: str, column: str) -> PublishedCell:
    (found,) = (c for c in load_table(table).cells() if (c.row, c.column) == (row, column))
    return found


def has(found: PublishedCell, kind: str) -> bool:
    return any(caveat.kind == kind for caveat in found.caveats)
