"""The experiment on advice: its committed figures come back, and what is said of it follows from them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from theodolite.benchmarks.trials import Order, Ranked
from theodolite.cli.app import COMMANDS
from theodolite.detectors import list_detectors
from theodolite.paper import Context, experiments, read_study
from theodolite.paper.experiments.advice import (
    GRIDS,
    LEARNT,
    SCORES,
    SHARE,
    SUBJECTS,
    UNSEEN,
    Advice,
    advice_on,
)
from theodolite.paper.experiments.advice_figures import agreement, criterion, setting

ROOT = Path(__file__).parents[2]
# The others take minutes, for eigenvectors of 1,280 and 2,048 dimensions: `make test-long`.
QUICK = ("oe-mnist",)


def committed() -> Advice:
    study = read_study(json.loads((ROOT / "results" / "advice.json").read_text(encoding="utf-8")))
    assert isinstance(study, Advice)
    return study


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.long]) for name in SUBJECTS]
)
def test_every_digit_of_a_network_comes_back(name: str, data_root: Path, tmp_path: Path) -> None:
    made, kept = advice_on([name], Context(data_root, tmp_path)), committed()
    assert made.figures[name] == kept.figures[name]
    assert made.agreements == tuple(part for part in kept.agreements if part.subject == name)
    assert made.settings == tuple(part for part in kept.settings if part.subject == name)


def test_agreements_follow_from_the_figures_and_the_criterion_from_them() -> None:
    """Of every network, also of those that are not computed again."""
    study = committed()
    found = [(part.subject, part.rows) for part in study.agreements]
    assert found == [
        (name, rows) for name in SUBJECTS for rows in (UNSEEN, SHARE) if rows == UNSEEN or name in LEARNT
    ]
    for part in study.agreements:
        rows = study.figures[part.subject]
        assert len(rows) == part.scores == len(SCORES)
        truth = {row.score: row.fpr95 for row in rows}
        said = {row.score: float(np.mean(row.left_out[part.rows])) for row in rows}
        assert said[part.advised] == min(said.values())
        assert part.best_fpr95 == truth[part.best] == min(truth.values())
        assert part.advised_fpr95 == truth[part.advised]
        assert part.regret == pytest.approx(truth[part.advised] - part.best_fpr95, abs=1e-5)
        assert part.recommended_regret == pytest.approx(truth["Relative Energy"] - part.best_fpr95, abs=1e-5)
        assert part.random_regret == pytest.approx(np.mean(list(truth.values())) - part.best_fpr95, abs=1e-5)
        stats = pytest.importorskip("scipy.stats", reason="pip install scikit-learn brings it")
        orders = list(said.values()), list(truth.values())
        assert part.spearman == pytest.approx(stats.spearmanr(*orders).statistic, abs=1e-5)
        assert part.kendall == pytest.approx(stats.kendalltau(*orders).statistic, abs=1e-5)
    assert study.criteria == tuple(criterion(study.agreements, rows) for rows in (UNSEEN, SHARE))


def test_there_is_a_command_only_if_the_criterion_holds() -> None:
    """As it was fixed before the figures: a failure on unseen rows leaves no command."""
    unseen = next(row for row in committed().criteria if row.rows == UNSEEN)
    assert unseen.holds == ("advise" in {command.__name__ for command in COMMANDS})


def test_the_rule_names_its_scores() -> None:
    """Scores that are added later are no part of it."""
    assert len(SCORES) == 21
    assert set(SCORES) <= set(list_detectors())
    assert set(experiments()) >= {"advice"}


def test_the_page_prints_the_committed_figures() -> None:
    study = committed()
    page = (ROOT / "docs" / "which-score.md").read_text(encoding="utf-8")
    lines = {" ".join(line.replace("*", "").split()) for line in page.splitlines()}
    criteria, agreements, settings = study.tables()[:3]
    for label, cells in (*criteria.rows, *agreements.rows):
        assert f"| {label} | {' | '.join(cell.text for cell in cells)} |" in lines
    for label, cells in settings.rows:
        if cells[0].text == "mean":
            assert f"| {label} | {' | '.join(cell.text for cell in cells[2:])} |" in lines


# ---------------------------------------------------------------------- by hand


def order(**rates: float) -> Order:
    rows = [Ranked(spec, spec.upper(), (rate, rate), (50.0, 50.0)) for spec, rate in rates.items()]
    return Order(tuple(sorted(rows, key=lambda row: row.mean_fpr95)), {})


def test_regret_and_correlation_of_a_small_case() -> None:
    """One score is refused when advising: it counts on neither side, though it is the best."""
    true = order(a=10, b=20, c=30, refused=1, **{"relative-energy": 40})
    advised = order(b=1, a=2, c=3, other=0, **{"relative-energy": 4})
    specs = {"a", "b", "c", "refused", "relative-energy", "missing"}
    found = agreement("net", UNSEEN, advised, true, specs)
    assert (found.advised, found.best, found.scores) == ("B", "A", 4)
    assert (found.regret, found.recommended_regret, found.random_regret) == (10, 30, 15)
    assert found.spearman == pytest.approx(0.8)
    assert found.kendall == pytest.approx(4 / 6, abs=1e-6)
    assert criterion([found], UNSEEN).holds
    worse = agreement("net", UNSEEN, order(c=1, b=2, a=3, **{"relative-energy": 0}), true, specs)
    assert worse.spearman is not None
    assert worse.spearman < 0
    assert not criterion([worse], UNSEEN).holds
    assert not criterion([found, worse], UNSEEN).holds, "one of two is not most"


def test_a_setting_is_chosen_among_those_of_its_grid() -> None:
    texts = GRIDS["knn?k"]
    true = order(**dict(zip(texts, (20.0, 10.0, 15.0, 30.0, 40.0), strict=True)), energy=0.0)
    advised = order(**dict(zip(texts, (5.0, 9.0, 3.0, 8.0, 7.0), strict=True)), energy=0.0)
    found = setting("net", "knn?k", texts, advised, true)
    assert found.chosen == texts[2]
    assert (found.chosen_fpr95, found.default_fpr95, found.best_fpr95) == (15, 20, 10)
