"""What the other scores cost at ImageNet size, against matrix products and pytorch-ood.

    python speed/scores_speed.py

D = 2,048 and C = 1,000 unless a line says otherwise, float32, all on the same cores. Other libraries are
measured if they are installed. Neighbours have a script of their own. Exit code 1 if a promise is broken.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from functools import partial
from types import ModuleType

import torch
from torch import Tensor

import theodolite as th
from memory import extra_mebibytes
from theodolite.core.compat import import_torchvision
from timing import paired_ratio, report

WIDTH, CLASSES, ROWS = 2_048, 1_000, 1_000
MEMORY_ROWS, MEMORY_LIMIT = 4_096, 512.0


def problem(rows: int = 4_000) -> tuple[th.Head, Tensor, Tensor]:
    """A head, ReLU-like features and labels that hold every class."""
    rng = torch.Generator().manual_seed(0)
    features = torch.randn(rows, WIDTH, generator=rng).relu_()
    weight = torch.randn(CLASSES, WIDTH, generator=rng) / WIDTH**0.5
    return th.Head(weight, 0.01 * torch.randn(CLASSES, generator=rng)), features, torch.arange(rows) % CLASSES


def optional(name: str) -> ModuleType | None:
    try:
        import_torchvision()
        return importlib.import_module(name)
    except ImportError:
        print(f"{name} is not installed: its lines are left out")
        return None


def mahalanobis(head: th.Head, features: Tensor, labels: Tensor) -> bool:
    rows = features[:ROWS]
    square, wide = torch.randn(WIDTH, WIDTH), torch.randn(WIDTH, CLASSES)
    detector = th.MDS().fit(features, labels, head=head)
    kept = report(
        "MDS of 1,000 rows / one N×D×D and one N×D×C product",
        paired_ratio(lambda: detector.score(rows), lambda: (rows @ square, rows @ wide)),
        "x",
        limit=3.0,
    )
    peers = optional("pytorch_ood.detector")
    if peers is not None:
        theirs = peers.Mahalanobis(None).fit_features(features, labels)
        few = rows[:16]  # theirs runs an N×D×D product for each class
        ratio = paired_ratio(lambda: theirs.predict_features(few), lambda: detector.score(few), rounds=3)
        report("pytorch-ood's MDS / ours, 16 rows", ratio, "x")
    return kept


def boundaries(head: th.Head, features: Tensor, labels: Tensor) -> None:
    peers = optional("pytorch_ood.detector")
    if peers is None:
        return
    # Their table of weight differences is a C×C×D array (8 GB here), so they get 300 classes, and so do we.
    few = th.Head(head.weight[:300], head.bias[:300])
    layer = torch.nn.Linear(WIDTH, few.classes).requires_grad_(False)
    layer.weight.data, layer.bias.data = few.weight, few.bias
    theirs = peers.fDBD(None, layer).fit_features(features)
    ours = th.FDBD().fit(features, labels % few.classes, head=few)
    ratio = paired_ratio(lambda: theirs.predict_features(features), lambda: ours.score(features))
    report("pytorch-ood's fDBD / ours, 4,000 rows, 300 classes", ratio, "x")


def measure_memory() -> dict[str, float]:
    """Extra memory of scoring with each detector, in a process that has done nothing larger before."""
    head, features, labels = problem(MEMORY_ROWS)
    detectors = {name: th.create(name) for name in th.list_detectors()}
    th.fit_many([*detectors.values()], features, labels, head=head)
    taken = {}
    for name, detector in detectors.items():
        detector.score(features[:4])
        taken[name] = extra_mebibytes(partial(detector.score, features))
    return taken


def memory() -> bool:
    """No score may hold an N×C×D or a C×C×D array: both would be larger than the limit by an order."""
    largest = {"N×C×D": MEMORY_ROWS * CLASSES * WIDTH, "C×C×D": CLASSES * CLASSES * WIDTH}
    for shape, entries in largest.items():
        report(f"a {shape} array of float32", entries * 4 / 2**20, "MiB")
    command = [sys.executable, __file__, "--memory"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    kept = True
    for name, taken in json.loads(done.stdout).items():
        line = f"extra memory of scoring {MEMORY_ROWS:,} rows: {name}"
        kept &= report(line, taken, "MiB", limit=MEMORY_LIMIT)
    return kept


def main() -> int:
    head, features, labels = problem()
    kept = mahalanobis(head, features, labels)
    boundaries(head, features, labels)
    kept &= memory()
    return 0 if kept else 1


if __name__ == "__main__":
    if "--memory" in sys.argv:
        print(json.dumps(measure_memory()))
        sys.exit(0)
    sys.exit(main())
