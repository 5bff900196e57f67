"""Tables: one `Table`, printed on the terminal, as Markdown, as LaTeX or as CSV."""

from .combined import combined_models, combined_sets, combined_tables
from .csv import csv_text
from .joint import joint_table, joint_tables, metric_tables
from .latex import latex, latex_document
from .leaderboard import leaderboard_of, leaderboard_table, leaderboard_tables
from .markdown import markdown
from .paired import paired_long_table, paired_tables
from .rankings import ranking_table
from .results import long_table, metric_table, model_tables
from .table import Table, TableCell, printed, ranks
from .terminal import terminal
from .view import View

__all__ = [
    "Table",
    "TableCell",
    "View",
    "combined_models",
    "combined_sets",
    "combined_tables",
    "csv_text",
    "joint_table",
    "joint_tables",
    "latex",
    "latex_document",
    "leaderboard_of",
    "leaderboard_table",
    "leaderboard_tables",
    "long_table",
    "markdown",
    "metric_table",
    "metric_tables",
    "model_tables",
    "paired_long_table",
    "paired_tables",
    "printed",
    "ranking_table",
    "ranks",
    "terminal",
]
