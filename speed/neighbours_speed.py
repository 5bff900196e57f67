"""What a search for neighbours costs: exact, from a store on disk, in half precision, and approximate.

    python speed/neighbours_speed.py

1,000 queries, unit rows, float32, all on the same cores, beside faiss and scikit-learn where they are
installed. Before each search the machine rests a moment: threads of the other library would still be waiting
for work, and take half of it. Exit code 1 if a promise is broken.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

import theodolite as th
from scores_speed import optional
from theodolite.detectors._approximation import fitted_cells
from theodolite.features.manifest import Recipe
from theodolite.features.writer import Rows, StoreWriter
from theodolite.geometry.cells import probed_similarities
from theodolite.geometry.neighbours import top_similarities
from theodolite.reference.head import unit_rows
from timing import report, seconds

QUERIES, NEIGHBOURS = 1_000, 50
SMALL, LARGE = 20_000, 200_000
CELLS_ROWS, CELLS_WIDTH, RECALL = 1_000_000, 128, 0.95
REST = 0.1


def ratio(work: Callable[[], object], yardstick: Callable[[], object], rounds: int) -> float:
    """Median of work/yardstick, both rested."""
    return ratios(work, [yardstick], rounds)[0]


def ratios(
    work: Callable[[], object], yardsticks: Sequence[Callable[[], object]], rounds: int
) -> list[float]:
    """The same for several yardsticks beside one run of the work; a warm-up of each if there are rounds."""
    for warm in (work, *yardsticks) if rounds > 1 else ():
        warm()
    found: list[list[float]] = [[] for _ in yardsticks]
    for _ in range(rounds):
        base = rested(work)
        for yardstick, kept in zip(yardsticks, found, strict=True):
            kept.append(base / rested(yardstick))
    return [statistics.median(kept) for kept in found]


def rested(work: Callable[[], object]) -> float:
    time.sleep(REST)
    return seconds(work)


def unit_noise(rows: int, width: int, seed: int) -> Tensor:
    """Unit rows; beyond 20,000 the same with their columns turned: other rows, sooner made."""
    first = unit_rows(torch.randn(min(rows, 20_000), width, generator=torch.Generator().manual_seed(seed)))
    return torch.cat([first.roll(turn, dims=1) for turn in range(rows // len(first))])


def written(folder: Path, bank: Tensor) -> Path:
    """The bank as a feature store."""
    recipe = Recipe("noise", "a" * 64, "plain", "fc", "b" * 64, samples=len(bank))
    writer = StoreWriter.open(folder, recipe, th.Head(torch.eye(2, bank.shape[1])), source="noise")
    for index in writer.missing():
        samples = writer.samples(index)
        rows = bank[samples.start : samples.stop]
        writer.write(index, Rows([rows], [0] * len(rows), [f"{row}.png" for row in samples]))
    return folder


def small(width: int) -> bool:
    """A bank of 20,000 rows: KNN's score beside the bare search of faiss and of scikit-learn."""
    faiss = optional("faiss")
    bank, queries = unit_noise(SMALL, width, 1), unit_noise(QUERIES, width, 2)
    full, kept, shown = th.KNN(k=NEIGHBOURS).fit(bank), True, f"{SMALL:,} rows, D = {width:,}"
    if faiss is not None:
        index = faiss.IndexFlatL2(width)
        index.add(bank.numpy())
        for k in (NEIGHBOURS, 1, 1_000) if width == 512 else (NEIGHBOURS,):
            detector = th.KNN(k=k).fit(bank)
            search, score = partial(index.search, queries.numpy(), k), partial(detector.score, queries)
            limit = 1.0 if k == NEIGHBOURS else None
            line = f"faiss.IndexFlatL2 / KNN, {shown}, k = {k:,}"
            kept &= report(
                line, ratio(search, score, 5 if k == NEIGHBOURS else 3), "x", limit=limit, at_least=True
            )
    half = th.KNN(k=NEIGHBOURS, half_bank=True).fit(bank)
    value = ratio(lambda: half.score(queries), lambda: full.score(queries), 3)
    report(f"KNN with half_bank / without, {shown}", value, "x")
    return kept & (width > 512 or scikit_learn(bank, queries, full, shown))


def large(width: int, rounds: int) -> bool:
    """A bank of 200,000 rows, in memory and in a store that is mapped, with a warm cache."""
    faiss = optional("faiss")
    if faiss is None:
        return True
    bank, queries = unit_noise(LARGE, width, 1), unit_noise(QUERIES, width, 2)
    index = faiss.IndexFlatL2(width)
    index.add(bank.numpy())
    with tempfile.TemporaryDirectory() as folder:
        stored = th.KNN(k=NEIGHBOURS, store=written(Path(folder) / "store", bank)).fit()
        stored.score(queries[:8])  # checksums and lengths are looked at once
        held = th.KNN(k=NEIGHBOURS).fit(bank)
        search = partial(index.search, queries.numpy(), NEIGHBOURS)
        ours = [partial(held.score, queries), partial(stored.score, queries)]
        kept = True
        for name, value in zip(("KNN", "KNN from a store"), ratios(search, ours, rounds), strict=True):
            line = f"faiss.IndexFlatL2 / {name}, {LARGE:,} rows, D = {width:,}"
            kept &= report(line, value, "x", limit=1.0, at_least=True)
        return kept


def scikit_learn(bank: Tensor, queries: Tensor, detector: th.Detector, shown: str) -> bool:
    sklearn = optional("sklearn.neighbors")
    if sklearn is None:
        return True
    brute = sklearn.NearestNeighbors(n_neighbors=NEIGHBOURS, algorithm="brute", n_jobs=-1).fit(bank.numpy())
    value = ratio(lambda: brute.kneighbors(queries.numpy()), lambda: detector.score(queries), 1)
    return report(f"scikit-learn's brute force / KNN, {shown}", value, "x", limit=1.0, at_least=True)


def features_like(rows: int, seed: int) -> Tensor:
    """Rows near a curved surface of 24 dimensions, as features of a network are: hard enough for cells."""
    across = torch.randn(24, CELLS_WIDTH, generator=torch.Generator().manual_seed(0))
    generator = torch.Generator().manual_seed(seed)
    latent = torch.randn(rows, 24, generator=generator)
    noise = 0.2 * torch.randn(rows, CELLS_WIDTH, generator=generator)
    return unit_rows((latent @ across).relu_() + noise)


def approximate() -> bool:
    """A million rows: the search of cells beside the exact one, and beside faiss with as good a recall."""
    bank = torch.cat([features_like(100_000, seed) for seed in range(CELLS_ROWS // 100_000)])
    queries = features_like(QUERIES, 99)
    shown = f"{CELLS_ROWS:,} rows, D = {CELLS_WIDTH}"
    start = time.perf_counter()
    fitted = fitted_cells(bank, NEIGHBOURS, RECALL)
    report(f"cells of {shown}: fit, with recall measured", time.perf_counter() - start, "s")
    report("… searched of 1,000 cells", fitted.probes, "")
    known, _ = top_similarities(queries, bank, NEIGHBOURS)

    def cells() -> Tensor:
        return probed_similarities(queries, fitted.bank, fitted.cells, NEIGHBOURS, fitted.probes)[0]

    exactly = lambda: top_similarities(queries, bank, NEIGHBOURS, order_only=True)  # noqa: E731
    found = float((cells() >= known[:, -1:] - 1e-6).float().mean())
    kept = report(
        f"… recall of {RECALL} asked for, on new rows", found, "", limit=RECALL - 0.02, at_least=True
    )
    kept &= report(f"exact search / cells, {shown}", ratio(exactly, cells, 1), "x", limit=2.0, at_least=True)
    faiss = optional("faiss")
    if faiss is None:
        return kept
    count = len(fitted.cells.centres)
    index = faiss.IndexIVFFlat(faiss.IndexFlatIP(CELLS_WIDTH), CELLS_WIDTH, count, faiss.METRIC_INNER_PRODUCT)
    index.cp.niter, index.cp.max_points_per_centroid, index.cp.spherical = 8, 64, True
    start = time.perf_counter()
    index.train(bank[: 64 * count].numpy())
    index.add(bank.numpy())
    report("faiss.IndexIVFFlat: train and add", time.perf_counter() - start, "s")
    index.nprobe = fitted.probes
    values, _ = index.search(queries.numpy(), NEIGHBOURS)
    reached = float((torch.from_numpy(values) >= known[:, -1:] - 1e-6).float().mean())
    report("… recall with as many cells searched", reached, "")
    report(
        "faiss.IndexIVFFlat / cells", ratio(lambda: index.search(queries.numpy(), NEIGHBOURS), cells, 2), "x"
    )
    return kept


def main() -> int:
    kept = True
    for width in (512, 2_048):
        kept &= small(width)
    for width, rounds in ((512, 2), (2_048, 1)):
        kept &= large(width, rounds)
    kept &= approximate()
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
