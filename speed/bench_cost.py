"""What `theodolite bench` costs on cached features of ImageNet size, against the matrix products it needs.

    python speed/bench_cost.py [--scale 1]

50,000 ID and 35,640 OOD rows, D = 2,048, C = 1,000, synthetic, read from float16 files; every registered
score is fitted on 5,000 rows in one pass and scores all rows. The yardstick is the sum of the products that
the scores need: the logits once, and one product a batch for every matrix that a fitted score holds (class
means, whitening, bank, class factors), in the precision it needs. Exit code 1 beyond 5 times that.

``--scale`` is the share of the rows that is scored, a tenth unless given; fitting does not shrink with it, so
the time for all rows is the fit plus the scoring divided by the share.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import torch
from safetensors.torch import save_file

from memory import resident
from theodolite.benchmarks.feature_folder import from_folder
from theodolite.benchmarks.scoring import Scorer
from theodolite.benchmarks.subject import Subject
from theodolite.detectors import Detector
from theodolite.detectors.spec import parse_specs
from timing import report, seconds

WIDTH, CLASSES = 2_048, 1_000
ROWS = {"id_fit": 5_000, "id_test": 50_000, "far": 35_640}
BATCH = 1_024
LIMIT, MEMORY_LIMIT = 5.0, 4.0
# Distances that cancel: these work in double precision, and so does their yardstick.
DOUBLE = ("mds", "maha+", "rmds", "ssd+")


def make(folder: Path, scale: float) -> Subject:
    """Features around class means that are the class weights, written batch by batch."""
    rng = torch.Generator().manual_seed(0)
    weight = torch.randn(CLASSES, WIDTH, generator=rng) / WIDTH**0.5
    save_file({"weight": weight, "bias": torch.zeros(CLASSES)}, folder / "head.safetensors")
    for name, rows in ROWS.items():
        count = rows if name == "id_fit" else max(BATCH, int(rows * scale))
        labels = torch.arange(count) % CLASSES
        features = torch.randn(count, WIDTH, generator=rng).half()
        if name != "far":
            for start in range(0, count, BATCH):
                features[start : start + BATCH] += (8 * weight[labels[start : start + BATCH]]).half()
        save_file({"features": features.relu_(), "labels": labels}, folder / f"{name}.safetensors")
    return from_folder(folder)


def operands(name: str, detector: Detector) -> int:
    """Columns of all matrices that a score multiplies the features by."""
    columns = sum(
        buffer.numel() // WIDTH
        for key, buffer in detector.named_buffers()
        if not key.startswith("head") and buffer.is_floating_point() and buffer.numel() >= 2 * WIDTH
    )
    return columns + (CLASSES if name == "mcm" else 0)


def product_seconds(columns: int, dtype: torch.dtype, rows: int) -> float:
    """Time of the product of ``rows`` rows with a (D, columns) matrix, a batch at a time."""
    batch = torch.randn(BATCH, WIDTH, dtype=dtype)
    matrix = torch.randn(WIDTH, columns, dtype=dtype)
    torch.mm(batch, matrix)
    return min(seconds(lambda: torch.mm(batch, matrix)) for _ in range(3)) * rows / BATCH


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=0.1, help="share of the rows to score")
    scale = parser.parse_args().scale
    with tempfile.TemporaryDirectory() as folder:
        subject = make(Path(folder), scale)
        before = resident("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")
        entries = parse_specs([])
        scorer = Scorer(subject, entries)
        start = time.perf_counter()
        scores = scorer.run()
        total = time.perf_counter() - start
        memory = (resident("VmHWM") - before) / 1024
        rows = len(subject.test) + sum(len(part) for part in subject.ood.values())
        share = rows / (ROWS["id_test"] + ROWS["far"])
        needed = {"logits": product_seconds(CLASSES, torch.float32, rows)}
        for entry in entries:
            columns = operands(entry.name, scorer.detectors[entry.label])
            dtype = torch.float64 if entry.name in DOUBLE else torch.float32
            needed[entry.label] = product_seconds(columns, dtype, rows) if columns else 0.0
    fit, whole = scores.fit_seconds, sum(needed.values())
    for label, spent in sorted(scores.seconds.items(), key=lambda item: -item[1]):
        print(
            f"  {label:<12} {spent / share:8.1f} s for all rows, its products {needed[label] / share:8.1f} s"
        )
    report("fit of all scores on 5,000 rows", fit, "s")
    report("scoring all rows with all scores", (total - fit) / share, "s")
    report("the products they need", whole / share, "s")
    kept = report("bench / products", (fit + (total - fit) / share) / (whole / share), "x", limit=LIMIT)
    kept &= report("extra memory of the run", memory, "GiB", limit=MEMORY_LIMIT)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
