"""Verdicts on one row of features, beside the one product with the head that gives its logits.

    python speed/one_row_speed.py

D = 2,048, C = 1,000, float32. The caches are swept before every run, as a model's forward pass does. Exit
code 1 if a promise is broken: at most 3 times the product and 200 microseconds.
"""

from __future__ import annotations

import sys

import torch
from torch import Tensor

import theodolite as th
from lines import Measured
from timing import report, seconds

WIDTH, CLASSES, ROUNDS = 2_048, 1_000, 100
TIMES, MICROSECONDS = 3.0, 200.0


def main() -> int:
    rng = torch.Generator().manual_seed(0)
    rows = torch.randn(3_000, WIDTH, generator=rng).abs()
    weight = torch.randn(CLASSES, WIDTH, generator=rng) / WIDTH**0.5
    head = th.Head(weight, torch.zeros(CLASSES))
    labels = torch.arange(2_500) % CLASSES
    sweep, row = torch.zeros(2**23), rows[-1:]

    def product() -> Tensor:
        return torch.addmm(head.bias, row, head.weight.T)

    kept = True
    for name in (th.RECOMMENDED, "ora"):
        guard = th.Guard.fit(rows[:2_500], labels, head=head, detector=name, calibration=rows[2_500:])
        spent, base = [], []
        for _ in range(ROUNDS + 1):
            sweep.add_(1)
            spent.append(seconds(lambda guard=guard: guard.verdicts(row)))  # type: ignore[misc]
            sweep.add_(1)
            base.append(seconds(product))
        bare = Measured(base[1:])
        over = Measured((whole - TIMES * float(bare)) * 1e6 for whole in spent[1:])
        title = guard.detector.record.title
        report(f"{title}, one row: verdicts / one addmm", Measured(spent[1:]) / bare, "x")
        kept &= report(f"{title}, one row: verdicts − 3 addmm", over, "µs", limit=MICROSECONDS)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
