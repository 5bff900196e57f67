"""The state of a guard is all its verdicts depend on; and nobody else holds its parts."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import theodolite as th
from made_guards import CLASSES, WIDTH, clusters, fitted, head
from theodolite.core.errors import FormatError, InputError, NotFittedError
from theodolite.detectors.spec import parse_spec
from theodolite.guard import Calibration, Guard, Provenance
from theodolite.models import load_model

SCORES = ["ora", "relative-energy", "msp", "knn?k=5", "mds", "ora+react:80", "ssd+", "neco"]
PROVENANCE = Provenance("python:toy:make", "a" * 64, "plain", "fc")


def guard_of(seed: int, spec: str = "ora", count: int = 1_000, spread: float = 1.0, **said: object) -> Guard:
    features, labels = clusters(count, seed, spread)
    return Guard.fit(features, labels, head=head(), detector=spec, **said)  # type: ignore[arg-type]


def new_rows() -> Tensor:
    noise = torch.randn(200, WIDTH, generator=torch.Generator().manual_seed(2))
    return torch.cat([clusters(200, 5)[0], noise])


def assert_same(one: Guard, other: Guard) -> None:
    for column, right in zip(one.verdicts(new_rows()), other.verdicts(new_rows()), strict=True):
        assert torch.equal(torch.as_tensor(column), torch.as_tensor(right))


# ---------------------------------------------------------------------- state_dict


@pytest.mark.parametrize("spec", ["ora", "relative-energy", "mds"])
def test_what_was_written_past_pytorch_counts_after_a_move(spec: str) -> None:
    """As a collective writes: nothing tells a score to derive its tables anew, but `to` does."""
    one, other = guard_of(0, spec), guard_of(1, spec)
    one.verdicts(new_rows())
    for own, theirs in zip(one.buffers(), other.buffers(), strict=True):
        own.data.copy_(theirs)
    assert_same(one.to("cpu"), other)


@pytest.mark.parametrize("spec", SCORES)
def test_a_loaded_state_is_the_other_guard(spec: str) -> None:
    """Of other sizes, too: bank, calibration, ranks."""
    one = guard_of(0, spec, class_names=list("abcde"), provenance=PROVENANCE)
    two = guard_of(9, spec, count=1_700, spread=2.0, false_alarm_rate=0.2)
    before = two.verdicts(new_rows())
    two.load_state_dict(one.state_dict())
    assert_same(two, one)
    assert not torch.equal(torch.as_tensor(before.p_value), torch.as_tensor(two.verdicts(new_rows()).p_value))
    assert (two.false_alarm_rate, two.class_names, two.provenance) == (0.05, tuple("abcde"), PROVENANCE)
    assert two.calibration.rate_interval() == one.calibration.rate_interval()
    one.false_alarm_rate = 0.3
    assert two.false_alarm_rate == 0.05, "they share nothing"


@pytest.mark.parametrize("spec", SCORES)
def test_a_guard_that_was_never_fitted_takes_a_state(spec: str, tmp_path: Path) -> None:
    """Through both usual ways to store one."""
    one = guard_of(0, spec)
    detector = parse_spec(spec).build()
    fresh = Guard(detector, Calibration(np.arange(19.0)), head=th.Head(torch.rand(CLASSES, WIDTH)))
    torch.save(one.state_dict(), tmp_path / "state.pt")
    save_file(one.state_dict(), tmp_path / "state.safetensors")
    for state in (torch.load(tmp_path / "state.pt"), load_file(tmp_path / "state.safetensors")):
        guard = copy.deepcopy(fresh)
        guard.load_state_dict(state)
        assert_same(guard, one)


def test_a_guard_within_a_module() -> None:
    one, two = nn.ModuleDict({"guard": guard_of(0)}), nn.ModuleDict({"guard": guard_of(9, spread=2.0)})
    two.load_state_dict(one.state_dict(), strict=False)
    assert_same(two["guard"], one["guard"])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="lacks the calibration"):
        two.load_state_dict({"guard.head.weight": head().weight}, strict=False)


def test_states_without_a_calibration_are_refused() -> None:
    """Those of 0.1.0, which said that all keys matched."""
    guard = guard_of(0)
    before = guard.verdicts(new_rows())
    old = {
        name: tensor
        for name, tensor in guard_of(9).state_dict().items()
        if name.startswith(("head", "detector"))
    }
    for strict in (True, False):
        with pytest.raises(InputError, match=r"taken by theodolite 0\.1: it lacks the calibration"):
            guard.load_state_dict(old, strict=strict)
    for column, right in zip(guard.verdicts(new_rows()), before, strict=True):
        assert torch.equal(torch.as_tensor(column), torch.as_tensor(right))


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ("energy", r"the score energy .* but this guard has msp"),
        ("msp+react:90", r"'shaping': 'react:90'"),
    ],
)
def test_a_state_of_another_score_is_refused(other: str, message: str) -> None:
    guard = guard_of(0, "msp")
    with pytest.raises(InputError, match=message):
        guard.load_state_dict(guard_of(0, other).state_dict())


def test_options_are_part_of_the_state() -> None:
    """All keys match, but the verdicts would not."""
    with pytest.raises(InputError, match="load it into one with the same score and options"):
        guard_of(0, "energy?temperature=2").load_state_dict(guard_of(0, "energy").state_dict())


@pytest.mark.parametrize("name", ["calibration.sorted_scores", "rate", "head.bias"])
def test_parts_that_do_not_fit_each_other_are_refused(name: str) -> None:
    guard, state = guard_of(0), guard_of(9).state_dict()
    before = guard.verdicts(new_rows())
    without = {key: value for key, value in state.items() if key != name}
    with pytest.raises(FormatError, match=f"{name}"):
        guard.load_state_dict(without, strict=False)
    with pytest.raises((FormatError, InputError), match=r"does not fit the rest|not the one the detector"):
        guard.load_state_dict(
            {**state, name: state[name].flip(0) + 1 if state[name].ndim else state[name] * 2}
        )
    with pytest.raises(FormatError, match="damaged"):
        guard.load_state_dict({**state, "detector.centres": torch.zeros(1, 3, dtype=torch.float64)})
    with pytest.raises(FormatError, match="surplus is not a tensor of this guard"):
        guard.load_state_dict({**state, "surplus": torch.zeros(1)})
    for column, right in zip(guard.verdicts(new_rows()), before, strict=True):
        assert torch.equal(torch.as_tensor(column), torch.as_tensor(right)), "half a state was taken"


def test_a_state_in_half_precision_is_refused() -> None:
    half = {
        name: value.half() if value.is_floating_point() else value
        for name, value in guard_of(9).state_dict().items()
    }
    with pytest.raises(FormatError, match="does not fit the rest"):
        guard_of(0).load_state_dict(half)


@pytest.mark.filterwarnings("ignore::theodolite.core.errors.TheodoliteWarning")
def test_the_weights_of_a_model_come_and_go_with_it() -> None:
    guard, other = guard_of(0), guard_of(9)
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, WIDTH), nn.ReLU(), nn.Linear(WIDTH, CLASSES))
    bare = guard.state_dict()
    guard.attach(model)
    with pytest.raises(InputError, match=r"holds the weights of a model, but the guard has none: attach\(\)"):
        other.load_state_dict(guard.state_dict())
    with pytest.raises(InputError, match=r"taken without one: load it before attach\(\)"):
        guard.load_state_dict(bare)
    other.attach(copy.deepcopy(model)).load_state_dict(guard.state_dict())
    assert_same(other, guard)


@pytest.mark.filterwarnings("ignore::theodolite.core.errors.TheodoliteWarning")
def test_a_state_of_another_models_features_is_refused() -> None:
    loaded = load_model("python:small_models:Tiny?mean=0&size=8")
    weight = loaded.model.state_dict()["fc.weight"]
    rows = torch.rand(400, 16)
    guard = Guard.fit(rows, head=th.Head(weight), detector="msp").attach(loaded)
    other = Guard.fit(rows, head=th.Head(weight), detector="msp", provenance=PROVENANCE)
    with pytest.raises(InputError, match="are not those the guard was fitted on"):
        guard.load_state_dict({**guard.state_dict(), **other.state_dict()})


def test_precision_and_moves() -> None:
    guard = guard_of(0)
    before = guard.verdicts(new_rows())
    for move in (guard.half, guard.double, guard.float, lambda: guard.to(torch.bfloat16)):
        move()
        assert guard.rate.dtype == torch.float64
        assert guard.calibration.sorted_scores.dtype == torch.float64
    for column, right in zip(guard.verdicts(new_rows()), before, strict=True):
        assert torch.equal(torch.as_tensor(column), torch.as_tensor(right))


def test_copies_and_files(tmp_path: Path) -> None:
    guard = guard_of(0, "ora+react:80")
    guard.save(tmp_path / "guard.safetensors")
    loaded = Guard.load(tmp_path / "guard.safetensors")
    twin = copy.deepcopy(guard)
    loaded.load_state_dict(twin.state_dict())
    twin.load_state_dict(guard_of(9, "ora+react:80").state_dict())
    assert_same(loaded, guard)
    loaded.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == (tmp_path / "guard.safetensors").read_bytes()
    with pytest.raises(NotFittedError):
        Guard(th.ORA(), guard.calibration, head=head()).state_dict()


# ---------------------------------------------------------------------- a guard owns its parts


@pytest.mark.parametrize("detector", [th.ORA(), th.KNN(k=5), th.MDS(shaping="react:90")])
def test_a_second_fit_of_the_same_detector_changes_nothing(detector: th.Detector) -> None:
    features, labels = clusters(1_000, 0)
    first = Guard.fit(features, labels, head=head(), detector=detector)
    before = first.verdicts(new_rows())
    second = Guard.fit(features + 20, labels, head=head(), detector=detector)
    assert first.detector is not second.detector
    with pytest.raises(NotFittedError):
        detector.score(features)
    detector.fit(features - 20, labels, head=head())
    for column, right in zip(first.verdicts(new_rows()), before, strict=True):
        assert torch.equal(torch.as_tensor(column), torch.as_tensor(right))


def test_parts_given_to_a_guard_are_copied() -> None:
    features, labels = clusters(1_000, 0)
    own_head = head()
    detector = th.KNN(k=5).fit(features, labels, head=own_head)
    calibration = Calibration(detector.score(clusters(300, 1)[0]))
    guard = Guard(detector, calibration, head=own_head)
    made = Guard.fit(features, labels, head=own_head, detector="ora")
    before = [guard.verdicts(new_rows()), made.verdicts(new_rows())]
    detector.bank.zero_()
    calibration.sorted_scores.zero_()
    own_head.weight.zero_()
    detector.to(torch.float16)
    for verdicts, expected in zip(
        (guard.verdicts(new_rows()), made.verdicts(new_rows())), before, strict=True
    ):
        for column, right in zip(verdicts, expected, strict=True):
            assert torch.equal(torch.as_tensor(column), torch.as_tensor(right))


def test_one_head_decides_and_is_judged() -> None:
    """The file keeps one head; two would give other verdicts once it is read."""
    features, labels = clusters(1_000, 0)
    detector = th.ORA().fit(features, labels, head=head())
    calibration = Calibration(detector.score(clusters(300, 1)[0]))
    with pytest.raises(InputError, match="not the one the detector was fitted with"):
        Guard(detector, calibration, head=th.Head(torch.rand(CLASSES, WIDTH)))
    headless = th.MDS().fit(features, labels)
    with pytest.raises(InputError, match="fitted without a head"):
        Guard(headless, calibration, head=th.Head.cosine(torch.rand(CLASSES, WIDTH)))
    Guard(headless, calibration, head=head())
    assert fitted(200).detector.head is not None
