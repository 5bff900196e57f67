"""The experiment on merges, in small; and that docs/scale.md says what it and its own formulas give."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch

from theodolite.cli.reproduce import reproduce
from theodolite.paper import read_study
from theodolite.paper.experiments import merging
from theodolite.paper.experiments.exact_sums import SCALE, Drawn, error_of, exact_sum
from theodolite.paper.experiments.merging import Merging
from theodolite.reference.moments import Moments

ROOT = Path(__file__).parents[2]
IMAGENET, BILLION = 1_281_167, 10**9
WIDTH, CLASSES = 2_048, 1_000


@pytest.fixture(scope="module")
def study() -> Merging:
    found = read_study(json.loads((ROOT / "results" / "merging.json").read_text(encoding="utf-8")))
    assert isinstance(found, Merging)
    return found


@pytest.fixture(scope="module")
def page() -> str:
    return (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")


def test_the_exact_sum_is_that_of_fractions_over_all_rows() -> None:
    """Rows cut among three workers, each with its exact statistics, against the rows at once."""
    rng = np.random.default_rng(0)
    table = rng.integers(-8, 9, (24, merging.WIDTH)).astype(np.float64)
    workers = []
    for rows in np.split(table, [8, 16]):  # means and scatters of eight whole numbers are exact in float64
        centred = rows - rows.mean(axis=0)
        workers.append(Drawn(len(rows), rows.mean(axis=0), centred.T @ centred))
    exact = exact_sum(workers)
    means = [Fraction(int(column.sum()), 24) for column in table.T]
    for i in range(merging.WIDTH):
        assert Fraction(exact.mean[i], 24 * SCALE) == means[i]
        for j in range(merging.WIDTH):
            products = (int(a) * int(b) for a, b in zip(table[:, i], table[:, j], strict=True))
            true = sum(products) - 24 * means[i] * means[j]
            assert Fraction(exact.scatter[i][j], 24 * SCALE**2) == true


def test_an_error_is_told_in_deviations_and_in_shares_of_a_variance() -> None:
    drawn = list(merging._drawn(3, 5.0, 0.0, np.random.default_rng(1)))
    exact = exact_sum(drawn)
    right = exact.rounded()
    within = right.within
    assert within is not None
    root = torch.linalg.cholesky(within / exact.count)
    off = Moments.restored(right.counts, right.means + 1e-3 * root[:, 0], 1.01 * within, None)
    error = error_of(off, exact)
    assert error.mean == pytest.approx(1e-3, rel=0.05)
    assert error.variance == pytest.approx(1e-2, rel=0.05)


def test_workers_are_drawn_as_rows_would_be() -> None:
    """The pooled covariance of 200 workers has 2·10⁷ rows behind it: right to √(2/n), four times over."""
    root = merging._root()
    drawn = list(merging._drawn(200, 0.0, 0.0, np.random.default_rng(2)))
    rows = sum(worker.count for worker in drawn)
    pooled = sum(worker.scatter for worker in drawn) / (rows - len(drawn))
    white = np.linalg.solve(root, np.linalg.solve(root, pooled).T)
    assert np.abs(white - np.eye(len(white))).max() < 4 * (2 / rows) ** 0.5
    means = np.stack([np.linalg.solve(root, worker.mean) * worker.count**0.5 for worker in drawn])
    assert means.var() == pytest.approx(1, abs=4 * (2 / means.size) ** 0.5)


def test_the_committed_errors_come_back_up_to_the_rounding_of_a_processor(study: Merging) -> None:
    """Of 100 workers; rounding is random, so a tenth to ten times of it."""
    small = [case for case in study.cases if case.workers == merging.WORKERS[0]]
    assert [case.offset for case in small] == list(merging.OFFSETS)
    for case in small:
        found = merging.compared(case.workers, case.offset)
        for mine, its in ((found.tree, case.tree), (found.sequence, case.sequence)):
            assert its.variance / 10 < mine.variance < 10 * its.variance
            assert its.mean / 30 < mine.mean < 30 * its.mean
    assert study.sizes == tuple(merging.size(name, merging.WORKERS[-1]) for name in merging.SIZED)
    assert merging.own_error(1e3, 4_000).variance < 1e-7


def test_the_experiment_needs_no_data_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("THEODOLITE_DATA", raising=False)
    monkeypatch.setattr(merging, "WORKERS", (2, 5))
    monkeypatch.setattr(merging, "ROWS", 500)
    reproduce(["merging"], output=tmp_path)
    made = read_study(json.loads((tmp_path / "merging.json").read_text(encoding="utf-8")))
    assert isinstance(made, Merging)
    assert [case.workers for case in made.cases] == [2, 2, 2, 5, 5, 5, 5]
    assert (tmp_path / "merging.md").read_text(encoding="utf-8") == made.document()


def test_a_merge_in_pairs_is_as_good_as_float64_and_sums_of_squares_are_not(study: Merging) -> None:
    assert {case.workers for case in study.cases} == set(merging.WORKERS)
    for case in study.cases:
        assert case.tree.variance < 1e-9, case
        assert case.tree.mean < 1e-6, case
        assert case.tree.mean <= 10 * case.rounded.mean, case
        assert case.tree.variance <= 10 * case.rounded.variance, case
        assert case.sequence.variance < 1e-8, case
        if case.offset >= 1e6:
            assert case.squares.variance > 100, case
    for worker in study.workers:
        assert worker.own.variance < 1e-7


# ---------------------------------------------------------------------- the page


def test_the_page_shows_the_committed_results(study: Merging, page: str) -> None:
    for case in study.cases:
        if case.workers == merging.WORKERS[-1]:
            means = [case.tree.mean, case.sequence.mean, case.rounded.mean]
            ways = (case.tree, case.sequence, case.rounded, case.squares)
            errors = [f"{value:.0e}" for value in (*means, *(way.variance for way in ways))]
            assert " | ".join([f"| {case.offset:g}", f"{case.drift:g}", *errors]) in page
    for size in study.sizes:
        counts = [f"{count / 1e6:,.2f}" for count in (size.one, size.sent, size.root)]
        assert " | ".join([f"| {size.score}", *counts]) in page


def test_what_a_fit_remembers_is_what_the_page_says(study: Merging) -> None:
    scatter = 4 * WIDTH * (WIDTH + 1)
    said = [8 * (WIDTH + 1), 8 * (WIDTH + 1) + scatter, 8 * CLASSES * (WIDTH + 1) + scatter]
    assert [size.one for size in study.sizes] == said


def test_the_arithmetic_of_the_page_is_right(page: str) -> None:
    """From the figures that the page itself states, whatever they are."""
    rate = float(_stated(page, r"a = ([\d.]+) images/s"))
    fit = float(_stated(page, r"b = ([\d.]+) ms")) / 1e3
    ratio = float(_stated(page, r"c = ([\d.]+):"))
    ora, relative = (float(text) / 1e3 for text in re.findall(r"([\d.]+) ms", _stated(page, r"- d = (.*)")))
    table = {
        line.split(" | ")[0].removeprefix("| "): line.removesuffix(" |").split(" | ")[2:]
        for line in page.split("### ImageNet")[1].split("## Accuracy")[0].splitlines()
        if line.startswith("| ") and "formula" not in line
    }
    row = 4 * WIDTH + 16
    expected: dict[str, list[float]] = {
        "features, float32": [4 * n * WIDTH for n in (IMAGENET, BILLION)],
        "features, float16": [2 * n * WIDTH for n in (IMAGENET, BILLION)],
        "extract": [n / rate for n in (IMAGENET, BILLION)],
        "fit ORA on features": [n / 20_000 * fit for n in (IMAGENET, BILLION)],
        "statistics of Relative Energy": [ratio * 2 * n * WIDTH**2 / 1e11 for n in (IMAGENET, BILLION)],
        "verdicts of ORA beside the pass": [n / 32 * ora for n in (IMAGENET, BILLION)],
        "verdicts of Relative Energy beside the pass": [n / 32 * relative for n in (IMAGENET, BILLION)],
        "bank of KNN, all rows": [n * row for n in (IMAGENET, BILLION)],
        "bank of KNN, 1,000,000 rows": [1e6 * row] * 2,
    }
    assert set(table) == set(expected)
    for name, values in expected.items():
        assert [_plain(text) for text in table[name]] == [pytest.approx(value, rel=5e-3) for value in values]
    assert f"{BILLION / 1e4 / rate / 3_600:.2f} h" in page
    assert f"{ratio * 2 * BILLION * WIDTH**2 / 1e11 / 1e4:.2f} s later" in page
    part = 4 * CLASSES * (WIDTH + 1) + 40 * 10**5
    scatter = 4 * WIDTH * (WIDTH + 1)
    parts = (part + 8 * WIDTH, part + 8 * WIDTH + scatter, part + 8 * CLASSES * WIDTH + scatter)
    own = [f"{bytes_ / 1e6:.1f} MB ({name})" for bytes_, name in zip(parts, _NAMES, strict=True)]
    assert " ".join(page.split()).count(", ".join(own)) == 1
    share = 2**20 / 1e9
    assert (1 - share) ** 1_000 == pytest.approx(0.35, abs=0.005)
    assert (1 - share) ** 10_000 == pytest.approx(3e-5, abs=0.5e-5)


_NAMES = ("ORA", "Relative Energy", "MDS")
_UNITS = {"GB": 1e9, "TB": 1e12, "s": 1.0, "h": 3_600.0, "days": 86_400.0}


def _stated(page: str, pattern: str) -> str:
    (found,) = re.findall(pattern, page)
    return str(found)


def _plain(text: str) -> float:
    number, unit = text.split()
    return float(number.replace(",", "")) * _UNITS[unit]
