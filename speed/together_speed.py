"""What scores cost together (`theodolite.score_many`), against the sum of what each costs alone.

    python speed/together_speed.py

N = 4,096 rows, D = 2,048, C = 1,000, float32, fitted on 4,000 rows. The twelve read logits, angles, the
metric and every matrix in float64. Exit code 1 if a promise is broken.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

import theodolite as th
from memory import extra_mebibytes
from theodolite.detectors._together import Together
from theodolite.detectors.spec import parse_specs
from timing import paired_ratio, report, seconds

WIDTH, CLASSES, ROWS, FIT_ROWS = 2_048, 1_000, 4_096, 4_000
PROMISE, MEMORY_LIMIT = 0.6, 512.0
# Chosen before their joint cost was measured.
TWELVE = (
    "msp",
    "maxlogit",
    "energy",
    "ora",
    "fdbd",
    "relative-energy",
    "ora?metric=mahalanobis",
    "mds",
    "rmds",
    "maha+",
    "vim",
    "neco",
)
# Scores that have one product in common, or none.
PARTS = {
    "three that read logits": ("msp", "maxlogit", "energy"),
    "ORA and fDBD": ("ora", "fdbd"),
    "two in the metric": ("relative-energy", "ora?metric=mahalanobis"),
    "MDS and R-Mah": ("mds", "rmds"),
    "ViM and Maha+": ("vim", "maha+"),
}


def problem(rows: int, seed: int) -> tuple[th.Head, Tensor, Tensor]:
    """A head, ReLU-like features around its weights, and their labels."""
    rng = torch.Generator().manual_seed(0)
    weight = torch.randn(CLASSES, WIDTH, generator=rng) / WIDTH**0.5
    labels = torch.arange(rows) % CLASSES
    noise = torch.randn(rows, WIDTH, generator=torch.Generator().manual_seed(seed))
    return th.Head(weight), (noise + 8 * weight[labels]).relu_(), labels


def fitted(names: Sequence[str]) -> dict[str, th.Detector]:
    head, features, labels = problem(FIT_ROWS, seed=1)
    detectors = {name: spec.template for name, spec in zip(names, parse_specs(names), strict=True)}
    th.fit_many(list(detectors.values()), features, labels, head=head)
    return detectors


def alone(detectors: Sequence[th.Detector], rows: Tensor) -> None:
    for detector in detectors:
        detector.score(rows)


def ratio(detectors: Sequence[th.Detector], rows: Tensor, rounds: int) -> float:
    work: Callable[[], object] = partial(th.score_many, detectors, rows)
    return paired_ratio(work, partial(alone, detectors, rows), rounds=rounds)


def shares(detectors: Sequence[th.Detector], rows: Tensor) -> None:
    """How the time of one pass divides into the work of several scores and of each."""
    together = Together(detectors)
    whole = seconds(lambda: together.score(rows))
    report("of one pass of the twelve: work that several asked for", together.shared_seconds / whole, "")
    report("of one pass of the twelve: work that one asked for", sum(together.seconds) / whole, "")


def main() -> int:
    every = [name for name in th.list_detectors() if name not in TWELVE]
    known = fitted([*TWELVE, *every])
    _, rows, _ = problem(ROWS, seed=2)
    twelve = [known[name] for name in TWELVE]
    kept = report("12 scores together / their sum alone", ratio(twelve, rows, 3), "x", limit=PROMISE)
    shares(twelve, rows)
    for name, part in PARTS.items():
        line = f"{name} together / their sum alone"
        report(line, ratio([known[each] for each in part], rows[:2_048], 1), "x")
    memory = extra_mebibytes(lambda: th.score_many(twelve, rows))
    kept &= report("extra memory of the 12 together", memory, "MiB", limit=MEMORY_LIMIT)
    registered = [known[name] for name in th.list_detectors()]
    line = f"all {len(registered)} scores together / their sum alone"
    report(line, ratio(registered, rows[:2_048], 1), "x")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
