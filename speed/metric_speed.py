"""What the Mahalanobis metric costs at ImageNet size, as ratios to the two matrix products it needs.

    python speed/metric_speed.py

N = 8,192 rows, D = 2,048, C = 1,000, float32. Exit code 1 if a promise is broken.
"""

from __future__ import annotations

import sys
from functools import partial

import torch

import theodolite as th
from ora_speed import WIDTH, problem
from timing import paired_ratio, report

PROMISE = 1.3
FITTED, ROUNDS = 4_096, 5


def main() -> int:
    head, features = problem()
    factor = torch.randn(WIDTH, WIDTH)

    def products() -> tuple[torch.Tensor, torch.Tensor]:
        return torch.addmm(head.bias, features, head.weight.T), features @ factor

    kept = True
    for name, detector in {
        "ORA, mahalanobis metric": th.ORA(metric="mahalanobis"),
        "ORA, mahalanobis metric, mean": th.ORA(metric="mahalanobis", aggregate="mean"),
        "fDBD, mahalanobis metric": th.FDBD(metric="mahalanobis"),
        "Relative Energy": th.RelativeEnergy(),
    }.items():
        fitted = detector.fit(features[:FITTED], head=head)
        ratio = paired_ratio(partial(fitted.score, features), products, rounds=ROUNDS)
        promise = None if "mean" in name else PROMISE
        kept &= report(f"{name} / N×D×C and N×D×D products", ratio, "x", limit=promise)
    few = th.RelativeEnergy().fit(features[:400], head=head)
    ratio = paired_ratio(lambda: few.score(features), products, rounds=ROUNDS)
    report("Relative Energy fitted on 400 rows (low-rank form)", ratio, "x")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
