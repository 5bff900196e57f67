"""What a search for neighbours costs: exact, from a store on disk, in half precision, and approximate.

    python speed/neighbours_speed.py

1,000 queries, 50 neighbours, unit rows, float32, all on the same cores, beside faiss and scikit-learn where
they are installed. Before each search the machine rests a moment: threads of the other library would still be
waiting for work, and take half of it. Exit code 1 if a promise is broken.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor

import theodolite as th
from lines import Measured
from scores_speed import optional
from theodolite.detectors._approximation import FittedCells, fitted_cells
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


def ratios(
    works: Sequence[Callable[[], object]], yardstick: Callable[[], object], rounds: int
) -> list[Measured]:
    """work/yardstick for several works beside one run of the yardstick, after a warm-up of each."""
    for warm in (*works, yardstick):
        warm()
    found: list[list[float]] = [[] for _ in works]
    for _ in range(rounds):
        base = rested(yardstick)
        for work, kept in zip(works, found, strict=True):
            kept.append(rested(work) / base)
    return [Measured(kept) for kept in found]


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


def exact(rows: int, width: int, rounds: int) -> bool:
    """KNN's score beside the bare search of faiss: bank in memory, mapped from a store, in half precision."""
    bank, queries = unit_noise(rows, width, 1), unit_noise(QUERIES, width, 2)
    with tempfile.TemporaryDirectory() as folder:
        store = written(Path(folder) / "store", bank)
        detectors = {
            "KNN": th.KNN(k=NEIGHBOURS).fit(bank),
            "KNN from a store": th.KNN(k=NEIGHBOURS, store=store).fit(),
        }
        if width == 512:
            detectors["KNN with half_bank"] = th.KNN(k=NEIGHBOURS, half_bank=True).fit(bank)
        faiss = optional("faiss")
        if faiss is None:
            yardstick, peer = partial(detectors["KNN"].score, queries), "KNN"
        else:
            index = faiss.IndexFlatL2(width)
            index.add(bank.numpy())
            yardstick, peer = partial(index.search, queries.numpy(), NEIGHBOURS), "faiss.IndexFlatL2"
        del bank
        works = [partial(detector.score, queries) for detector in detectors.values()]
        found = ratios(works, yardstick, rounds)
    kept = True
    for name, value in zip(detectors, found, strict=True):
        limit = 1.0 if faiss is not None and name != "KNN with half_bank" else None
        kept &= report(f"{name} / {peer}, {rows:,} rows, D = {width:,}", value, "x", limit=limit)
    return kept


def scikit_learn() -> bool:
    sklearn = optional("sklearn.neighbors")
    if sklearn is None:
        return True
    bank, queries = unit_noise(SMALL, 512, 1), unit_noise(QUERIES, 512, 2)
    detector = th.KNN(k=NEIGHBOURS).fit(bank)
    brute = sklearn.NearestNeighbors(n_neighbors=NEIGHBOURS, algorithm="brute", n_jobs=-1).fit(bank.numpy())
    (value,) = ratios([partial(detector.score, queries)], lambda: brute.kneighbors(queries.numpy()), 1)
    return report(f"KNN / scikit-learn's brute force, {SMALL:,} rows, D = 512", value, "x", limit=1.0)


def features_like(rows: int, seed: int) -> Tensor:
    """Rows near a curved surface of 24 dimensions, as features of a network are: hard enough for cells."""
    across = torch.randn(24, CELLS_WIDTH, generator=torch.Generator().manual_seed(0))
    generator = torch.Generator().manual_seed(seed)
    latent = torch.randn(rows, 24, generator=generator)
    noise = 0.2 * torch.randn(rows, CELLS_WIDTH, generator=generator)
    return unit_rows((latent @ across).relu_() + noise)


def approximate() -> bool:
    """A million rows: the search of cells beside the exact one, and beside faiss with as many cells."""
    bank = torch.cat([features_like(100_000, seed) for seed in range(CELLS_ROWS // 100_000)])
    queries = features_like(QUERIES, 99)
    shown = f"{CELLS_ROWS:,} rows, D = {CELLS_WIDTH}"
    start = time.perf_counter()
    fitted = fitted_cells(bank, NEIGHBOURS, RECALL)
    report(f"cells of {shown}: fit, with recall measured", time.perf_counter() - start, "s")
    known = top_similarities(queries, bank, NEIGHBOURS)[0][:, -1:]

    def cells() -> Tensor:
        return probed_similarities(queries, fitted.bank, fitted.cells, NEIGHBOURS, fitted.probes)[0]

    kept = report("… share of the cells searched", fitted.probes / len(fitted.cells.centres), "")
    kept &= report(
        f"… recall on new rows, {RECALL} asked for", recall(cells(), known), "", limit=0.94, at_least=True
    )
    exactly = partial(top_similarities, queries, bank, NEIGHBOURS, order_only=True)
    kept &= report(f"cells / exact search, {shown}", ratios([cells], exactly, 3)[0], "x", limit=0.5)
    faiss = optional("faiss")
    return kept if faiss is None else kept & inverted_file(faiss, bank, queries, known, cells, fitted)


def recall(values: Tensor, known: Tensor) -> float:
    return float((values >= known - 1e-6).float().mean())


def inverted_file(
    faiss: ModuleType,
    bank: Tensor,
    queries: Tensor,
    known: Tensor,
    cells: Callable[[], Tensor],
    fitted: FittedCells,
) -> bool:
    """faiss with as many cells, learnt and searched alike."""
    count = len(fitted.cells.centres)
    flat = faiss.IndexFlatIP(CELLS_WIDTH)
    index = faiss.IndexIVFFlat(flat, CELLS_WIDTH, count, faiss.METRIC_INNER_PRODUCT)
    index.cp.niter, index.cp.max_points_per_centroid, index.cp.spherical = 8, 64, True
    start = time.perf_counter()
    index.train(bank[: 64 * count].numpy())
    index.add(bank.numpy())
    report("faiss.IndexIVFFlat: train and add", time.perf_counter() - start, "s")
    search = partial(index.search, queries.numpy(), NEIGHBOURS)
    index.nprobe = fitted.probes
    report("… recall with as many cells searched", recall(torch.from_numpy(search()[0]), known), "")
    return report("cells / faiss.IndexIVFFlat", ratios([cells], search, 3)[0], "x", limit=1.0)


def main() -> int:
    kept = scikit_learn()
    for rows, width, rounds in ((SMALL, 512, 7), (SMALL, 2_048, 5), (LARGE, 512, 3), (LARGE, 2_048, 1)):
        kept &= exact(rows, width, rounds)
    kept &= approximate()
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
