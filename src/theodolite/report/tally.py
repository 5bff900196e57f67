"""Verdicts counted, with the few strangest: what is worth saying of rows that are too many to look at."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence

from ..guard import PathVerdict
from ..guard.verdicts import ID, OOD

_NAMED = 5


class Tally:
    """Counts of everything, and the ``shown`` strangest rows: memory does not grow with the samples.

    Tallies of parts of the rows are added to that of all (`merge`).
    """

    def __init__(self, shown: int) -> None:
        self.shown = shown
        self.verdicts: Counter[str] = Counter()
        self.strangest: list[PathVerdict] = []
        self.unjudged: dict[str, list[str]] = {}

    @property
    def count(self) -> int:
        """Samples that have a score."""
        return self.verdicts[ID] + self.verdicts[OOD]

    @property
    def all_trusted(self) -> bool:
        """Every sample has a verdict, and it is ID."""
        return self.verdicts.total() == self.verdicts[ID]

    def add(self, rows: Sequence[PathVerdict]) -> None:
        """Further rows."""
        self.verdicts.update(row.verdict for row in rows)
        self._keep([row for row in rows if row.verdict in (ID, OOD)])
        for row in rows:
            if row.verdict not in (ID, OOD):
                self._name(row.verdict, [row.path])

    def merge(self, other: Tally) -> None:
        """The rows of another tally."""
        self.verdicts.update(other.verdicts)
        self._keep(other.strangest)
        for verdict, names in other.unjudged.items():
            self._name(verdict, names)

    def _keep(self, judged: Sequence[PathVerdict]) -> None:
        self.strangest = heapq.nsmallest(self.shown, [*self.strangest, *judged], key=_strangeness)

    def _name(self, verdict: str, paths: Sequence[str]) -> None:
        names = self.unjudged.setdefault(verdict, [])
        names += paths[: _NAMED - len(names)]


def _strangeness(row: PathVerdict) -> tuple[float, float, str]:
    """The lowest p-value comes first, and of equal ones the lowest score."""
    assert row.p_value is not None
    assert row.score is not None
    return row.p_value, row.score, row.path
