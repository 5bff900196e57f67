"""Approximate search: the recall that was asked for, never a nearer neighbour, and the same from files."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest
import torch
from torch import Tensor

import theodolite as th
from theodolite.core.errors import FormatError, InputError, TheodoliteWarning
from theodolite.detectors._approximation import fitted_cells
from theodolite.geometry.cells import Cells, in_cells, probed_similarities
from theodolite.geometry.neighbours import top_similarities
from theodolite.reference.head import unit_rows

ROWS, WIDTH, K = 6_000, 16, 10


def clustered(rows: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(60, WIDTH, generator=torch.Generator().manual_seed(9))
    chosen = torch.randint(60, (rows,), generator=generator)
    return centres[chosen] + 0.5 * torch.randn(rows, WIDTH, generator=generator)


TRAIN, TEST = clustered(ROWS, 0), clustered(400, 1)
EXACT = th.KNN(k=K).fit(TRAIN)
DETECTOR = th.KNN(k=K, recall=0.95).fit(TRAIN)


def test_every_cell_searched_is_the_exact_search() -> None:
    bank, queries = unit_rows(TRAIN), unit_rows(TEST)
    cells, order = in_cells(bank)
    assert sorted(order.tolist()) == list(range(ROWS))
    for k in (1, 7, 300):
        values, places = probed_similarities(queries, bank[order], cells, k, len(cells.centres))
        expected, theirs = top_similarities(queries, bank, k)
        torch.testing.assert_close(values, expected, rtol=0, atol=1e-6)
        assert float((order[places].sort(dim=1).values == theirs.sort(dim=1).values).float().mean()) > 0.999
        products = (queries[:, None] * bank[order[places]]).sum(dim=2)
        torch.testing.assert_close(values, products, rtol=0, atol=1e-6)


def test_rows_lie_in_the_cell_of_their_nearest_centre() -> None:
    bank = unit_rows(TRAIN)
    cells, order = in_cells(bank)
    nearest = (bank[order].double() @ cells.centres.double().T).argmax(dim=1)
    belongs = torch.arange(len(cells.centres)).repeat_interleave(cells.starts.diff())
    assert float((nearest == belongs).float().mean()) > 0.999


def test_the_recall_asked_for_is_reached_on_rows_of_the_bank_and_on_new_ones() -> None:
    found = DETECTOR.approximation
    assert found is not None
    assert found.recall >= 0.95
    assert DETECTOR._cells.fewest_probes(K) < found.probes < found.cells / 4
    queries = unit_rows(TEST)
    known = top_similarities(queries, unit_rows(TRAIN), K)[0][:, -1:]
    cells = Cells(DETECTOR.cell_centres, DETECTOR.cell_starts)
    values, _ = probed_similarities(queries, DETECTOR.bank, cells, K, found.probes)
    assert float((values >= known - 1e-6).float().mean()) > 0.93
    assert EXACT.approximation is None


def test_what_is_missed_only_makes_a_sample_look_stranger() -> None:
    strangers = torch.randn(300, WIDTH, generator=torch.Generator().manual_seed(5))
    for rows in (TEST, strangers, TRAIN[:300]):
        assert bool((DETECTOR.score(rows) <= EXACT.score(rows) + 1e-6).all())
    torch.testing.assert_close(
        DETECTOR.score(TEST[:50].double()).float(), DETECTOR.score(TEST[:50]), rtol=1e-5, atol=1e-6
    )


def test_the_order_and_the_parts_of_the_data_make_no_difference() -> None:
    ids = torch.arange(ROWS)
    other = torch.randperm(ROWS, generator=torch.Generator().manual_seed(2))
    first, second = (
        th.KNN(k=K, recall=0.95).collect(TRAIN[part], ids=ids[part])
        for part in (other[:2_500], other[2_500:])
    )
    merged = th.KNN(k=K, recall=0.95).fit(first + second)
    assert torch.equal(merged.bank, DETECTOR.bank)
    torch.testing.assert_close(merged.score(TEST), DETECTOR.score(TEST), rtol=0, atol=0)
    parts = torch.cat([DETECTOR.score(part) for part in torch.split(TEST, 7)])
    torch.testing.assert_close(parts, DETECTOR.score(TEST), rtol=0, atol=1e-6)


def test_saved_and_read_back(tmp_path: Path) -> None:
    DETECTOR.save(tmp_path / "knn.safetensors")
    again = th.load(tmp_path / "knn.safetensors")
    assert isinstance(again, th.KNN)
    assert again.approximation == DETECTOR.approximation
    assert re.search(r"recall=0.95.*approximate: \d+ of 77 cells, which found 9[5-9]\.\d % of", repr(again))
    torch.testing.assert_close(again.score(TEST), DETECTOR.score(TEST), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cell_starts", torch.tensor([0, ROWS])),
        ("cell_starts", torch.arange(79) * ROWS),
        ("cell_centres", torch.zeros(3, WIDTH)),
        ("probes", torch.tensor(0)),
        ("probes", torch.tensor(10_000)),
        ("measured_recall", torch.tensor(torch.nan)),
    ],
)
def test_cells_that_are_not_of_the_bank_are_refused(name: str, value: Tensor) -> None:
    changed = th.KNN(k=K, recall=0.95).fit(TRAIN)
    changed.register_buffer(name, value)
    with pytest.raises(FormatError, match="its cells are not those of its bank"):
        changed._build()


def test_a_sample_half_way_between_cells_is_searched_in_the_same_ones_in_every_batch() -> None:
    bank = unit_rows(torch.randn(2_000, 64, generator=torch.Generator().manual_seed(3)))
    cells, order = in_cells(bank)
    between = unit_rows(cells.centres[:-1] + cells.centres[1:])
    for queries in (between, between.double()):
        together = probed_similarities(queries, bank[order], cells, 1, 1)[1]
        assert torch.equal(
            torch.cat(
                [probed_similarities(row, bank[order], cells, 1, 1)[1] for row in torch.split(queries, 1)]
            ),
            together,
        )
    assert torch.equal(probed_similarities(between, bank[order], cells, 1, 1)[1], together)


def test_the_recall_of_rows_that_float32_cannot_tell_apart_is_not_made_up() -> None:
    """Each cluster is narrower than a cosine is rounded: to float32 all its rows are as near."""
    generator = torch.Generator().manual_seed(4)
    centres = torch.randn(4, WIDTH, generator=generator, dtype=torch.float64)
    narrow = centres[torch.arange(ROWS) % 4] + 1e-4 * torch.randn(
        ROWS, WIDTH, generator=generator, dtype=torch.float64
    )
    bank = unit_rows(narrow).float()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TheodoliteWarning)
        found = fitted_cells(bank, K, 0.6)
    sample = bank[-300:].double()
    apart = torch.cdist(sample, bank.double())
    known = apart.topk(K + 1, largest=False).values[:, -1]
    _, places = probed_similarities(sample, found.bank, found.cells, K + 1, found.probes, by_distance=True)
    distances = torch.linalg.vector_norm(sample[:, None] - found.bank[places].double(), dim=2)
    hits = (distances <= known[:, None] * (1 + 1e-6)).sum(dim=1) - 1
    assert float((hits / K).mean()) == pytest.approx(found.recall, abs=0.05)


def test_half_precision_and_cells_go_together() -> None:
    small = th.KNN(k=K, recall=0.95, half_bank=True).fit(TRAIN)
    assert small.bank.dtype == torch.float16
    assert small.approximation is not None
    assert small.approximation.recall >= 0.95
    torch.testing.assert_close(small.score(TEST), DETECTOR.score(TEST), rtol=0, atol=2e-2)


@pytest.mark.parametrize("train", [TRAIN[:5], torch.zeros(300, WIDTH), TRAIN[:1].expand(300, -1)])
def test_degenerate_banks_have_k_rows_to_offer(train: Tensor) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TheodoliteWarning)
        found = th.KNN(k=K, recall=0.5).fit(train)
    torch.testing.assert_close(found.score(TEST[:20]), th.KNN(k=K).fit(train).score(TEST[:20]))


def test_a_recall_that_takes_most_of_the_bank_is_said_so() -> None:
    noise = torch.randn(900, WIDTH, generator=torch.Generator().manual_seed(0))
    with pytest.warns(TheodoliteWarning, match="hardly faster than the exact one"):
        found = th.KNN(k=K, recall=0.999).fit(noise)
    assert found.approximation is not None
    assert found.approximation.recall >= 0.999


def test_a_graph_of_an_approximate_search_is_refused() -> None:
    with pytest.raises(InputError, match="fit KNN with recall=1"):
        torch.export.export(DETECTOR, (TEST[:4],), strict=False)


@pytest.mark.parametrize("recall", [0.0, 0.49, 1.5])
def test_options_are_checked(recall: float, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"recall must lie in \[0.5, 1\]"):
        th.KNN(recall=recall)
    with pytest.raises(InputError, match="recall below 1 is a search of cells"):
        th.KNN(recall=0.9, store=tmp_path)


def test_a_guard_keeps_its_promise() -> None:
    """Calibrated with the search that it judges with: missed neighbours are in both."""
    guard = th.Guard.fit(TRAIN, detector=th.KNN(k=K, recall=0.9), calibration=clustered(1_000, 6))
    flagged = torch.as_tensor(guard.verdicts(clustered(2_000, 7)).is_ood)
    error = (0.05 * 0.95 * (1 / 1_000 + 1 / 2_000)) ** 0.5
    assert float(flagged.float().mean()) < 0.05 + 3 * error


def test_more_neighbours_than_at_the_fit_take_more_cells() -> None:
    bank = unit_rows(torch.randn(2_000, 8, generator=torch.Generator().manual_seed(0)))
    rows = torch.randn(20, 8, generator=torch.Generator().manual_seed(1))
    detector = th.KNN(k=5, recall=0.5).fit(bank)
    for k in (480, 2_000, 3_000):
        detector.__dict__["k"] = k  # options stay as they were fitted; the search takes any number
        exact = th.KNN(k=k).fit(bank).score(rows)
        found = detector.score(rows)
        assert bool((found <= exact + 1e-5).all())
        assert bool((found > -2.01).all())
        if k >= 2_000:
            torch.testing.assert_close(found, exact)
