"""What a guard costs beside its model: ResNet-50 with random weights, batches of 1 and of 32 images, on the
CPU.

    python speed/guard_overhead.py

The model alone against `guard.verdicts` on the same images, and in onnxruntime the bare model against the
graph with the guard inside: ratios within one run, in turn. Exit code 1 if a promise is broken: at most 2 %
and at most 2 ms on a forward pass, and one image through `guard.verdicts` at most 1.10 times the model's own
time.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import theodolite as th
from theodolite.core.compat import import_torchvision
from theodolite.guard.export.quiet import quiet
from timing import report, seconds

SHARE, MILLISECONDS, LATENCY = 2.0, 2.0, 1.10
ROUNDS = {1: 40, 32: 8}


def overhead(bare: Callable[[], object], guarded: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Medians over back-to-back pairs: the ratio, and the difference in milliseconds."""
    bare()
    guarded()
    pairs = []
    for turn in range(rounds):
        first, second = (bare, guarded) if turn % 2 else (guarded, bare)
        times = seconds(first), seconds(second)
        pairs.append(times if turn % 2 else times[::-1])
    ratio = statistics.median(with_guard / alone for alone, with_guard in pairs)
    return ratio, 1000 * statistics.median(with_guard - alone for alone, with_guard in pairs)


def fitted(model: nn.Module, detector: str) -> th.Guard:
    """A guard on noise of the features' size: what it knows does not change what it costs.

    Features of random weights hardly depend on the image. Fitted on them, a guard would find every image a
    breath from its mean and work it twice, which real features do not need.
    """
    capture = th.Capture(model)
    noise = torch.randn(8, 3, 224, 224)
    features, _ = capture(noise)
    rows = 2 * features.mean() * torch.rand(3_000, features.shape[1])
    return th.Guard.fit(
        rows[:2_000],
        torch.arange(2_000) % 1_000,
        head=capture.head,
        detector=detector,
        calibration=rows[2_000:],
    )


def in_torch(model: nn.Module, guard: th.Guard, name: str) -> bool:
    kept = True
    for batch, rounds in ROUNDS.items():
        images = torch.randn(batch, 3, 224, 224)

        def bare(images: Tensor = images) -> Tensor:
            with torch.no_grad():
                logits: Tensor = model(images)
            return logits

        ratio, _ = overhead(bare, partial(guard.verdicts, images), rounds)
        # Of a pass of seconds the difference is noise: what the guard adds is timed by itself.
        features, _ = th.Capture(model)(images)
        alone = partial(guard.verdicts, features)
        extra = 1000 * statistics.median(seconds(alone) for _ in range(60))
        kept &= report(f"{name}, torch, batch {batch}: overhead", 100 * (ratio - 1), "%", limit=SHARE)
        kept &= report(
            f"{name}, torch, batch {batch}: verdicts on its features", extra, "ms", limit=MILLISECONDS
        )
        if batch == 1:
            kept &= report(f"{name}, one image through guard.verdicts / model", ratio, "x", limit=LATENCY)
    return kept


def in_onnxruntime(model: nn.Module, guard: th.Guard, name: str, folder: Path) -> None:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    images = torch.randn(32, 3, 224, 224)
    sizes = ({0: torch.export.Dim.DYNAMIC},)
    with quiet():
        program: Any = torch.onnx.export(
            model, (images[:2],), dynamo=True, verbose=False, dynamic_shapes=sizes
        )
        program.save(folder / "bare.onnx")
    guard.export(folder / "guard.onnx", check=images[:2])
    bare = onnxruntime.InferenceSession(folder / "bare.onnx", options)
    guarded = onnxruntime.InferenceSession(folder / "guard.onnx", options)
    (given,) = bare.get_inputs()
    for batch, rounds in ROUNDS.items():
        part: Any = np.ascontiguousarray(images[:batch].numpy())
        ratio, extra = overhead(
            lambda part=part: bare.run(None, {given.name: part}),  # type: ignore[misc]
            lambda part=part: guarded.run(None, {"images": part}),  # type: ignore[misc]
            rounds,
        )
        report(f"{name}, onnxruntime, batch {batch}: overhead", 100 * (ratio - 1), "%")
        report(f"{name}, onnxruntime, batch {batch}: overhead", extra, "ms")


def main() -> int:
    torch.manual_seed(0)
    import_torchvision()
    from torchvision.models import resnet50

    model = resnet50().eval()
    kept = True
    for detector in ("relative-energy", "ora"):
        guard = fitted(model, detector)
        guard.model = model
        name = guard.detector.record.title
        kept &= in_torch(model, guard, name)
        with tempfile.TemporaryDirectory() as folder:
            in_onnxruntime(model, guard, name, Path(folder))
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
