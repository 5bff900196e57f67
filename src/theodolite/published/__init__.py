"""Published numbers, to stand next to what we measure: every table of the ORA paper as data."""

from .tables import (
    AVERAGE,
    DEFAULTS,
    Caveat,
    Column,
    Option,
    Options,
    PublishedCell,
    PublishedTable,
    Row,
    backbones,
    list_tables,
    load_table,
    lookup,
)

__all__ = [
    "AVERAGE",
    "DEFAULTS",
    "Caveat",
    "Column",
    "Option",
    "Options",
    "PublishedCell",
    "PublishedTable",
    "Row",
    "backbones",
    "list_tables",
    "load_table",
    "lookup",
]
