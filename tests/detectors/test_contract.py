"""The contract of a detector, run over every registered score."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import theodolite as th
from synthetic import Problem, make_problem
from theodolite.core.errors import InputError, NotFittedError
from theodolite.evaluation.metrics import auroc

pytestmark = pytest.mark.usefixtures("few_waves")

NAMES = th.list_detectors()
every_detector = pytest.mark.parametrize("name", NAMES)
# Here every direction counts and few classes are alike, which is unkind to scores that look away from some.
LEAST_AUROC = {"dice": 0.6, "openmax": 0.65}


@pytest.fixture(scope="module")
def problem() -> Problem:
    return make_problem()


def fitted(name: str, problem: Problem, **options: object) -> th.Detector:
    return th.create(name, **options).fit(problem.train, problem.labels, head=problem.head)


def assert_close(actual: torch.Tensor, expected: torch.Tensor) -> None:
    """Equal to float32 rounding. Some scores are small differences of large terms, hence the scale."""
    scale = float(expected.abs().max())
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5 * scale)


@every_detector
def test_id_scores_higher_than_ood(name: str, problem: Problem) -> None:
    detector = fitted(name, problem)
    assert auroc(detector.score(problem.test), detector.score(problem.ood)) > LEAST_AUROC.get(name, 0.7)


@every_detector
def test_rows_are_scored_independently(name: str, problem: Problem) -> None:
    detector = fitted(name, problem)
    whole = detector.score(problem.test)
    order = torch.randperm(len(problem.test), generator=torch.Generator().manual_seed(3))
    assert_close(detector.score(problem.test[order]), whole[order])
    split = torch.cat([detector.score(problem.test[start : start + 7]) for start in range(0, 120, 7)])
    assert_close(split, whole)


@every_detector
def test_order_of_the_fit_does_not_matter(name: str, problem: Problem) -> None:
    order = torch.randperm(len(problem.train), generator=torch.Generator().manual_seed(5))
    whole = fitted(name, problem)
    shuffled = th.create(name).fit(problem.train[order], problem.labels[order], head=problem.head, ids=order)
    assert_close(shuffled.score(problem.test), whole.score(problem.test))


@every_detector
def test_merge_of_halves_equals_the_whole(name: str, problem: Problem) -> None:
    detector = th.create(name)
    ids = torch.arange(len(problem.train))
    halves = [
        detector.collect(problem.train[part], problem.labels[part], head=problem.head, ids=ids[part])
        for part in (slice(0, 110), slice(110, None))
    ]
    merged = detector.fit(halves[0] + halves[1]).score(problem.test.double())
    whole = fitted(name, problem).score(problem.test.double())
    torch.testing.assert_close(merged, whole, rtol=1e-9, atol=1e-9 * float(whole.abs().max()))


@every_detector
def test_fit_from_batches_equals_fit_from_arrays(name: str, problem: Problem) -> None:
    batches = [
        (problem.train[start : start + 64].numpy(), problem.labels[start : start + 64].numpy())
        for start in range(0, len(problem.train), 64)
    ]
    streamed = th.create(name).fit(batches, head=problem.head).score(problem.test)
    assert_close(streamed, fitted(name, problem).score(problem.test))


@every_detector
def test_given_logits_change_nothing(name: str, problem: Problem) -> None:
    detector = fitted(name, problem)
    logits = problem.head(problem.test)
    assert_close(detector.score(problem.test, logits), detector.score(problem.test))


@every_detector
def test_numpy_in_numpy_out(name: str, problem: Problem) -> None:
    from_numpy = th.create(name).fit(problem.train.numpy(), problem.labels.numpy(), head=problem.head)
    scores = from_numpy.score(problem.test.numpy())
    assert isinstance(scores, np.ndarray)
    assert scores.dtype == np.float32
    assert scores.shape == (len(problem.test),)
    np.testing.assert_array_equal(scores, fitted(name, problem).score(problem.test).numpy())


@every_detector
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_worked_in_float32(name: str, dtype: torch.dtype, problem: Problem) -> None:
    detector = fitted(name, problem)
    half = problem.test.to(dtype)
    scores = detector.score(half)
    assert scores.dtype == torch.float32
    torch.testing.assert_close(scores, detector.score(half.float()))
    assert torch.isfinite(detector.score(torch.full_like(half[:2], 6e4))).all()


@every_detector
def test_float64_stays_float64(name: str, problem: Problem) -> None:
    detector = fitted(name, problem)
    scores = detector.score(problem.test.double())
    assert scores.dtype == torch.float64
    assert_close(detector.score(problem.test).double(), scores)


@every_detector
def test_save_and_load(name: str, problem: Problem, tmp_path: Path) -> None:
    detector = fitted(name, problem)
    path = tmp_path / "detector.safetensors"
    detector.save(path)
    again = th.load(path)
    assert type(again) is type(detector)
    assert repr(again.options()) == repr(detector.options())
    # The same numbers; a product may round its last bit by where in memory a matrix lies.
    torch.testing.assert_close(again.score(problem.test), detector.score(problem.test), rtol=1e-6, atol=0)
    for key, buffer in detector.named_buffers():
        assert torch.equal(again.get_buffer(key), buffer)
    assert [entry.name for entry in tmp_path.iterdir()] == ["detector.safetensors"]


@every_detector
def test_options_stay_as_they_were_fitted(name: str, problem: Problem, tmp_path: Path) -> None:
    """Some would change the scores and some would not, and nothing would say which."""
    detector = fitted(name, problem)
    detector.save(tmp_path / "d.safetensors")
    for one in (detector, th.load(tmp_path / "d.safetensors")):
        for option, value in one.options().items():
            with pytest.raises(InputError, match=f"{option} cannot be changed after the fit"):
                setattr(one, option, value)
    again = detector.fit(problem.train, problem.labels, head=problem.head)
    assert again is detector, "a fit begins again"


@every_detector
def test_two_classes(name: str) -> None:
    problem = make_problem(classes=2)
    scores = fitted(name, problem).score(problem.test)
    assert torch.isfinite(scores).all()
    assert float(scores.std()) > 0


@every_detector
def test_degenerate_but_legal_inputs_give_finite_scores(name: str, problem: Problem) -> None:
    detector = fitted(name, problem)
    mean = problem.train.double().mean(dim=0)
    rows = torch.stack([mean, torch.zeros_like(mean), problem.train[0].double(), 1e4 * mean])
    for dtype in (torch.float32, torch.float64):
        assert torch.isfinite(detector.score(rows.to(dtype))).all()


@every_detector
def test_duplicated_class_weights(name: str, problem: Problem) -> None:
    weight, bias = problem.head.weight.clone(), problem.head.bias.clone()
    weight[1], bias[1] = weight[0], bias[0]
    detector = th.create(name).fit(problem.train, problem.labels, head=th.Head(weight, bias))
    assert torch.isfinite(detector.score(problem.test)).all()


@every_detector
def test_rank_deficient_features_and_an_empty_class(name: str, problem: Problem) -> None:
    narrow = problem.train.clone()
    narrow[:, 20:] = narrow[:, :1]
    kept = problem.labels != 4
    detector = th.create(name).fit(narrow[kept], problem.labels[kept], head=problem.head)
    assert torch.isfinite(detector.score(problem.test)).all()


@every_detector
def test_head_without_bias(name: str, problem: Problem) -> None:
    detector = th.create(name).fit(problem.train, problem.labels, head=th.Head(problem.head.weight))
    assert torch.isfinite(detector.score(problem.test)).all()


@every_detector
def test_few_rows(name: str, problem: Problem) -> None:
    few = [0, 6, 1, 7]
    detector = th.create(name).fit(problem.train[few], problem.labels[few], head=problem.head)
    assert torch.isfinite(detector.score(problem.test)).all()


@every_detector
def test_not_fitted(name: str, problem: Problem, tmp_path: Path) -> None:
    with pytest.raises(NotFittedError, match="not fitted"):
        th.create(name).score(problem.test)
    with pytest.raises(NotFittedError, match="nothing to save"):
        th.create(name).save(tmp_path / "never")


@every_detector
def test_bad_features_are_named(name: str, problem: Problem) -> None:
    detector = fitted(name, problem)
    with pytest.raises(InputError, match=r"features have width 12, but .* 48"):
        detector.score(problem.test[:, :12])
    with pytest.raises(InputError, match=r"features is empty: shape \(0, 48\)"):
        detector.score(problem.test[:0])
    with pytest.raises(InputError, match=r"features must have shape \(N, 48\), got \(48,\)"):
        detector.score(problem.test[0])
    broken = problem.test.clone()
    broken[17, 3], broken[90, 0] = torch.nan, torch.inf
    with pytest.raises(InputError, match="features hold NaN or infinity in rows 17, 90"):
        detector.score(broken)
    with pytest.raises(InputError, match="features must be a NumPy array or a torch tensor, got list"):
        detector.score([[0.0] * 48])  # type: ignore[type-var]


@every_detector
def test_bad_logits_are_named(name: str, problem: Problem) -> None:
    detector = fitted(name, problem)
    logits = problem.head(problem.test)
    with pytest.raises(InputError, match="logits have width 5, but the head has 6 classes"):
        detector.score(problem.test, logits[:, :5])
    with pytest.raises(InputError, match="logits have 7 rows, but features have 120"):
        detector.score(problem.test, logits[:7])


@every_detector
def test_bad_fits_are_named(name: str, problem: Problem) -> None:
    detector = th.create(name)
    train, labels, head = problem.train, problem.labels, problem.head
    with pytest.raises(InputError, match="features have width 12, but the head expects 48"):
        detector.fit(train[:, :12], labels, head=head)
    with pytest.raises(InputError, match=r"features is empty"):
        detector.fit(train[:0], labels[:0], head=head)
    with pytest.raises(InputError, match=r"labels must lie in 0\.\.5, got values from 0 to 9"):
        detector.fit(train[:10], torch.arange(10), head=head)
    with pytest.raises(InputError, match=r"labels must have shape \(300,\) like the features, got \(299,\)"):
        detector.fit(train, labels[:-1], head=head)
    with pytest.raises(InputError, match=r"labels must be integers, got dtype torch\.float32"):
        detector.fit(train, labels.float(), head=head)
    broken = train.clone()
    broken[250, 3] = torch.nan
    with pytest.raises(InputError, match="features hold NaN or infinity in row 250"):
        detector.fit(broken, labels, head=head)
    if detector.needs.class_means:
        with pytest.raises(InputError, match="labels are missing"):
            detector.fit(train, head=head)
        with pytest.raises(InputError, match="labels hold one class only"):
            detector.fit(train, torch.zeros_like(labels), head=head)
    if detector.uses_logits:
        with pytest.raises(InputError, match="needs a head"):
            detector.fit(train, labels)


@every_detector
def test_the_registry_describes_it(name: str) -> None:
    from theodolite.detectors import detector_record

    record = detector_record(name)
    assert record.detector.record is record
    assert record.formula
    assert record.paper
    assert 2015 <= record.year <= 2026
    assert detector_record(record.title.upper()) is record
