"""The cells of all published tables, for the tests that read them."""

from __future__ import annotations

from collections.abc import Iterator

from theodolite.published import Cell, list_tables, load_table


def all_cells() -> Iterator[Cell]:
    for name in list_tables():
        yield from load_table(name).cells()


def cell(table: str, row: str, column: str) -> Cell:
    (found,) = (c for c in load_table(table).cells() if (c.row, c.column) == (row, column))
    return found


def has(found: Cell, kind: str) -> bool:
    return any(caveat.kind == kind for caveat in found.caveats)
