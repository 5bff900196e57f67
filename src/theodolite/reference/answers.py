"""What the head answered to the rows: sums that merge, as those of the rows themselves do."""

from __future__ import annotations

import torch
from torch import Tensor

from .head import Head
from .likelihood import Likelihood
from .moments import Moments

# Rows whose logits are there at the same time.
_ANSWERED_AT_ONCE = 1024


class Answers:
    """Sums over rows that a head has answered; a part that is not asked for is None.

    ``right``: rows that were answered right, by class. ``softmax``: the probabilities that came with an
    answer, by answer. ``likelihood``: how likely the labels are at every temperature. ``rows`` were answered.
    """

    def __init__(self, width: int, classes: int, *, right: bool, softmax: bool, likelihood: bool) -> None:
        self.rows = 0
        self.right = Moments(width, classes, scatter=False) if right else None
        self.softmax = Moments(classes, classes, scatter=False) if softmax else None
        self.likelihood = Likelihood() if likelihood else None

    def update(self, head: Head, rows: Tensor, labels: Tensor | None) -> Tensor:
        """Add rows (n, D) that went through `Head.prepare`; returns the answers (n,)."""
        self.rows += len(rows)
        given = None if labels is None else labels.to(rows.device)
        found = []
        for start in range(0, len(rows), _ANSWERED_AT_ONCE):
            part = slice(start, start + _ANSWERED_AT_ONCE)
            found.append(self._update(head, rows[part], None if given is None else given[part]))
        return torch.cat(found)

    def _update(self, head: Head, rows: Tensor, labels: Tensor | None) -> Tensor:
        # A float32 product is rounded by how many rows it has: halves would not quite make the whole.
        logits = head.logits(rows.double())
        answers = logits.argmax(dim=1)
        if self.softmax is not None:
            self.softmax.update(logits.softmax(dim=1), answers)
        if labels is not None:
            right = answers == labels
            if self.right is not None and bool(right.any()):
                self.right.update(rows[right], answers[right])
            if self.likelihood is not None:
                self.likelihood.update(logits, labels)
        return answers

    def merge(self, other: Answers) -> None:
        """Add what other rows gave."""
        self.rows += other.rows
        if self.right is not None and other.right is not None:
            self.right.merge(other.right)
        if self.softmax is not None and other.softmax is not None:
            self.softmax.merge(other.softmax)
        if self.likelihood is not None and other.likelihood is not None:
            self.likelihood.merge(other.likelihood)
