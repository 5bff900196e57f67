"""How exact a fit by many workers is: statistics of 10⁹ rows, merged from those of 10⁴ workers.

Nobody needs the rows for that. The mean of n normal rows is normal with covariance Σ/n, and their scatter is
Wishart with n − 1 degrees of freedom: each worker's count, mean and scatter are drawn as such. The library
merges them, and the outcome is compared with their exact sum in whole numbers of Python. What the rows would
add is the rounding within a worker, which is measured on the rows of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np
import torch

from ...core.arrays import FloatArray
from ...detectors import create
from ...reference.moments import Moments
from ...reference.pairs import merged_in_pairs
from ...reference.statistics import Needs, Statistics
from ...reference.storage import pack_statistics
from ...report.tables import Table
from ..studies import TableStudy
from ._registry import Context, Produced, experiment
from .exact_sums import Drawn, Error, error_of, exact_sum

WIDTH = 8
WORKERS, ROWS = (100, 1_000, 10_000), 100_000
# Standard deviations of the features, far apart so that small directions can be lost in large ones.
DEVIATIONS = 10.0 ** -np.arange(0, WIDTH / 2, 0.5)
# Where the features lie, in units of the largest deviation; float32 could not hold rows further out.
OFFSETS = (0.0, 1e3, 1e6)
DRIFT = 10.0
BATCH = 4_096
# Bytes are those of ResNet-50 on ImageNet.
SIZE_WIDTH, SIZE_CLASSES = 2_048, 1_000
SIZED = ("ora", "relative-energy", "mds")


@dataclass(frozen=True)
class Case:
    """Statistics of so many workers, merged in pairs, one after another, and as plain sums of squares.

    ``rounded`` is the error of the exact sum once it is written in float64: none can be better, but by luck.
    """

    workers: int
    offset: float
    drift: float
    tree: Error
    sequence: Error
    squares: Error
    rounded: Error


@dataclass(frozen=True)
class Worker:
    """Statistics of the rows of one worker, in float32."""

    offset: float
    own: Error


@dataclass(frozen=True)
class Size:
    """Bytes of one worker's statistics, of all that are sent, and what reaches the root of the tree."""

    score: str
    one: int
    sent: int
    root: int


@dataclass(frozen=True, kw_only=True)
class Merging(TableStudy):
    format = "theodolite-merging/1"

    width: int
    rows: int
    cases: tuple[Case, ...]
    workers: tuple[Worker, ...]
    sizes: tuple[Size, ...]

    def tables(self) -> list[Table]:
        return [self._errors("mean"), self._errors("variance"), self._workers(), self._sizes()]

    def _errors(self, part: str) -> Table:
        title = {
            "mean": "Error of the mean, in standard deviations",
            "variance": "Relative error of the variance, in the direction where it is largest",
        }[part]
        ways = ["in pairs", "one after another", "exact, in float64", "by sums of squares"]
        header = ["workers", "rows", "offset", "drift", *ways]
        rows = [
            [
                f"{case.workers:,}",
                f"{case.workers * self.rows:.0e}",
                f"{case.offset:g}",
                f"{case.drift:g}",
                *(
                    f"{getattr(error, part):.0e}"
                    for error in (case.tree, case.sequence, case.rounded, case.squares)
                ),
            ]
            for case in self.cases
        ]
        return Table.of_texts(title, header, rows)

    def _workers(self) -> Table:
        rows = [[f"{row.offset:g}", f"{row.own.mean:.0e}", f"{row.own.variance:.0e}"] for row in self.workers]
        title = f"The same errors within one worker, of {self.rows:,} rows in float32"
        return Table.of_texts(title, ["offset", "mean", "variance"], rows)

    def _sizes(self) -> Table:
        rows = [
            [row.score, *(f"{count / 1e6:,.2f}" for count in (row.one, row.sent, row.root))]
            for row in self.sizes
        ]
        title = f"MB of statistics, {WORKERS[-1]:,} workers, D = {SIZE_WIDTH:,}, C = {SIZE_CLASSES:,}"
        return Table.of_texts(title, ["score", "of one worker", "sent in all", "to the root of a tree"], rows)


@experiment("merging", "Statistics of 10⁹ rows merged from 10⁴ workers, against their exact sum")
def merging(context: Context) -> Produced:
    cases = []
    for workers in WORKERS:
        context.say(f"merging: {workers:,} workers")
        cases += [compared(workers, offset, seed=context.seed) for offset in OFFSETS]
    cases.append(compared(WORKERS[-1], OFFSETS[1], drift=DRIFT, seed=context.seed))
    study = Merging(
        title="What is lost when the statistics of many workers are merged",
        command="theodolite reproduce merging",
        width=WIDTH,
        rows=ROWS,
        cases=tuple(cases),
        workers=tuple(Worker(offset, own_error(offset, ROWS, seed=context.seed)) for offset in OFFSETS),
        sizes=tuple(size(name, WORKERS[-1]) for name in SIZED),
    )
    return {"merging": study}


# ---------------------------------------------------------------------- workers


def compared(workers: int, offset: float, *, drift: float = 0.0, seed: int = 0) -> Case:
    """Workers whose rows lie ``offset`` away from 0; from the first to the last they move by ``drift``."""
    drawn = list(_drawn(workers, offset, drift, np.random.default_rng(seed)))
    exact = exact_sum(drawn)
    tree = merged_in_pairs(map(_statistics, drawn), "workers")
    sequence = reduce(add, map(_statistics, drawn))
    return Case(
        workers,
        offset,
        drift,
        error_of(tree.moments, exact),
        error_of(sequence.moments, exact),
        error_of(_of_squares(drawn), exact),
        error_of(exact.rounded(), exact),
    )


def _drawn(workers: int, offset: float, drift: float, rng: np.random.Generator) -> Iterator[Drawn]:
    """Normal rows, correlated: counts differ by up to a half, as shards do."""
    root = _root()
    low = np.tril_indices(WIDTH, -1)
    for place in range(workers):
        count = int(rng.integers(ROWS // 2, ROWS + ROWS // 2 + 1))
        centre = offset + drift * place / max(workers - 1, 1)
        mean = centre + root @ rng.standard_normal(WIDTH) / count**0.5
        # Bartlett: the root of a Wishart has χ on its diagonal and normal numbers below it.
        bartlett = np.diag(np.sqrt(rng.chisquare(count - 1 - np.arange(WIDTH))))
        bartlett[low] = rng.standard_normal(len(low[0]))
        factor = root @ bartlett
        scatter = factor @ factor.T
        yield Drawn(count, mean, (scatter + scatter.T) / 2)


def _root() -> FloatArray:
    """A root of the covariance: the deviations, turned by a fixed rotation."""
    turned, _ = np.linalg.qr(np.random.default_rng(WIDTH).standard_normal((WIDTH, WIDTH)))
    return np.asarray(turned * DEVIATIONS)


def _statistics(worker: Drawn) -> Statistics:
    found = Statistics(Needs(mean=True, scatter=True), WIDTH)
    found.count = worker.count
    found.moments = Moments.restored(
        torch.tensor([float(worker.count)], dtype=torch.float64),
        torch.from_numpy(worker.mean[None].copy()),
        torch.from_numpy(worker.scatter.copy()),
        None,
    )
    return found


def _of_squares(workers: Sequence[Drawn]) -> Moments:
    """What sums of z and zzᵀ in float64 would give, each added in pairs by NumPy."""
    counts = np.array([worker.count for worker in workers], np.float64)
    sums = np.stack([worker.count * worker.mean for worker in workers])
    squares = np.stack(
        [worker.scatter + worker.count * np.outer(worker.mean, worker.mean) for worker in workers]
    )
    count, total = counts.sum(), np.ascontiguousarray(sums.T).sum(axis=1)
    products = np.ascontiguousarray(np.moveaxis(squares, 0, -1)).sum(axis=-1)
    return Moments.restored(
        torch.tensor([count]),
        torch.from_numpy(total[None] / count),
        torch.from_numpy(products - np.outer(total, total) / count),
        None,
    )


def own_error(offset: float, rows: int, *, seed: int = 0) -> Error:
    """The error of one worker, that goes over its rows in batches."""
    rng = np.random.default_rng(seed)
    table = (offset + rng.standard_normal((rows, WIDTH)) @ _root().T).astype(np.float32)
    statistics = Statistics(Needs(mean=True, scatter=True), WIDTH)
    for batch in torch.split(torch.from_numpy(table), BATCH):
        statistics.update(batch)
    zero = np.zeros((WIDTH, WIDTH))
    return error_of(statistics.moments, exact_sum([Drawn(1, row, zero) for row in table.astype(np.float64)]))


# ---------------------------------------------------------------------- bytes


def size(score: str, workers: int) -> Size:
    """Each worker's statistics are sent once, to those they are merged with; to the root, one a level."""
    detector = create(score)
    statistics = Statistics(detector.needs, SIZE_WIDTH, classes=SIZE_CLASSES)
    one = sum(tensor.nbytes for tensor in pack_statistics(statistics, "").values())
    levels = (workers - 1).bit_length()
    return Size(detector.record.title, one, (workers - 1) * one, levels * one)
