"""The committed study by regret: it follows from its figures, and its figures are those of other studies."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from theodolite.benchmarks.feature_folder import from_folder
from theodolite.detectors import RECOMMENDED, detector_record
from theodolite.paper import Context, RunStudy, Study, read_study
from theodolite.paper.experiments import regret as study
from theodolite.paper.experiments import regret_candidates
from theodolite.paper.experiments.contrastive_study import Contrastive
from theodolite.paper.experiments.regret import Regret
from theodolite.paper.experiments.regret_candidates import COMBINATIONS, candidates
from theodolite.paper.experiments.regret_formulas import FORMULAS
from theodolite.paper.experiments.regret_rule import DevelopmentSet, decided

RESULTS = Path(__file__).parents[2] / "results"
LOSSES = ("SupCon", "cross-entropy")
SETS = (
    *("cifar10-densenet", "imagenet-lite0", "imagenet-resnet50", "clinc150-minilm", "oe-mnist"),
    *(f"{data}, {loss}" for data in ("MNIST", "Fashion-MNIST", "CIFAR-10") for loss in LOSSES),
)


def read(name: str) -> Study:
    return read_study(json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8")))


def committed() -> Regret:
    found = read("regret")
    assert isinstance(found, Regret)
    return found


def one_set(name: str) -> DevelopmentSet:
    return next(one for one in committed().sets if one.name == name)


def test_the_decision_follows_from_the_figures() -> None:
    found = committed()
    assert found.decision == decided(found.sets, found.candidates, found.decision.default)
    assert (detector_record(RECOMMENDED).title == found.decision.winner) == found.decision.replaced or (
        found.decision.winner == found.decision.default
    )


def test_every_candidate_is_there_on_every_set() -> None:
    """None is left out: what has no figure is refused, with a reason."""
    found = committed()
    assert list(found.candidates) == candidates()
    assert tuple(one.name for one in found.sets) == SETS
    labels = {one.label for one in found.candidates}
    for one in found.sets:
        assert set(one.figures) | set(one.refused) == labels
        assert not set(one.figures) & set(one.refused)
        assert all(one.refused.values())
        assert one.networks == (3 if one.name.endswith(LOSSES) else 1)
        assert all(0 <= cell.fpr95 <= 100 and 0 <= cell.auroc <= 100 for cell in one.figures.values())


@pytest.mark.parametrize("folder", ["cifar10-densenet", "imagenet-lite0", "imagenet-resnet50"])
def test_figures_of_registered_scores_are_those_of_their_own_tables(folder: str) -> None:
    table, here = read(folder), one_set(folder)
    assert isinstance(table, RunStudy)
    known = table.result.detector_names(folder)
    assert len(known) >= 30
    for label in known:
        cells = [table.result.cell(folder, label, ood, "fpr95") for ood in table.result.ood_names(folder)]
        assert here.figures[label].fpr95 == pytest.approx(np.mean([cell.value for cell in cells]), abs=1e-3)


def test_text_has_the_figures_that_are_known_of_it() -> None:
    known = {"R-Mah": 14.7, "P-Cos": 17.7, "ORA metric=mahalanobis aggregate=mean": 24.1, "fDBD": 32.2}
    known |= {"Relative Energy": 31.0, "KNN": 31.2, "ORA": 35.7, "Energy": 60.0, "MSP": 69.1}
    here = one_set("clinc150-minilm")
    assert {label: here.figures[label].fpr95 for label in known} == pytest.approx(known, abs=0.1)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("contrastive-mnist", "MNIST"),
        ("contrastive-fashion-mnist", "Fashion-MNIST"),
        ("contrastive-cifar10", "CIFAR-10"),
    ],
)
def test_figures_of_trained_networks_are_those_of_the_contrastive_study(name: str, data: str) -> None:
    table = read(name)
    assert isinstance(table, Contrastive)
    for loss in LOSSES:
        here, networks = one_set(f"{data}, {loss}"), [row for row in table.networks if row.loss == loss]
        for label in networks[0].scores:
            mean = np.mean([row.average(label, "fpr95") for row in networks])
            assert here.figures[label].fpr95 == pytest.approx(mean, abs=1e-3), (loss, label)


def test_formulas_and_combinations_come_back_on_text(
    data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a set that needs no training; of registered scores what combinations are made of."""
    few = ("relative-energy", "pcos", "residual", "fdbd", "knn")
    monkeypatch.setattr(regret_candidates, "REGISTERED", few)
    subject = from_folder(data_root / "clinc150-minilm")
    made = study.measured("clinc150-minilm", "CLINC150", [subject], Context(data_root, tmp_path))
    kept = one_set("clinc150-minilm")
    assert len(made.figures) == len(few) + len(FORMULAS) + len(COMBINATIONS)
    for label, figure in made.figures.items():
        assert figure.fpr95 == kept.figures[label].fpr95, label
        assert figure.auroc == pytest.approx(kept.figures[label].auroc, abs=1e-3), label
