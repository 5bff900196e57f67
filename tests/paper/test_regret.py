"""The second study of the recommended score: its candidates, its rule, and what is committed of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.covariance import OAS

from synthetic import Problem, make_problem
from theodolite.benchmarks.feature_sets import TEST, ArraySet
from theodolite.benchmarks.scales import apart, scales_of
from theodolite.benchmarks.subject import Subject
from theodolite.core.errors import InputError
from theodolite.detectors import RECOMMENDED, detector_record, list_detectors
from theodolite.paper import Context, experiments, read_study
from theodolite.paper.experiments import regret as study
from theodolite.paper.experiments import regret_candidates
from theodolite.paper.experiments.regret_candidates import (
    COMBINATIONS,
    REGISTERED,
    CandidateScores,
    candidate_scores,
    candidates,
)
from theodolite.paper.experiments.regret_formulas import FORMULAS, formula_scores
from theodolite.paper.experiments.regret_rule import (
    Candidate,
    DevelopmentSet,
    Figure,
    best_single,
    decided,
    left_out,
    ranked,
    regrets,
)

DEFAULT = "Relative Energy"
ROWS = 10


@pytest.fixture(scope="module")
def problem() -> Problem:
    return make_problem(rows=300)


@pytest.fixture(scope="module")
def subject(problem: Problem) -> Subject:
    """Half of the rows of a third class are left, so that counts differ."""
    kept = ~((problem.labels == 2) & (torch.arange(300) % 4 == 0))
    fit = ArraySet(problem.train[kept], problem.labels[kept])
    ood = {"strange": ArraySet(problem.ood[:ROWS]), "other": ArraySet(problem.ood[ROWS : 3 * ROWS])}
    return Subject("made", problem.head, fit, ArraySet(problem.test[:ROWS]), ood)


@pytest.fixture(scope="module")
def scores(subject: Subject) -> CandidateScores:
    with pytest.warns(UserWarning, match="TempScale"):
        return candidate_scores(subject, None)


# ---------------------------------------------------------------------- the candidates, by their definitions


def shrunk(covariance: np.ndarray, samples: int) -> np.ndarray:
    """OAS of a covariance that so many samples are behind (Chen et al. 2010, in the form of scikit-learn)."""
    width = len(covariance)
    scale, power = np.trace(covariance) / width, np.mean(covariance**2)
    weight = min(1.0, (power + scale**2) / ((samples + 1) * (power - scale**2 / width)))
    shrunken: np.ndarray = (1 - weight) * covariance + weight * scale * np.eye(width)
    return shrunken


class Fit:
    """What rows say, in float64, by the definitions."""

    def __init__(self, rows: np.ndarray, labels: np.ndarray) -> None:
        present = np.unique(labels)
        self.mean = rows.mean(axis=0)
        self.means = np.stack([rows[labels == label].mean(axis=0) for label in present])
        residuals = rows - self.means[np.searchsorted(present, labels)]
        free = len(rows) - len(present)
        total = OAS().fit(rows).covariance_
        assert shrunk(np.cov(rows.T, bias=True), len(rows)) == pytest.approx(total, rel=1e-9, abs=1e-12)
        self.total = np.linalg.inv(total)
        self.within = np.linalg.inv(shrunk(residuals.T @ residuals / free, free))


def length(x: np.ndarray, inverse: np.ndarray) -> float:
    return float(np.sqrt(x @ inverse @ x))


def cosine(x: np.ndarray, y: np.ndarray, inverse: np.ndarray) -> float:
    return float(x @ inverse @ y) / (length(x, inverse) * length(y, inverse))


def evidence(logits: np.ndarray) -> float:
    return float(np.log(np.exp(logits - logits.mean()).sum()))


class View:
    """Every formula of one row."""

    def __init__(self, z: np.ndarray, fit: Fit, sphere: Fit, head: tuple[np.ndarray, np.ndarray]) -> None:
        weight, bias = head
        flat, away = np.eye(len(z)), z - fit.mean
        steps = fit.means - fit.mean
        within = min(length(z - mean, fit.within) for mean in fit.means)
        g = np.array([away @ fit.within @ step - step @ fit.within @ step / 2 for step in steps])
        unit = z / np.linalg.norm(z)
        near = min(length(unit - mean, sphere.within) for mean in sphere.means)
        proof = evidence(weight @ z + bias)
        self.energy = proof / length(away, fit.total)
        self.cosine = max(cosine(z, mean, flat) for mean in fit.means)
        in_metric = max(cosine(away, step, fit.total) for step in steps)
        self.formulas = {
            "max_c cos(z − μ, μ_c − μ)": max(cosine(away, step, flat) for step in steps),
            "max_c cos_Σ(z − μ, μ_c − μ)": in_metric,
            "log Σ exp(l − l̄) / min_c ‖z − μ_c‖_Σ": proof
            / min(length(z - mean, fit.total) for mean in fit.means),
            "log Σ exp(l − l̄) / min_c ‖z − μ_c‖_W": proof / within,
            "log Σ exp(g − ḡ) / ‖z − μ‖_Σ": evidence(g) / length(away, fit.total),
            "MDS, W shrunk": -(within**2),
            "R-Mah, W shrunk": length(away, fit.total) ** 2 - within**2,
            "R-Mah+, W shrunk": length(unit - sphere.mean, sphere.total) ** 2 - near**2,
            "Relative Energy · P-Cos": self.energy * self.cosine,
            "Relative Energy · max_c cos_Σ": self.energy * in_metric,
        }


def views(rows: ArraySet, fit: ArraySet, subject: Subject) -> list[View]:
    """The rows of a set as the fit sees them."""
    assert fit.labels is not None
    head = (subject.head.weight.double().numpy(), subject.head.bias.double().numpy())
    known, labels = fit.features.double().numpy(), fit.labels.numpy()
    plain = Fit(known, labels)
    sphere = Fit(known / np.linalg.norm(known, axis=1, keepdims=True), labels)
    return [View(z, plain, sphere, head) for z in rows.features.double().numpy()]


def in_memory(rows: object) -> ArraySet:
    batches = list(rows)  # type: ignore[call-overload]
    return ArraySet(torch.cat([batch[0] for batch in batches]), torch.cat([batch[1] for batch in batches]))


def test_every_formula_is_its_definition(subject: Subject, scores: CandidateScores) -> None:
    assert isinstance(subject.fit, ArraySet)
    for name, rows in subject.judged.items():
        assert isinstance(rows, ArraySet)
        seen = views(rows, subject.fit, subject)
        assert set(seen[0].formulas) == set(FORMULAS)
        for label in FORMULAS:
            # Statistics of unit features are collected in float32.
            near = 1e-5 if label.startswith("R-Mah+") else 1e-8
            expected = [view.formulas[label] for view in seen]
            assert scores.values[label][name] == pytest.approx(expected, rel=near, abs=near), (label, name)


def test_combinations_are_their_definitions(subject: Subject, scores: CandidateScores) -> None:
    """Scales come from rows held back, as a fit on the rest sees them."""
    rest, held_back = map(in_memory, apart(subject.fit, subject.head.classes))
    assert isinstance(subject.fit, ArraySet)
    assert isinstance(subject.test, ArraySet)
    known, judged = views(held_back, rest, subject), views(subject.test, subject.fit, subject)
    assert len(known) == len(subject.fit) // 5

    def both(of: str) -> tuple[np.ndarray, np.ndarray]:
        def value(view: View) -> float:
            return {DEFAULT: view.energy, "P-Cos": view.cosine}.get(of, view.formulas.get(of, np.nan))

        return np.array([value(view) for view in known]), np.array([value(view) for view in judged])

    for way, parts in (
        ("standardised", (DEFAULT, "P-Cos", "MDS, W shrunk")),
        ("Fisher", (DEFAULT, "P-Cos", "MDS, W shrunk")),
        ("least", (DEFAULT, "P-Cos", "MDS, W shrunk")),
    ):
        pairs = [both(part) for part in parts]
        if way == "Fisher":
            counts = [(scale[None, :] <= seen[:, None]).sum(axis=1) for scale, seen in pairs]
            expected = sum(np.log((1 + count) / (len(known) + 1)) for count in counts)
        else:
            units = np.array([(seen - scale.mean()) / scale.std() for scale, seen in pairs])
            expected = units.mean(axis=0) if way == "standardised" else units.min(axis=0)
        label = f"{way}: {' + '.join(parts)}"
        assert scores.values[label][TEST] == pytest.approx(expected, rel=1e-4, abs=1e-4), label


def test_every_candidate_has_scores_on_every_set(subject: Subject, scores: CandidateScores) -> None:
    assert scores.refused == {}
    assert set(scores.values) == {one.label for one in candidates()}
    for label, sets in scores.values.items():
        assert {name: len(rows) for name, rows in sets.items()} == {
            name: len(rows) for name, rows in subject.judged.items()
        }, label


def test_a_combination_of_a_refused_score_is_refused_with_its_reason(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        regret_candidates, "REGISTERED", ("relative-energy", "pcos", "residual", "fdbd", "knn")
    )
    scaled = scales_of

    def refusing(scorer: object, labels: object) -> object:
        found = scaled(scorer, labels)  # type: ignore[arg-type]
        found.values.pop("Residual")
        found.refused["Residual"] = "it has no scale"
        return found

    monkeypatch.setattr(regret_candidates, "scales_of", refusing)
    found = candidate_scores(subject, None)
    with_it = {one.label for one in COMBINATIONS if "Residual" in one.parts}
    assert set(found.refused) == with_it
    assert set(found.refused.values()) == {"Residual: it has no scale"}
    assert not with_it & set(found.values)


def test_one_row_a_class_is_refused(problem: Problem) -> None:
    fit = ArraySet(problem.train[:6], problem.labels[:6])
    with pytest.raises(InputError, match="6 rows, one a class, do not vary within classes"):
        formula_scores(problem.head, fit, {TEST: ArraySet(problem.test)})


def test_candidates_are_those_of_the_day_and_eligible_ones_have_nothing_to_set() -> None:
    known = {one.label: one for one in candidates()}
    assert len(known) == len(REGISTERED) + len(FORMULAS) + len(COMBINATIONS) == 37 + 10 + 15
    assert {name.partition("?")[0] for name in REGISTERED} <= set(list_detectors())
    barred = {"KNN", "NNGuide", "CSI", "NCI", "GEN", "Energy", "ODIN (ε=0)", "OpenMax", "NECO", "DICE", "LTS"}
    assert not any(known[label].eligible for label in barred)
    assert not known["standardised: Relative Energy + KNN"].eligible
    free = {"Relative Energy", "ORA", "P-Cos", "R-Mah", "MDS", "ViM", "Residual", "SSD+", *FORMULAS}
    assert all(known[label].eligible for label in free)
    assert [one.label for one in known.values() if one.single] == list(known)[: len(REGISTERED)]
    assert "regret" in experiments()


# ---------------------------------------------------------------------- the rule, on made figures

KNOWN = [
    Candidate(DEFAULT, "", single=True, eligible=True),
    Candidate("bank", "", single=True, eligible=False),
    Candidate("a", "", single=True, eligible=True),
    Candidate("b", "", single=False, eligible=True),
]


def made(name: str, fprs: tuple[float | None, ...], data: str | None = None) -> DevelopmentSet:
    """FPR95 of the candidates in their order; None is a refusal."""
    pairs = list(zip((one.label for one in KNOWN), fprs, strict=True))
    figures = {label: Figure(value, 100 - value) for label, value in pairs if value is not None}
    refused = {label: "no" for label, value in pairs if value is None}
    return DevelopmentSet(name, data or name, 1, figures, refused)


BETTER = [
    made("one", (20.0, 10.0, 30.0, 12.0)),
    made("two", (30.0, 50.0, 10.0, 14.0)),
    made("three", (10.0, 40.0, 35.0, 9.0)),
]


def test_regret_is_what_is_lost_to_the_best_registered_score() -> None:
    found = regrets(BETTER, KNOWN)
    assert [best_single(one, KNOWN) for one in BETTER] == ["bank", "a", DEFAULT]
    assert found[DEFAULT] == {"one": 10.0, "two": 20.0, "three": 0.0}
    assert found["b"] == {"one": 2.0, "two": 4.0, "three": -1.0}, "a combination may be ahead of them all"


def test_a_refusal_is_a_regret_of_a_hundred() -> None:
    sets = [*BETTER[:2], made("three", (10.0, 40.0, 35.0, None))]
    assert regrets(sets, KNOWN)["b"]["three"] == 100.0
    row = next(row for row in decided(sets, KNOWN, DEFAULT).rows if row.candidate == "b")
    assert (row.worst, row.on) == (100.0, "three")
    best = made("four", (None, 5.0, 7.0, 1.0))
    assert best_single(best, KNOWN) == "bank"
    assert regrets([best], KNOWN)[DEFAULT]["four"] == 100.0


def test_the_smallest_worst_regret_wins_and_replaces_the_default() -> None:
    said = decided(BETTER, KNOWN, DEFAULT)
    assert (said.winner, said.replaced) == ("b", True)
    assert all(one.holds for one in said.conditions)
    assert [row.candidate for row in said.rows] == ["b", DEFAULT, "a", "bank"]
    assert [(row.worst, row.on, row.mean) for row in said.rows[:2]] == [
        (4.0, "two", 1.6667),
        (20.0, "two", 10.0),
    ]


def test_of_tied_candidates_the_smaller_mean_wins() -> None:
    """a is worst by 4.9 and otherwise 0, b by 4 everywhere: a point apart is a tie."""
    sets = [made("one", (20.0, 10.0, 14.9, 14.0)), made("two", (40.0, 30.0, 10.0, 14.0))]
    said = decided(sets, KNOWN, DEFAULT)
    assert {row.candidate: row.tied for row in said.rows} == {
        "a": True,
        "b": True,
        DEFAULT: False,
        "bank": False,
    }
    assert said.winner == "a"
    beyond = [made("one", (20.0, 10.0, 15.1, 14.0)), sets[1]]
    assert decided(beyond, KNOWN, DEFAULT).winner == "b"
    exactly = [made("one", (20.0, 10.0, 15.0, 14.0)), sets[1]]
    assert decided(exactly, KNOWN, DEFAULT).winner == "a", "a point is within a point"


def test_what_is_not_eligible_never_wins() -> None:
    sets = [made("one", (20.0, 5.0, 30.0, 12.0)), made("two", (20.0, 5.0, 40.0, 30.0))]
    said = decided(sets, KNOWN, DEFAULT)
    assert (said.winner, said.replaced) == (DEFAULT, False)
    assert said.rows[1].candidate == "bank"
    assert said.rows[1].worst == 0.0


@given(order=st.permutations(range(5)), values=st.lists(st.integers(0, 400), min_size=20, max_size=20))
@settings(max_examples=50, deadline=None)
def test_the_order_of_the_sets_decides_nothing(order: list[int], values: list[int]) -> None:
    fprs = np.array(values).reshape(5, 4) / 4
    sets = [made(f"set {n}", tuple(map(float, row)), data="ab"[n % 2]) for n, row in enumerate(fprs)]
    one, other = decided(sets, KNOWN, DEFAULT), decided([sets[n] for n in order], KNOWN, DEFAULT)
    assert (one.winner, one.replaced, one.conditions) == (other.winner, other.replaced, other.conditions)
    assert {row.set: row for row in one.without_set} == {row.set: row for row in other.without_set}
    assert {row.candidate: (row.worst, row.mean, row.tied) for row in one.rows} == {
        row.candidate: (row.worst, row.mean, row.tied) for row in other.rows
    }


def test_what_is_left_out_has_no_say() -> None:
    """Whatever the left-out set says, the choice that is reported on it is that of the others."""
    for by_data in (False, True):
        plain = left_out(BETTER, KNOWN, DEFAULT, by_data=by_data)
        for place, one in enumerate(BETTER):
            turned = {label: Figure(100 - cell.fpr95, 50.0) for label, cell in one.figures.items()}
            sets = [*BETTER[:place], replace(one, figures=turned), *BETTER[place + 1 :]]
            assert left_out(sets, KNOWN, DEFAULT, by_data=by_data)[place].candidate == plain[place].candidate
    others = BETTER[1:]
    chosen = ranked(regrets(others, KNOWN), KNOWN)[0].candidate
    first = left_out(BETTER, KNOWN, DEFAULT, by_data=False)[0]
    assert (first.set, first.candidate, first.of_default) == ("one", chosen, 10.0)
    assert first.regret == regrets(BETTER, KNOWN)[chosen]["one"]


def test_sets_of_the_same_data_are_left_out_together() -> None:
    """b is chosen because of the first data's sets; without both of them a is."""
    sets = [
        made("one", (20.0, 10.0, 60.0, 12.0), data="first"),
        made("two", (20.0, 10.0, 60.0, 12.0), data="first"),
        made("three", (20.0, 10.0, 10.0, 15.0), data="second"),
    ]
    single = left_out(sets, KNOWN, DEFAULT, by_data=False)
    whole = left_out(sets, KNOWN, DEFAULT, by_data=True)
    assert [row.candidate for row in single] == ["b", "b", "b"]
    assert [row.candidate for row in whole] == ["a", "a", "b"]
    assert [row.regret for row in whole] == [50.0, 50.0, 5.0]
    said = decided(sets, KNOWN, DEFAULT)
    assert [one.holds for one in said.conditions] == [True, True, True, False]
    assert (said.winner, said.replaced) == ("b", False)


@pytest.mark.parametrize(
    ("sets", "failed"),
    [
        ([made("one", (14.0, 10.0, 90.0, 12.1)), made("two", (10.0, 20.0, 90.0, 10.0))], 0),
        (
            [
                made("one", (40.0, 10.0, 90.0, 30.0)),
                *(made(f"{n}", (10.0, 30.0, 90.0, 25.0)) for n in range(4)),
            ],
            1,
        ),
    ],
)
def test_a_winner_that_fails_a_condition_replaces_nothing(sets: list[DevelopmentSet], failed: int) -> None:
    said = decided(sets, KNOWN, DEFAULT)
    assert said.winner == "b"
    assert not said.conditions[failed].holds
    assert not said.replaced


# ---------------------------------------------------------------------- from networks to figures


def test_a_set_is_the_mean_over_its_networks_and_one_refusal_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "candidates", lambda: KNOWN)
    known = np.arange(20.0)
    shares = iter([(0, 1, 0.5), (1, 1, 0.5)])

    def scored(_: object, __: object) -> CandidateScores:
        first, second, both = next(shares)
        values = {
            label: {TEST: known, "x": np.where(np.arange(10) < 10 * x, 30.0, -1.0), "y": np.full(10, -1.0)}
            for label, x in ((DEFAULT, first), ("a", second), ("b", both))
        }
        reason = {} if first == 0 else {"a": "too few rows"}
        return CandidateScores(
            {k: v for k, v in values.items() if k not in reason}, {"bank": "none", **reason}
        )

    monkeypatch.setattr(study, "candidate_scores", scored)
    subjects = [_tiny() for _ in range(2)]
    found = study.measured("made", "data", subjects, Context(Path(), Path()))
    assert found.figures == {DEFAULT: Figure(25.0, 75.0), "b": Figure(25.0, 75.0)}
    assert found.refused == {"bank": "none", "a": "too few rows"}
    assert found.networks == 2


def _tiny() -> Subject:
    problem = make_problem(width=4, classes=3, rows=6)
    rows = ArraySet(problem.train, problem.labels)
    return Subject("tiny", problem.head, rows, rows, {"x": rows})


def test_the_study_says_what_its_rule_says() -> None:
    labels = [one.label for one in candidates()]
    rng = np.random.default_rng(0)
    sets = [
        DevelopmentSet(
            f"{n}", "ab"[n % 2], 1, {k: Figure(*rng.uniform(0, 100, 2).round(2)) for k in labels}, {}
        )
        for n in range(4)
    ]
    sets[0] = replace(
        sets[0],
        figures={k: v for k, v in sets[0].figures.items() if k != "SSD+"},
        refused={"SSD+": "too large"},
    )
    found = study.study_of(sets)
    assert found.decision.default == detector_record(RECOMMENDED).title
    assert read_study(found.to_json()) == found
    text = found.document()
    assert f"The decision: {found.decision.winner}" in text
    assert "refused" in text
    assert all(f"| {label} |" in text for label in labels)
