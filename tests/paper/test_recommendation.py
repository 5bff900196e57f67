"""The study behind `theodolite.RECOMMENDED`: its candidates, its rule, and its confirmation."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from sklearn.covariance import OAS

from synthetic import Problem, make_problem
from theodolite.benchmarks.feature_folder import from_folder
from theodolite.benchmarks.feature_sets import FIT, TEST
from theodolite.benchmarks.subject import Subject
from theodolite.detectors import RECOMMENDED, detector_record
from theodolite.detectors.spec import parse_specs
from theodolite.paper import RunStudy, read_study
from theodolite.paper.experiments import confirmation, recommendation
from theodolite.paper.experiments.candidates import FORMULAS, REGISTERED, candidate_scores
from theodolite.paper.experiments.recommendation import choose

RESULTS = Path(__file__).parents[2] / "results"
ROWS = 12


def committed() -> RunStudy:
    return RunStudy.from_json(json.loads((RESULTS / "recommendation.json").read_text(encoding="utf-8")))


# ---------------------------------------------------------------------- the candidates


def angles(
    z: np.ndarray, weight: np.ndarray, bias: np.ndarray, mu: np.ndarray, sigma: np.ndarray
) -> np.ndarray:
    """All relative angles of one feature in the metric of sigma, the largest first."""
    inverse, logits = np.linalg.inv(sigma), weight @ z + bias
    p, found = int(np.argmax(logits)), []
    for c in set(range(len(weight))) - {p}:
        w = weight[p] - weight[c]
        u, v = z - mu, z - (logits[p] - logits[c]) / (w @ sigma @ w) * (sigma @ w) - mu
        cosine = u @ inverse @ v / np.sqrt((u @ inverse @ u) * (v @ inverse @ v))
        found.append(np.arccos(np.clip(cosine, -1, 1)))
    return np.sort(found)[::-1]


class View:
    """One feature in float64, by the definitions."""

    def __init__(self, z: np.ndarray, problem: Problem) -> None:
        weight, bias = problem.head.weight.double().numpy(), problem.head.bias.double().numpy()
        train, labels = problem.train.double().numpy(), problem.labels.numpy()
        mu = train.mean(axis=0)
        means = np.stack([train[labels == label].mean(axis=0) for label in np.unique(labels)])
        total = OAS().fit(train).covariance_
        within = OAS(assume_centered=True).fit(train - means[labels]).covariance_
        self.l = weight @ z + bias
        self.t = angles(z, weight, bias, mu, total)
        self.e = angles(z, weight, bias, mu, np.eye(len(z)))
        self.plain = np.linalg.norm(z - mu)
        self.total, self.within = (np.sqrt((z - mu) @ np.linalg.inv(s) @ (z - mu)) for s in (total, within))
        self.energy = np.log(np.exp(self.l).sum())
        self.evidence = np.log(np.exp(self.l - self.l.mean()).sum())
        self.margin = self.l.max() - self.l.mean()


DEFINED: dict[str, Callable[[View], float]] = {
    "mean of the 3 largest θ_c": lambda v: sum(v.t[:3]) / 3,
    "mean of the larger half of θ_c": lambda v: sum(v.t[:2]) / 2,
    "median θ_c": lambda v: np.median(v.t),
    "geometric mean of θ_c": lambda v: np.prod(v.t) ** (1 / 5),
    "mean sin θ_c": lambda v: np.mean(np.sin(v.t)),
    "mean tan θ_c, clipped to ±10": lambda v: np.mean(np.clip(np.tan(v.t), -10, 10)),
    "max θ_c + mean θ_c": lambda v: max(v.t) + np.mean(v.t),
    "max θ_c + max θᴱ_c": lambda v: max(v.t) + max(v.e),
    "mean θ_c + mean θᴱ_c": lambda v: np.mean(v.t) + np.mean(v.e),
    "energy / ‖z − μ‖_Σ": lambda v: v.energy / v.total,
    "energy / ‖z − μ‖_within": lambda v: v.energy / v.within,
    "energy / ‖z − μ‖": lambda v: v.energy / v.plain,
    "max l / ‖z − μ‖_Σ": lambda v: max(v.l) / v.total,
    "(max l − l̄) / ‖z − μ‖_Σ": lambda v: v.margin / v.total,
    "(max l − l̄) / ‖z − μ‖_within": lambda v: v.margin / v.within,
    "(max l − l̄) / ‖z − μ‖": lambda v: v.margin / v.plain,
    "(max l − min l) / ‖z − μ‖_Σ": lambda v: (max(v.l) - min(v.l)) / v.total,
    "std l / ‖z − μ‖_Σ": lambda v: np.std(v.l, ddof=1) / v.total,
    "log Σ exp(l − l̄) / ‖z − μ‖_within": lambda v: v.evidence / v.within,
    "log Σ exp(l − l̄) / ‖z − μ‖": lambda v: v.evidence / v.plain,
    "−‖z − μ‖_Σ": lambda v: -v.total,
    "−‖z − μ‖_within": lambda v: -v.within,
}


@pytest.fixture(scope="module")
def problem() -> Problem:
    return make_problem()


def write_folder(problem: Problem, folder: Path, shift: torch.Tensor | None = None) -> Subject:
    """``shift`` is added to every class's weights: a common function of the features in all logits."""
    folder.mkdir()
    weight = problem.head.weight if shift is None else problem.head.weight + shift
    save_file({"weight": weight, "bias": problem.head.bias}, folder / "head.safetensors")
    save_file({"features": problem.train, "labels": problem.labels}, folder / f"{FIT}.safetensors")
    save_file({"features": problem.test[:ROWS].contiguous()}, folder / f"{TEST}.safetensors")
    save_file({"features": problem.ood[:ROWS].contiguous()}, folder / "strange.safetensors")
    return from_folder(folder)


def test_every_formula_is_its_definition(problem: Problem, tmp_path: Path) -> None:
    assert set(DEFINED) == set(FORMULAS)
    found = candidate_scores(write_folder(problem, tmp_path / "made"), tmp_path)
    for name, rows in ((TEST, problem.test), ("strange", problem.ood)):
        views = [View(z, problem) for z in rows[:ROWS].double().numpy()]
        for label, formula in DEFINED.items():
            expected = [formula(view) for view in views]
            assert found[label][name] == pytest.approx(expected, rel=2e-5, abs=2e-6), (label, name)


def test_eligible_candidates_ignore_a_common_function_of_the_logits(problem: Problem, tmp_path: Path) -> None:
    shift = torch.linspace(-0.1, 0.2, problem.head.width)
    plain = candidate_scores(write_folder(problem, tmp_path / "plain"), tmp_path)
    moved = candidate_scores(write_folder(problem, tmp_path / "moved", shift), tmp_path)
    for label, scores in plain.items():
        same = moved[label][TEST] == pytest.approx(scores[TEST], rel=1e-3, abs=1e-4)
        if label not in FORMULAS or FORMULAS[label].eligible:
            assert same, label
        elif label.startswith(("energy", "max l")):
            assert not same, label


def test_every_candidate_is_listed_with_its_intervals() -> None:
    study = committed()
    labels = {spec.label for spec in parse_specs(REGISTERED)} | set(FORMULAS)
    assert study.choice is not None
    assert {row.candidate for row in study.choice.choice} == labels
    assert study.result.bootstrap is not None
    assert study.result.bootstrap.replicates >= 200
    for cell in study.result.cells:
        if cell.metric in ("fpr95", "auroc"):
            assert cell.interval is not None
            assert cell.interval.low <= cell.interval.high
    for model in study.result.subjects:
        assert set(study.result.detector_names(model)) == labels


# ---------------------------------------------------------------------- the choice


def test_the_recommended_score_is_better_than_ora_and_fdbd_on_every_data_set() -> None:
    """The promise behind `theodolite.RECOMMENDED`, in the committed study."""
    study = committed()
    title, result = detector_record(RECOMMENDED).title, study.result

    def average(model: str, label: str, metric: str) -> float:
        return result.cell(model, label, "average", metric).value

    assert set(result.subjects) == {"cifar10-densenet", "OE ConvNet", "imagenet-lite0"}
    for model in result.subjects:
        for rival in ("ORA", "fDBD"):
            assert average(model, title, "fpr95") < average(model, rival, "fpr95")
            assert average(model, title, "auroc") > average(model, rival, "auroc")
    assert study.choice is not None
    assert study.choice.recommended == title
    assert study.choice.held_out not in study.choice.development


def test_the_rule_of_the_study_chooses_as_it_says() -> None:
    """Made scores: one clear winner in FPR95, one tied with it but better in AUROC, one far behind."""
    rng = np.random.default_rng(0)
    known, strange = rng.normal(3, 1, 2000), rng.normal(0, 1, 2000)
    sets = {
        "best": {TEST: known, "ood": strange},
        "tied": {
            TEST: known + 1e-9 * rng.normal(size=2000),
            "ood": np.where(strange < 1, strange - 3, strange),
        },
        "behind": {TEST: known, "ood": strange + 2},
    }
    rows = choose({"made": sets}, seed=0)
    assert rows[0].candidate == "tied"
    assert rows[0].chosen
    assert {row.candidate: row.tied for row in rows} == {"best": True, "tied": True, "behind": False}


# ---------------------------------------------------------------------- the confirmation


def network(task: str, ours: tuple[float, float], theirs: tuple[float, float]) -> confirmation.Network:
    def figures(pair: tuple[float, float]) -> dict[str, float]:
        return dict(zip(("fpr95", "auroc"), pair, strict=True))

    title = detector_record(RECOMMENDED).title
    scores = {title: figures(ours), "ORA": figures(theirs), "fDBD": figures((50.0, 80.0))}
    return confirmation.Network(task, "made", 0, 90.0, scores)


@pytest.mark.parametrize(
    ("theirs", "holds"),
    [((20.0, 90.0), True), ((4.0, 90.0), False), ((20.0, 99.0), False)],
)
def test_the_criterion_asks_for_both_metrics(theirs: tuple[float, float], holds: bool) -> None:
    networks = [network("made", (10.0, 95.0), theirs), network("made", (12.0, 96.0), theirs)]
    found = confirmation._across(networks, list(networks[0].scores))
    assert found.against["ORA"].holds is holds
    assert found.against["fDBD"].holds is True
    assert found.against["fDBD"].fpr95.mean == pytest.approx(-39)
    assert found.against["fDBD"].lower_fpr95 == 2


def test_the_committed_confirmation_follows_from_its_networks() -> None:
    study = read_study(json.loads((RESULTS / "confirmation.json").read_text(encoding="utf-8")))
    assert isinstance(study, confirmation.Confirmation)
    assert len(study.networks) == 4 * 2 * 3
    for name, task in study.tasks.items():
        networks = [part for part in study.networks if part.task == name]
        assert task == confirmation._across(networks, list(task.scores))
    assert "| NO |" in study.document(), "a criterion that failed is said to have failed"


def test_a_task_learns_from_other_pictures_than_it_is_judged_on(data_root: Path) -> None:
    for task in confirmation.TASKS:
        split = confirmation.split_of(task, data_root)
        at = len(split.labels[FIT])
        assert at == pytest.approx(0.7 * (at + len(split.labels[TEST])), abs=1)
        assert set(split.labels[TEST].tolist()) == set(range(task.classes))
        learnt = {image.numpy().tobytes() for image in split.images[FIT]}
        assert len(learnt) > 0.98 * at
        for name in set(split.images) - {FIT}:
            repeated = sum(image.numpy().tobytes() in learnt for image in split.images[name])
            assert repeated <= 0.03 * len(split.images[name]), (task.name, name, repeated)
        if not task.others:
            assert set(split.images) == {FIT, TEST, "other classes"}


def test_a_network_is_trained_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = torch.Generator().manual_seed(0)
    images = {name: torch.rand(40, 1, 28, 28, generator=rng) for name in (FIT, TEST, "strange")}
    labels = {name: torch.arange(40) % 3 for name in (FIT, TEST)}
    split, task = confirmation.Split(images, labels), confirmation.Task("made", "mnist", 3)
    make = confirmation.NETWORKS["ConvNet"]
    first = confirmation._trained(task, split, make, 0, tmp_path / "network")
    assert first.head.classes == 3
    assert set(first.ood) == {"strange"}
    monkeypatch.setattr(confirmation, "train", None)
    again = confirmation._trained(task, split, make, 0, tmp_path / "network")
    assert again.digests == first.digests
    assert set(confirmation._averages(first)) >= {"ORA", "fDBD", "Relative Energy"}


def test_the_study_recommends_what_its_rule_chose(problem: Problem, tmp_path: Path) -> None:
    subjects = [write_folder(problem, tmp_path / name) for name in "abc"]
    scores = {subject.name: candidate_scores(subject, tmp_path) for subject in subjects}
    rows = choose({name: scores[name] for name in "ab"}, seed=0)
    other = [replace(row, chosen=row.candidate == "fDBD") for row in rows]
    made = recommendation._study(subjects, scores, other, seed=0)
    assert made.choice is not None
    assert made.choice.recommended == "fDBD"
    assert made.to_json()["recommended"] == "fDBD"
