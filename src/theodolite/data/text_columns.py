"""Which column of a table holds the texts, which the labels: by their usual names, or as the only one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ..core.errors import InputError

# A row, by the names of its columns.
Row: TypeAlias = Mapping[str, object]

TEXT_NAMES = ("text", "texts", "sentence", "utterance", "content", "query", "review", "document", "body")
LABEL_NAMES = ("label", "labels", "intent", "class", "category", "target", "y")
_IDS = ("id", "ids", "idx", "key", "guid")
# Columns that a message names.
_NAMED = 8


@dataclass(frozen=True)
class TextColumns:
    """The columns of texts, labels and ids, by name."""

    text: str
    label: str | None
    id: str | None

    @classmethod
    def of(cls, rows: Sequence[Row], what: str) -> TextColumns:
        """The columns of rows; ``what`` is where they are from."""
        names = list(dict.fromkeys(name for row in rows for name in row))
        texts = [name for name in names if any(isinstance(row.get(name), str) for row in rows)]
        return cls.among(names, texts, what)

    @classmethod
    def among(cls, names: Sequence[str], texts: Sequence[str], what: str) -> TextColumns:
        """The columns among ``names``, of which ``texts`` hold texts."""
        label = _usual(names, LABEL_NAMES)
        known = _usual(names, _IDS)
        found = [name for name in texts if name.lower() in TEXT_NAMES]
        others = [name for name in texts if name not in (label, known)]
        chosen = found or others
        if len(chosen) != 1:
            told = f"{len(chosen)} columns may hold the texts" if chosen else "no column holds texts"
            raise InputError(
                f"{what}: {told} (it has {', '.join(map(str, names[:_NAMED])) or 'none'}): call the one that "
                f"does {TEXT_NAMES[0]!r}, and the labels {LABEL_NAMES[0]!r}"
            )
        return cls(chosen[0], cls.usual_label(names, chosen[0]), known)

    @staticmethod
    def usual_label(names: Sequence[str], text: str | None) -> str | None:
        """The column of labels by its name; the one of texts is none."""
        found = _usual(names, LABEL_NAMES)
        return None if found == text else found


def _usual(names: Sequence[str], usual: Sequence[str]) -> str | None:
    """The column with a usual name, the most usual first."""
    return next((name for wanted in usual for name in names if name.lower() == wanted), None)
