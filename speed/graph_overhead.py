"""What a guard costs inside a graph: ResNet-50 with random weights in onnxruntime, bare and with the guard.

    python speed/graph_overhead.py

Batches of 1 and of 32 images. A graph computes both precisions, since it has no branches: there is no bound.
"""

from __future__ import annotations

import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from torch import nn

import theodolite as th
from guard_overhead import ROUNDS, fitted, resnet
from lines import Measured
from theodolite.guard.export.quiet import quiet
from timing import pairs, report


def session(path: Path) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    # Threads of the one session that spin after its turn would take the cores from the other.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(path, options)


def exported(model: nn.Module, path: Path) -> Any:
    """The bare model in onnxruntime."""
    sizes = ({0: torch.export.Dim.DYNAMIC},)
    images = torch.randn(2, 3, 224, 224)
    with quiet():
        program: Any = torch.onnx.export(model, (images,), dynamo=True, verbose=False, dynamic_shapes=sizes)
        program.save(path)
    return session(path)


def in_onnxruntime(bare: Any, guard: th.Guard, path: Path) -> None:
    guard.export(path, check=torch.randn(2, 3, 224, 224))
    guarded = session(path)
    (given,) = bare.get_inputs()
    for batch, rounds in ROUNDS.items():
        images = np.random.default_rng(0).standard_normal((batch, 3, 224, 224), dtype=np.float32)
        with_guard = partial(guarded.run, None, {"images": images})
        taken = pairs(with_guard, partial(bare.run, None, {given.name: images}), rounds)
        line = f"{guard.detector.record.title}, batch of {batch}"
        report(f"{line}: with guard / bare", Measured(spent / alone for spent, alone in taken), "x")
        report(f"{line}: added", Measured(1000 * (spent - alone) for spent, alone in taken), "ms")


def main() -> int:
    torch.manual_seed(0)
    model = resnet()
    with tempfile.TemporaryDirectory() as folder:
        bare = exported(model, Path(folder) / "bare.onnx")
        for detector in ("relative-energy", "ora"):
            in_onnxruntime(bare, fitted(model, detector), Path(folder) / "guard.onnx")
    return 0


if __name__ == "__main__":
    sys.exit(main())
