"""What a guard costs beside its model: ResNet-50 with random weights, batches of 1 and of 32 images.

    python speed/guard_overhead.py

The model alone against `guard.verdicts` on the same images, and what the guard adds to the pass timed by
itself, right after a pass of one image has swept the caches. Exit code 1 if a promise is broken: at most 2 %
and at most 2 ms on a forward pass, and one image through `guard.verdicts` at most 1.10 times the model's own
time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

import theodolite as th
from lines import Measured
from theodolite.core.compat import import_torchvision
from theodolite.guard.in_memory import require_same_head
from timing import pairs, report, seconds

SHARE, PERCENT, MILLISECONDS, LATENCY = 1.02, 2.0, 2.0, 1.10
NOISE = 0.03  # of a forward pass, from one to the next: a tenth would hide the guard
ROUNDS, AFTER = {1: 25, 32: 3}, 40


def resnet() -> nn.Module:
    model: nn.Module = import_torchvision().models.resnet50()
    return model.eval()


def fitted(model: nn.Module, detector: str) -> th.Guard:
    """A guard on noise of the features' size: what it knows does not change what it costs.

    Features of random weights hardly depend on the image. Fitted on them, a guard would find every image a
    breath from its mean and work it twice, which real features do not need.
    """
    capture = th.Capture(model)
    noise = torch.randn(8, 3, 224, 224)
    features, _ = capture(noise)
    rows = 2 * features.mean() * torch.rand(3_000, features.shape[1])
    guard = th.Guard.fit(
        rows[:2_000],
        torch.arange(2_000) % 1_000,
        head=capture.head,
        detector=detector,
        calibration=rows[2_000:],
    )
    guard.model = model
    return guard


def added(guard: th.Guard, features: Tensor, logits: Tensor) -> None:
    """What a guard does after the model: is it still the same one, and what of its features?"""
    require_same_head(guard.head, features, logits)
    guard.judge(features, flag=False, logits=logits)


def after_a_pass(sweep: Callable[[], object], work: Callable[[], object]) -> Measured:
    """Milliseconds of ``work``, each time with caches as a forward pass leaves them; once for nothing."""
    spent = []
    for _ in range(AFTER + 1):
        sweep()
        spent.append(1000 * seconds(work))
    return Measured(spent[1:])


def beside(model: nn.Module, guard: th.Guard) -> bool:
    kept = True
    for batch, rounds in ROUNDS.items():
        images = torch.randn(batch, 3, 224, 224)

        def bare(images: Tensor = images) -> Tensor:
            with torch.no_grad():
                logits: Tensor = model(images)
            return logits

        taken = pairs(partial(guard.verdicts, images), bare, rounds)
        ratio = Measured(whole / alone for whole, alone in taken)
        passing = Measured(alone for _, alone in taken)
        # A pass varies by more than the guard adds: that is timed by itself, after a pass.
        features, logits = th.Capture(model)(images)
        extra = after_a_pass(partial(bare, images[:1]), partial(added, guard, features, logits))
        share = Measured(spent / (10 * passing) for spent in extra.samples)  # milliseconds of seconds, in %
        line = f"{guard.detector.record.title}, batch of {batch}"
        kept &= report(f"{line}: verdicts / bare model", ratio, "x", limit=SHARE, tolerance=NOISE)
        if batch == 1:
            once = f"{line}: the same, bound on one image"
            kept &= report(once, ratio, "x", limit=LATENCY, tolerance=NOISE)
        kept &= report(f"{line}: what the guard does, of the pass", share, "%", limit=PERCENT)
        kept &= report(f"{line}: what the guard does", extra, "ms", limit=MILLISECONDS)
        if isinstance(guard.detector, th.RelativeEnergy):
            product = after_a_pass(partial(bare, images[:1]), partial(guard.detector._coordinates, features))
            report(f"{line}: of it the product with the metric's factor", product, "ms")
    return kept


def main() -> int:
    torch.manual_seed(0)
    model = resnet()
    kept = True
    for detector in ("relative-energy", "ora"):
        kept &= beside(model, fitted(model, detector))
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
