"""Tables: one `Table`, printed on the terminal, as Markdown, as LaTeX or as CSV."""

from .csv import csv_text
from .latex import latex
from .leaderboard import leaderboard_of, leaderboard_table, leaderboard_tables
from .markdown import markdown
from .rankings import ranking_table
from .results import long_table, metric_table, metric_tables
from .table import Table, TableCell, printed, ranks
from .terminal import terminal

__all__ = [
    "Table",
    "TableCell",
    "csv_text",
    "latex",
    "leaderboard_of",
    "leaderboard_table",
    "leaderboard_tables",
    "long_table",
    "markdown",
    "metric_table",
    "metric_tables",
    "printed",
    "ranking_table",
    "ranks",
    "terminal",
]
