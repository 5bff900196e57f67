"""A data folder laid out as OpenOOD's, with small made pictures and lists of one's own."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from small_models import Tiny
from theodolite.benchmarks import ProtocolSet, RunResult
from theodolite.benchmarks.datasets import dataset

CLASSES = 3
WRONG = 5
# Samples of every list of OpenOOD's CIFAR-10 benchmark, and the brightest value of their pictures.
LISTS = {
    "train_cifar10": (90, 256),
    "val_cifar10": (12, 256),
    "test_cifar10": (45, 256),
    "val_tin": (9, 160),
    "test_cifar100": (30, 200),
    "test_tin": (25, 180),
    "test_mnist": (20, 60),
    "test_svhn": (22, 100),
    "test_texture": (24, 128),
    "test_places365": (26, 150),
    "test_cifar10c": (33, 230),
}


def make_openood(root: Path, *, leave_out: tuple[str, ...] = ()) -> Path:
    """``root/openood`` with the lists and pictures of the CIFAR-10 benchmark but for those left out."""
    rng = np.random.default_rng(0)
    data = root / "openood"
    lists = data / "benchmark_imglist" / "cifar10"
    lists.mkdir(parents=True)
    for name, (count, bright) in LISTS.items():
        folder = data / "images_classic" / name
        folder.mkdir(parents=True)
        pixels = rng.integers(0, bright, (count, 8, 8), dtype=np.uint8)
        labels = _labels(pixels) if name.removesuffix("c").endswith("cifar10") else [-1] * count
        for row, picture in enumerate(pixels):
            Image.fromarray(picture).save(folder / f"{row}.png")
        lines = [f"{name}/{row}.png {label}\n" for row, label in enumerate(labels)]
        if name not in leave_out:
            (lists / f"{name}.txt").write_text("".join(lines), encoding="utf-8")
    return data


def _labels(pixels: np.ndarray) -> list[int]:
    """What `small_models.Tiny` takes the pictures for, but for every fifth."""
    with torch.no_grad():
        found = Tiny()(torch.from_numpy(pixels).float()[:, None] / 255).argmax(dim=1).tolist()
    return [(label + (row % WRONG == 0)) % CLASSES for row, label in enumerate(found)]


def count(part: ProtocolSet) -> int | None:
    """The samples that a set of a protocol has."""
    assert part.dataset is not None
    return dataset(part.dataset).split(part.split).count


def result_in(out: Path) -> RunResult:
    """What a bench wrote there."""
    return RunResult.from_json(json.loads((out / "results.json").read_text(encoding="utf-8")))
