"""Leave-class-out: every class once, nothing of a left-out class in a fit, no row fitted on is judged."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from synthetic import make_problem
from theodolite import Head
from theodolite.benchmarks import ArraySet
from theodolite.benchmarks.chosen_rows import ChosenRows, LabelledRows
from theodolite.benchmarks.feature_sets import TEST, FeatureSet
from theodolite.benchmarks.leave_out import LEFT_OUT, KnownData, deal_classes, leave_out
from theodolite.benchmarks.scoring import Scorer
from theodolite.benchmarks.trials import Ranked, Trial, class_trials, in_order, ranked
from theodolite.core.errors import InputError
from theodolite.detectors import list_detectors
from theodolite.detectors.spec import parse_specs
from theodolite.evaluation import auroc, fpr_at_tpr

pytestmark = pytest.mark.usefixtures("few_waves")

CLASSES = 6
LEFT = (1, 4)


def known_data(*, rows: int = 900, poison: float | None = None, held_out: bool = True) -> KnownData:
    """Rows around class directions; ``poison`` replaces the rows to fit on of the left-out classes."""
    problem = make_problem(width=16, classes=CLASSES, rows=rows)
    features = problem.train.clone()
    if poison is not None:
        features[torch.isin(problem.labels, torch.tensor(LEFT))] = poison
    fit = LabelledRows.of(ArraySet(features, problem.labels), CLASSES, "id_fit")
    other = make_problem(width=16, classes=CLASSES, rows=300, seed=1)
    unseen = LabelledRows.of(ArraySet(other.train, other.labels), CLASSES, "id_test")
    return KnownData.of("made", problem.head, fit, unseen if held_out else None)


def gathered(rows: FeatureSet) -> tuple[Tensor, Tensor | None]:
    batches = list(rows)
    labels = [part for _, part, _ in batches if part is not None]
    return torch.cat([features for features, _, _ in batches]), torch.cat(labels) if labels else None


@given(st.sets(st.integers(0, 500), min_size=2, max_size=60), st.integers(2, 9), st.integers(0, 2**31))
def test_every_class_is_left_out_once(classes: set[int], folds: int, seed: int) -> None:
    if folds > len(classes):
        with pytest.raises(InputError, match="folds must be between 2"):
            deal_classes(classes, folds, seed)
        return
    dealt = deal_classes(classes, folds, seed)
    assert sorted(label for fold in dealt for label in fold) == sorted(classes)
    sizes = [len(fold) for fold in dealt]
    assert max(sizes) - min(sizes) <= 1
    assert dealt == deal_classes(sorted(classes, reverse=True), folds, seed)


def test_another_seed_deals_otherwise() -> None:
    assert deal_classes(range(20), 5, 0) != deal_classes(range(20), 5, 1)


def test_the_head_and_the_labels_are_those_of_the_remaining_classes() -> None:
    known = known_data()
    subject = leave_out(known, LEFT)
    remaining = [label for label in range(CLASSES) if label not in LEFT]
    assert torch.equal(subject.head.weight, known.head.weight[remaining])
    assert torch.equal(subject.head.bias, known.head.bias[remaining])
    for chosen, whole in ((subject.fit, known.fit), (subject.test, known.held_out)):
        kept = ~torch.isin(whole.labels, torch.tensor(LEFT))
        features, labels = gathered(chosen)
        assert torch.equal(features, gathered(whole.rows)[0][kept])
        assert labels is not None
        assert torch.equal(torch.tensor(remaining)[labels], whole.labels[kept])
        assert len(chosen) == int(kept.sum())
    strange, labels = gathered(subject.ood[LEFT_OUT])
    assert labels is None
    assert len(strange) == int(torch.isin(known.held_out.labels, torch.tensor(LEFT)).sum())


def test_a_cosine_head_stays_one() -> None:
    known = known_data()
    known = replace(known, head=Head.cosine(known.head.weight))
    assert leave_out(known, LEFT).head.unit_features


@pytest.mark.parametrize("shaping", ["", "+react:90"])
def test_left_out_classes_teach_nothing(shaping: str) -> None:
    """Whatever their rows to fit on are, every score of every row is the same to the last bit."""
    specs = parse_specs([f"{name}{shaping}" for name in list_detectors()])
    plain, other = (Scorer(leave_out(known_data(poison=poison), LEFT), specs).run() for poison in (None, 1e4))
    assert plain.refused == other.refused
    assert len(plain.values) >= 20
    for label, sets in plain.values.items():
        for name, scores in sets.items():
            np.testing.assert_array_equal(scores, other.values[label][name], err_msg=f"{label}, {name}")


def test_the_poison_would_be_seen_if_it_were_fitted_on() -> None:
    """The test above can fail: with those classes kept the poison changes the scores."""
    specs = parse_specs(["ora", "mds", "knn"])
    plain, other = (
        Scorer(leave_out(known_data(poison=poison), (0, 2)), specs).run().values for poison in (None, 1e4)
    )
    for label in plain:
        assert not np.array_equal(plain[label][TEST], other[label][TEST]), label


def test_no_row_is_fitted_on_and_judged() -> None:
    known = known_data(held_out=False)
    places = set(known.fit.places.tolist()), set(known.held_out.places.tolist())
    assert not places[0] & places[1]
    assert len(places[0] | places[1]) == 900
    assert 0.12 < len(places[1]) / 900 < 0.28
    trials, dealt = class_trials(known, 5)
    judged = [
        place
        for trial in trials
        for rows in [trial.subject.ood[LEFT_OUT]]
        if isinstance(rows, ChosenRows)
        for place in rows.chosen.places.tolist()
    ]
    assert sorted(judged) == sorted(places[1]), "every held-out row plays OOD in one fold"
    assert len(dealt) == 5


def test_figures_are_those_of_subjects_made_by_hand() -> None:
    known = known_data()
    trials, dealt = class_trials(known, 3, seed=7)
    order = ranked(trials, parse_specs(["ora", "mds", "energy"]))
    features, labels = gathered(known.fit.rows)
    unseen, unseen_labels = gathered(known.held_out.rows)
    assert labels is not None
    assert unseen_labels is not None
    for row in order.ranked:
        for fold, classes in enumerate(dealt):
            out, strange = torch.tensor(classes), torch.isin(unseen_labels, torch.tensor(classes))
            kept = [label for label in range(CLASSES) if label not in classes]
            numbers = torch.tensor([kept.index(label) if label in kept else -1 for label in range(CLASSES)])
            mine = ~torch.isin(labels, out)
            detector = parse_specs([row.spec])[0].build()
            head = Head(known.head.weight[kept], known.head.bias[kept])
            detector.fit(features[mine], numbers[labels[mine]], head=head)
            sides = detector.score(unseen[~strange]), detector.score(unseen[strange])
            assert row.fpr95[fold] == pytest.approx(100 * fpr_at_tpr(*sides), abs=1e-5)
            assert row.auroc[fold] == pytest.approx(100 * auroc(*sides), abs=1e-4)
    means = [float(np.mean(row.fpr95)) for row in order.ranked]
    assert means == sorted(means)


def test_equal_rates_are_put_in_order_by_auroc_then_as_they_were_named() -> None:
    rows = [
        Ranked("a", "A", (30.0, 10.0), (80.0, 80.0)),
        Ranked("b", "B", (20.0, 20.0), (90.0, 70.0)),
        Ranked("c", "C", (15.0, 25.0), (90.0, 90.0)),
        Ranked("d", "D", (20.0, 19.0), (10.0, 10.0)),
    ]
    assert [row.spec for row in in_order(rows)] == ["d", "c", "a", "b"]
    assert [row.spec for row in in_order(rows[::-1])] == ["d", "c", "b", "a"]


def test_folds_of_held_out_rows_cut_one_set_of_scores() -> None:
    known = known_data()
    subject = leave_out(known, LEFT)
    parts = torch.arange(len(subject.test)) % 4
    whole, cut = (ranked([Trial(subject, given)], parse_specs(["ora"])).ranked[0] for given in (None, parts))
    assert len(whole.fpr95) == 1
    assert len(cut.fpr95) == 4
    assert cut.mean_auroc == pytest.approx(whole.mean_auroc, abs=0.5)


def test_a_score_that_refuses_one_fold_is_not_ranked() -> None:
    """SSD+ needs two samples of a class: in the fold that leaves out class 0 there is none."""
    known = known_data()
    first = known.fit.labels == 0
    single = torch.stack([(known.fit.labels == label).nonzero()[0, 0] for label in range(1, CLASSES)])
    few = known.fit.where(first | torch.isin(torch.arange(len(known.fit)), single))
    trials, _ = class_trials(replace(known, fit=few), 6)
    order = ranked(trials, parse_specs(["ssd+", "energy"]))
    assert [row.spec for row in order.ranked] == ["energy"]
    assert "no class has two samples" in order.refused["SSD+"]


def test_too_little_is_refused() -> None:
    known = known_data()
    few = replace(known, held_out=known.held_out.where(torch.arange(len(known.held_out)) < 60))
    with pytest.raises(InputError, match=r"the left-out classes have 10 held-out rows in a fold"):
        leave_out(few, [0])
    with pytest.raises(InputError, match="fewer than two classes have rows to fit on"):
        leave_out(known, range(5))
    blind = LabelledRows.of(ArraySet(torch.ones(3, 16)), CLASSES, "id_fit")
    with pytest.raises(InputError, match="the rows to fit on have no labels"):
        leave_out(replace(known, fit=blind), [0])
    with pytest.raises(InputError, match="labels from 0 to 5, but the head has 3 classes"):
        LabelledRows.of(ArraySet(torch.ones(6, 2), torch.arange(6)), 3, "id_fit")
