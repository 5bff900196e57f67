"""What a fit costs: a mean against a plain sum, a scatter against one product, a store against memory.

    python speed/fit_speed.py

D = 2,048, float32. A mean reads 50,000 rows, far more than any cache holds; a scatter is of 8,192 rows, with
C = 1,000 classes where it is within classes. Statistics are float64 (a covariance is inverted down to 4.5e-13
of its largest variance), so the product XᵀX is timed in both precisions, and the promise is of float64's. A
store is read a second time: its checksums are compared when it is read first. Exit code 1 if a promise is
broken.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

import theodolite as th
from theodolite.features.manifest import Recipe
from theodolite.features.writer import Rows, StoreWriter
from theodolite.guard.repeated import RowCheck
from timing import paired_ratio, report, seconds

WIDTH, CLASSES = 2_048, 1_000
ROWS, PRODUCT_ROWS, STORED_ROWS = 50_000, 8_192, 16_384
ROUNDS = 5


def problem() -> tuple[th.Head, Tensor, Tensor]:
    rng = torch.Generator().manual_seed(0)
    weight = torch.randn(CLASSES, WIDTH, generator=rng) / WIDTH**0.5
    labels = torch.randint(0, CLASSES, (ROWS,), generator=rng)
    return th.Head(weight), torch.randn(ROWS, WIDTH, generator=rng), labels


def mean_only(head: th.Head, features: Tensor) -> bool:
    """A sum down the columns is what a mean is; a sum of everything is the speed of the memory itself."""

    def fit() -> object:
        return th.ORA().collect(features, head=head)

    kept = report(
        "mean of 50,000 rows: bandwidth / that of features.sum(dim=0)",
        1 / paired_ratio(fit, lambda: features.sum(dim=0)),
        "x",
        limit=0.6,
        at_least=True,
    )
    report("  the same / that of features.sum()", 1 / paired_ratio(fit, features.sum), "x")
    return kept


def scatter(head: th.Head, features: Tensor, labels: Tensor) -> bool:
    """The pass over the data, and the decomposition that follows it once, whatever the number of rows."""
    rows, own = features[:PRODUCT_ROWS], labels[:PRODUCT_ROWS]
    exact = rows.double()
    kept = True
    for name, detector in (("Relative Energy", th.RelativeEnergy()), ("MDS", th.MDS())):

        def fit(detector: th.Detector = detector) -> object:
            return detector.collect(rows, own, head=head)

        ratio = paired_ratio(fit, lambda: exact.T @ exact, rounds=ROUNDS)
        kept &= report(f"statistics of {name} / XᵀX in float64", ratio, "x", limit=1.3)
        report("  the same / XᵀX in float32", paired_ratio(fit, lambda: rows.T @ rows, rounds=ROUNDS), "x")
    covariance = exact.T @ exact / len(exact)
    products = seconds(lambda: exact.T @ exact)
    report(
        "decomposition of a covariance / XᵀX in float64", seconds(lambda: eigh(covariance)) / products, "x"
    )
    return kept


def eigh(covariance: Tensor) -> object:
    return torch.linalg.eigh(covariance)


def store_of(folder: Path, head: th.Head, features: Tensor, labels: Tensor) -> th.FeatureStore:
    recipe = Recipe("toy", "a" * 64, "plain", "fc", "b" * 64, samples=len(features))
    writer = StoreWriter.open(folder, recipe, head, source="toy")
    for index in writer.missing():
        samples = writer.samples(index)
        part = slice(samples.start, samples.stop)
        names = [f"{row}.png" for row in samples]
        writer.write(index, Rows([features[part]], labels[part].tolist(), names))
    return th.FeatureStore(folder)


def from_store(head: th.Head, features: Tensor, labels: Tensor) -> bool:
    kept = True
    rows, own = features[:STORED_ROWS], labels[:STORED_ROWS]
    with tempfile.TemporaryDirectory() as folder:
        store = store_of(Path(folder), head, rows, own)
        first = seconds(lambda: th.ORA().collect(store, head=head))
        again = min(seconds(lambda: th.ORA().collect(store, head=head)) for _ in range(ROUNDS))
        report("first pass over a store, with checksums / a later one", first / again, "x")
        fits: tuple[tuple[str, th.Detector, int], ...] = (
            ("mean (ORA)", th.ORA(), 3 * ROUNDS),
            ("scatter (Relative Energy)", th.RelativeEnergy(), 3),
        )
        for name, detector, rounds in fits:

            def fit(data: object, detector: th.Detector = detector) -> Callable[[], object]:
                return lambda: detector.collect(data, head=head)  # type: ignore[arg-type]

            ratio = paired_ratio(fit(store), fit(rows), rounds=rounds)
            kept &= report(f"{name} from a store / from memory", ratio, "x", limit=1.2)
    return kept


def guard_fit(head: th.Head, features: Tensor, labels: Tensor) -> bool:
    """A guard's fit compares rows and calibrates as well: what that is beside the detector's own fit."""
    rows, own, held_out = features[:20_000], labels[:20_000], features[20_000:25_000]

    def guarded() -> object:
        return th.Guard.fit(rows, own, head=head, detector="ora", calibration=held_out)

    whole = min(seconds(guarded) for _ in range(3))
    check = min(seconds(lambda: RowCheck([rows], held_out, None)) for _ in range(3))
    fit = min(seconds(lambda: th.ORA().fit(rows, own, head=head)) for _ in range(3))
    report("Guard.fit (ORA, 20,000 + 5,000 rows)", 1e3 * whole, "ms")
    report("  of it the detector's fit", 1e3 * fit, "ms")
    report("  of it the comparison of rows, fitted on against held out", 1e3 * check, "ms")
    return True


def main() -> int:
    head, features, labels = problem()
    kept = mean_only(head, features)
    kept &= scatter(head, features, labels)
    kept &= from_store(head, features, labels)
    kept &= guard_fit(head, features, labels)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
