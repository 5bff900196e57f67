"""Tables as CSV."""

from __future__ import annotations

import csv
import io

from .table import Table


def csv_text(table: Table) -> str:
    """A line of column names, then a line a row; cells as printed, without marks."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(table.full_header)
    writer.writerows((label, *(cell.text for cell in row)) for label, row in table.rows)
    return file.getvalue()
