"""What ORA costs at ImageNet size, as ratios to one matrix product of the same shape.

    python speed/ora_speed.py

N = 8,192 rows, D = 2,048, C = 1,000, float32. Exit code 1 if a promise is broken.
"""

from __future__ import annotations

import subprocess
import sys

import torch

import theodolite as th
from memory import extra_mebibytes
from timing import paired_ratio, report, seconds

ROWS, WIDTH, CLASSES = 8_192, 2_048, 1_000
LOOP_ROWS = 1_024


def problem() -> tuple[th.Head, torch.Tensor]:
    rng = torch.Generator().manual_seed(0)
    features = torch.randn(ROWS, WIDTH, generator=rng).relu_()
    weight = torch.randn(CLASSES, WIDTH, generator=rng) / WIDTH**0.5
    return th.Head(weight, 0.01 * torch.randn(CLASSES, generator=rng)), features


def projection_loop(features: torch.Tensor, head: th.Head, mean: torch.Tensor) -> torch.Tensor:
    """ORA as its pseudo-code reads: for each class, project every row, then take the angle."""
    logits = head(features)
    own, predicted = logits.max(dim=1)
    centred, best = features - mean, torch.zeros(len(features))
    for other in range(head.classes):
        normal = head.weight[predicted] - head.weight[other]
        length = normal.square().sum(dim=1).clamp_min(1e-12)
        projected = features - ((own - logits[:, other]) / length)[:, None] * normal - mean
        cosine = torch.nn.functional.cosine_similarity(centred, projected, dim=1).clamp(-1, 1)
        best = torch.where(predicted == other, best, torch.maximum(best, torch.arccos(cosine)))
    return best


def few_classes(head: th.Head, features: torch.Tensor) -> bool:
    """With 10 classes the features are the work; the product of that shape alone reads them several times."""
    small = th.Head(head.weight[:10].contiguous(), head.bias[:10])
    detector = th.ORA().fit(features, head=small)
    reading = features.sum
    product = paired_ratio(lambda: torch.addmm(small.bias, features, small.weight.T), reading)
    report("one addmm of 10 classes / one sum of the features", product, "x")
    whole = paired_ratio(lambda: detector.score(features), reading)
    return report("ORA of 10 classes / one sum of the features", whole, "x", limit=1.5)


def extra_memory() -> float:
    """Resident memory that scoring adds at its peak, measured in a process of its own."""
    head, features = problem()
    detector = th.ORA().fit(features[:64], head=head)
    detector.score(features[:4])
    return extra_mebibytes(lambda: detector.score(features))


def main() -> int:
    head, features = problem()
    detector = th.ORA().fit(features, head=head)
    logits = head(features)

    def product() -> torch.Tensor:
        return torch.addmm(head.bias, features, head.weight.T)

    kept = report(
        "ORA from features / one addmm",
        paired_ratio(lambda: detector.score(features), product),
        "x",
        limit=1.15,
    )
    kept &= report(
        "ORA with logits given / one addmm",
        paired_ratio(lambda: detector.score(features, logits), product),
        "x",
        limit=0.15,
    )
    kept &= few_classes(head, features)
    few, mean = features[:LOOP_ROWS], detector.centres[0].float()
    difference = float((projection_loop(few, head, mean) - detector.score(few)).abs().max())
    loop = seconds(lambda: projection_loop(few, head, mean)) * ROWS / LOOP_ROWS
    closed = min(seconds(lambda: detector.score(features)) for _ in range(5))
    kept &= report("projection loop over classes / ORA", loop / closed, "x", limit=150, at_least=True)
    report("largest difference to the loop's float32 arccos", difference * 1e6, "microradians")
    own = subprocess.run([sys.executable, __file__, "--memory"], check=True, capture_output=True, text=True)
    kept &= report("extra memory of scoring", float(own.stdout), "MiB", limit=64)
    return 0 if kept else 1


if __name__ == "__main__":
    if "--memory" in sys.argv:
        print(extra_memory())
        sys.exit(0)
    sys.exit(main())
