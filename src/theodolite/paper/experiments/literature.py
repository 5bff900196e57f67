"""Literature checks: figures of Outlier Exposure and of SCALE, from their published weights and scores.

Both count FPR95 with OOD as the positive class. Outlier Exposure (Hendrycks et al., ICLR 2019) judges MSP on
a small ConvNet by 2,000 OOD samples, a mean of ten draws; all 10,000 differ from that by sampling alone,
hence the tolerance of 0.3 points. SCALE (Xu et al., ICLR 2024) published its scores: every digit must come
back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import load_file
from torch import Tensor

from ...core.arrays import FloatArray
from ...detectors import MSP
from ...evaluation import evaluate, metric
from ...features.checked import checked_capture
from ...models import load_model
from ...report.tables import Table, printed
from ..studies import TableStudy
from ._registry import Context, Need, Produced, experiment
from .pictures import features_of, pictures

OE_WEIGHTS = "oe-mnist/baseline.safetensors"
OE_TOLERANCE = 0.3
# (FPR95, AUROC) in per cent, as printed.
OE = {
    "fashion-mnist": ("2.96", "99.31"),
    "negatives": ("5.20", "98.55"),
    "notmnist": ("16.64", "96.04"),
    "gaussian": ("0.21", "99.96"),
    "bernoulli": ("1.04", "99.81"),
}
_DRAWS, _DRAWN = 10, 2_000
SEEDS = (0, 1, 2)
SCALE_METRICS = ("fpr95_ood_positive", "auroc", "aupr_in", "aupr_out")
# Mean ± deviation over the three seeds, as printed.
SCALE = {
    "cifar100": ("81.78 ± 3.98", "81.27 ± 0.74", "75.68 ± 2.01", "83.24 ± 0.06"),
    "tin": ("79.14 ± 4.04", "83.84 ± 0.02", "80.65 ± 1.12", "84.03 ± 0.67"),
    "mnist": ("48.68 ± 15.38", "90.58 ± 2.96", "57.25 ± 10.02", "98.54 ± 0.47"),
    "svhn": ("70.54 ± 8.71", "84.63 ± 3.05", "62.05 ± 7.29", "93.90 ± 1.06"),
    "texture": ("80.39 ± 3.93", "83.94 ± 0.35", "84.19 ± 0.78", "80.27 ± 0.46"),
    "places365": ("70.51 ± 5.98", "86.41 ± 1.92", "55.87 ± 4.83", "96.05 ± 0.59"),
}
SCALE_ACCURACY = "95.06 ± 0.30"
_ACCURACY = "id-accuracy"


@dataclass(frozen=True)
class Check:
    """A published figure, and what the code measures."""

    source: str
    set: str
    metric: str
    measured: str
    published: str
    agrees: bool

    @property
    def title(self) -> str:
        return "ID accuracy" if self.metric == _ACCURACY else metric(self.metric).title


@dataclass(frozen=True, kw_only=True)
class Checks(TableStudy):
    format = "theodolite-checks/1"

    seeds: Mapping[str, int]
    rows: tuple[Check, ...]

    def tables(self) -> list[Table]:
        header = ["source", "set", "metric", "measured", "published", "agrees"]
        rows = [
            [row.source, row.set, row.title, row.measured, row.published, "yes" if row.agrees else "NO"]
            for row in self.rows
        ]
        return [Table.of_texts(self.title, header, rows)]


@experiment(
    "literature",
    "Outlier Exposure and SCALE: published figures from published weights and scores",
    Need("mnist", "test"),
    Need("fashion-mnist", "test"),
    Need("notmnist", "test"),
    Need(OE_WEIGHTS),
    Need("scale-scores"),
)
def literature(context: Context) -> Produced:
    context.say("literature: Outlier Exposure")
    oe = outlier_exposure(context.root, context.seed)
    context.say("literature: SCALE")
    study = Checks(
        title="Published figures of Outlier Exposure and SCALE",
        command="theodolite reproduce literature",
        seeds={"noise": context.seed},
        rows=(*oe, *scale(context.root)),
    )
    return {"literature": study}


def outlier_exposure(root: Path, seed: int) -> list[Check]:
    """MSP on the published ConvNet; within the tolerance or not."""
    loaded = load_model("oe:mnist", weights=root / OE_WEIGHTS)
    capture = checked_capture(loaded)
    head = capture.head

    def msp(images: Tensor) -> FloatArray:
        return MSP().fit(head=head).score(features_of(capture, images)).numpy()

    digits, fashion, letters = (pictures(root, name)[0] for name in ("mnist", "fashion-mnist", "notmnist"))
    id_scores = msp(digits)
    sets = {
        "fashion-mnist": msp(fashion),
        "negatives": msp(1 - digits),
        "notmnist": msp(letters),
    }
    measured = {name: [evaluate(id_scores, scores)] for name, scores in sets.items()}
    rng = torch.Generator().manual_seed(seed)
    shape = (_DRAWN, *digits.shape[1:])
    for _ in range(_DRAWS):
        gaussian = (0.5 + 0.5 * torch.randn(shape, generator=rng)).clamp_(0, 1)
        bernoulli = torch.bernoulli(torch.full(shape, 0.5), generator=rng)
        for name, noise in (("gaussian", gaussian), ("bernoulli", bernoulli)):
            measured.setdefault(name, []).append(evaluate(id_scores, msp(noise)))
    rows = []
    for name, draws in measured.items():
        for measure, value in zip(("fpr95_ood_positive", "auroc"), OE[name], strict=True):
            mean = 100 * float(np.mean([draw[measure] for draw in draws]))
            agrees = abs(mean - float(value)) <= OE_TOLERANCE
            rows.append(Check("OE ConvNet, MSP", name, measure, printed(mean), value, agrees))
    return rows


def scale(root: Path) -> list[Check]:
    """The published scores of three seeds; every printed digit must come back."""
    files = [load_file(root / "scale-scores" / f"cifar10_seed{seed}.safetensors") for seed in SEEDS]
    rows = []
    for name, values in SCALE.items():
        runs = [evaluate(file["id"], file[name]) for file in files]
        for measure, value in zip(SCALE_METRICS, values, strict=True):
            found = _spread([100 * run[measure] for run in runs])
            rows.append(Check("SCALE, ResNet-18", name, measure, found, value, found == value))
    found = _spread([100 * float((file["id_pred"] == file["id_label"]).mean()) for file in files])
    agrees = found == SCALE_ACCURACY
    rows.append(Check("SCALE, ResNet-18", "cifar10", _ACCURACY, found, SCALE_ACCURACY, agrees))
    return rows


def _spread(values: list[float]) -> str:
    return f"{printed(float(np.mean(values)))} ± {printed(float(np.std(values)))}"
