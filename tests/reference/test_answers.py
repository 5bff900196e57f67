"""Sums of what a head answers: as they are defined, merged, and as files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from theodolite import Head, Needs, Reference
from theodolite.core.errors import FormatError, InputError
from theodolite.core.files import read_tensors, write_tensors
from theodolite.reference.likelihood import Likelihood
from theodolite.reference.reference import FORMAT

ROWS, WIDTH, CLASSES = 3_000, 9, 6
EVERYTHING = Needs(correct_means=True, softmax_means=True, likelihood=True)


def head() -> Head:
    rng = torch.Generator().manual_seed(1)
    return Head(torch.randn(CLASSES, WIDTH, generator=rng), torch.randn(CLASSES, generator=rng))


def rows(count: int = ROWS) -> tuple[Tensor, Tensor]:
    """Features, and labels drawn at temperature 2.5: many are not what the head answers."""
    rng = torch.Generator().manual_seed(2)
    features = torch.randn(count, WIDTH, generator=rng, dtype=torch.float64)
    labels = torch.multinomial((head()(features) / 2.5).softmax(1), 1, generator=rng)[:, 0]
    return features, labels


def collected(which: slice = slice(None), needs: Needs = EVERYTHING) -> Reference:
    features, labels = rows()
    ids = torch.arange(ROWS)
    return Reference.collect(features[which], labels[which], head=head(), needs=needs, ids=ids[which])


def negative_log_likelihood(logits: Tensor, labels: Tensor, temperature: float) -> float:
    return float(torch.nn.functional.cross_entropy(logits / temperature, labels))


def searched(logits: Tensor, labels: Tensor) -> float:
    """The temperature by a search on the likelihood itself, then where its slope is zero."""
    optimize = pytest.importorskip("scipy.optimize", reason="scikit-learn brings it")

    def slope(log: float) -> float:
        scaled = logits * np.exp(-log)
        expected = (scaled.softmax(1) * logits).sum(1)
        return float((expected - logits.gather(1, labels[:, None])[:, 0]).sum())

    coarse = optimize.minimize_scalar(
        lambda log: negative_log_likelihood(logits, labels, float(np.exp(log))),
        bounds=(-8, 8),
        method="bounded",
    )
    return float(np.exp(optimize.brentq(slope, coarse.x - 0.01, coarse.x + 0.01, xtol=1e-14)))


def test_class_means_of_correct_rows_and_softmax_by_answer() -> None:
    features, labels = rows()
    answers = collected().statistics.answers
    logits = head()(features)
    predicted = logits.argmax(1)
    assert 0.3 < float((predicted == labels).double().mean()) < 0.9
    assert answers.rows == ROWS
    assert answers.right is not None
    assert answers.softmax is not None
    for c in range(CLASSES):
        right = (predicted == c) & (labels == c)
        assert answers.right.counts[c] == right.sum()
        torch.testing.assert_close(answers.right.means[c], features[right].mean(0), rtol=1e-5, atol=1e-7)
        torch.testing.assert_close(
            answers.softmax.means[c], logits[predicted == c].softmax(1).mean(0), rtol=1e-12, atol=0
        )


@pytest.mark.parametrize("scale", [1.0, 0.01, 300.0])
def test_the_temperature_is_that_of_a_search_to_eight_digits(scale: float) -> None:
    features, labels = rows()
    logits = scale * head()(features)
    likelihood = Likelihood()
    likelihood.update(logits, labels)
    found = likelihood.temperature()
    assert found is not None
    assert found == pytest.approx(searched(logits, labels), rel=1e-8)
    assert found == pytest.approx(2.5 * scale, rel=0.1)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 12), st.floats(0.3, 4.0))
def test_no_other_temperature_is_likelier(seed: int, classes: int, at: float) -> None:
    rng = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(400, classes, generator=rng, dtype=torch.float64)
    labels = torch.multinomial((logits / at).softmax(1), 1, generator=rng)[:, 0]
    likelihood = Likelihood()
    likelihood.update(logits, labels)
    found = likelihood.temperature()
    assert found is not None
    best = negative_log_likelihood(logits, labels, found)
    for other in (0.5, 0.9, 0.99, 1.01, 1.1, 2.0):
        assert best <= negative_log_likelihood(logits, labels, other * found)


def test_rows_that_are_all_right_have_no_temperature() -> None:
    features, _ = rows()
    likelihood = Likelihood()
    logits = head()(features)
    likelihood.update(logits, logits.argmax(1))
    assert likelihood.temperature() is None


def test_labels_of_other_rows_are_refused() -> None:
    features, _ = rows()
    likelihood = Likelihood()
    logits = head()(features)
    likelihood.update(logits, logits.argmin(1))
    with pytest.raises(InputError, match="no temperature: they are as likely by chance"):
        likelihood.temperature()


def assert_same(one: Reference, other: Reference, tolerance: float) -> None:
    mine, its = one.statistics.answers, other.statistics.answers
    assert mine.rows == its.rows
    for part in ("right", "softmax"):
        for name in ("counts", "means"):
            values = (getattr(getattr(side, part), name) for side in (mine, its))
            torch.testing.assert_close(*values, rtol=tolerance, atol=tolerance)
    assert mine.likelihood is not None
    assert its.likelihood is not None
    torch.testing.assert_close(mine.likelihood.sums, its.likelihood.sums, rtol=tolerance, atol=1e-9)


@pytest.mark.parametrize("cut", [1, 1_000, 2_999])
def test_two_halves_through_files_are_the_whole(cut: int, tmp_path: Path) -> None:
    for place, part in enumerate((slice(0, cut), slice(cut, None))):
        collected(part).save(tmp_path / f"{place}")
        assert_same(Reference.load(tmp_path / f"{place}"), collected(part), 0.0)
    merged = Reference.merged(Reference.load(tmp_path / f"{place}") for place in (1, 0))
    assert_same(merged, collected(), 1e-11)


def test_a_file_of_before_is_read(tmp_path: Path) -> None:
    """Files of 0.1.0 know nothing of answers."""
    lean = Needs(mean=True, class_means=True, class_accuracy=True)
    collected(needs=lean).save(tmp_path / "new")
    tensors, description = read_tensors(tmp_path / "new", FORMAT)
    said = json.loads(json.dumps(description["reference"]))
    del said["statistics"]["answered"]
    for name in ("correct_means", "softmax_means", "likelihood"):
        del said["statistics"]["needs"][name]
    write_tensors(tmp_path / "old", tensors, {**description, "reference": said})
    old = Reference.load(tmp_path / "old")
    assert old.statistics.needs == lean
    torch.testing.assert_close(old.statistics.moments.means, collected(needs=lean).statistics.moments.means)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("right.counts", lambda counts: counts + ROWS),
        ("softmax.counts", lambda counts: counts.index_fill(0, torch.tensor([0]), 0)),
        ("likelihood", lambda sums: sums[:, 1:]),
        ("right.means", lambda means: means[1:]),
    ],
)
def test_answers_that_cannot_be_are_refused(name: str, change: object, tmp_path: Path) -> None:
    collected().save(tmp_path / "good")
    tensors, description = read_tensors(tmp_path / "good", FORMAT)
    broken = {**tensors, f"statistics.{name}": change(tensors[f"statistics.{name}"]).contiguous()}  # type: ignore[operator]
    write_tensors(tmp_path / "bad", broken, description)
    with pytest.raises(FormatError, match=name.replace(".", r"\.")):
        Reference.load(tmp_path / "bad")


def test_what_is_not_asked_for_is_not_kept() -> None:
    answers = collected(needs=Needs(mean=True)).statistics.answers
    assert answers.rows == 0
    assert [answers.right, answers.softmax, answers.likelihood] == [None, None, None]
