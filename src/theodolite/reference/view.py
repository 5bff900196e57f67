"""Views: ways to look at features before they are counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from torch import Tensor

from .statistics import Needs

PLAIN = "plain"
# Entries of a batch: 32 MiB of float32, so that a view's own copy of it stays small.
BATCH_ENTRIES = 2**23


@dataclass(frozen=True)
class View:
    """One way to look at the features, and what to remember of what is seen.

    ``width`` is that of what is seen, where it is not the features' own.
    """

    key: str
    apply: Callable[[Tensor], Tensor]
    needs: Needs
    seed: int = 0
    width: int | None = None

    def pieces(
        self, rows: Tensor, labels: Tensor | None, ids: Tensor | None
    ) -> Iterator[tuple[Tensor, Tensor | None, Tensor | None]]:
        """A batch as it is seen; in pieces, so that what is wider than the features stays small."""
        step = len(rows) if self.width is None else max(1, BATCH_ENTRIES // self.width)
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            yield (
                self.apply(rows[part]),
                None if labels is None else labels[part],
                None if ids is None else ids[part],
            )
