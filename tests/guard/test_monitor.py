"""Monitors: the same evidence in any batches and after any rest, alarms, samples without a score, states."""

from __future__ import annotations

import math
import re
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import theodolite as th
from made_guards import clusters, fitted
from theodolite.core.arrays import FloatArray
from theodolite.core.errors import FormatError, InputError
from theodolite.core.files import read_tensors, write_tensors
from theodolite.guard.growing import GrowingReference
from theodolite.guard.martingale import KINDS, MARTINGALE, SHIRYAEV_ROBERTS, opening, play
from theodolite.guard.monitor_state import FORMAT

DOCS = Path(__file__).parents[2] / "docs" / "monitor.md"


def calibration(seed: int = 0, count: int = 200) -> th.Calibration:
    return th.Calibration(np.random.default_rng(seed).standard_normal(count))


def stream(count: int, seed: int = 1, shift: float = 0.0) -> FloatArray:
    return np.random.default_rng(seed).standard_normal(count) - shift


def test_a_guard_has_a_monitor_of_its_scores() -> None:
    guard = fitted()
    monitor = guard.monitor(alarm=0.05)
    assert isinstance(monitor, th.Monitor)
    quiet = monitor.update(guard.verdicts(clusters(500, 5)[0]).score)  # a tensor, as the guard gives it
    assert quiet.alarmed_at is None
    assert (quiet.seen, quiet.unscorable, len(quiet.trace)) == (500, 0, 500)
    loud = monitor.update(guard.verdicts(2 * torch.randn(50, 16)).score)
    assert 500 < (loud.alarmed_at or 0) <= 520
    assert monitor.alarmed_at == loud.alarmed_at
    assert loud.evidence == monitor.evidence == loud.trace[-1]
    assert loud.peak == monitor.peak >= monitor.threshold == -math.log10(0.05)
    assert "alarm at sample 50" in repr(monitor)


@pytest.mark.parametrize("kind", KINDS)
def test_the_evidence_is_the_game_on_growing_p_values(kind: str) -> None:
    known, new = calibration(), stream(300, shift=0.3)
    monitor = th.Monitor(known, kind=kind, seed=4)
    p_values = GrowingReference(known.scores, 4).p_values(new)
    np.testing.assert_array_equal(
        monitor.update(new).trace, play(opening(kind), p_values, kind)[1], strict=True
    )
    other = th.Monitor(known, kind=kind, seed=5).update(new)
    assert other.evidence != monitor.evidence, "another seed, other random numbers"


def test_the_alarm_is_the_first_sample_at_which_the_evidence_reaches_it() -> None:
    monitor = th.Monitor(calibration())
    trace = np.concatenate([monitor.update(part).trace for part in np.split(stream(90, shift=2), 9)])
    first = int(np.argmax(trace >= 2))
    assert trace[first - 1] < 2 <= trace[first]
    assert monitor.alarmed_at == first + 1
    assert monitor.peak == trace.max()


@pytest.mark.parametrize(("kind", "alarm"), [(MARTINGALE, 0.01), (SHIRYAEV_ROBERTS, 1e-5)])
def test_each_kind_has_its_own_default(kind: str, alarm: float) -> None:
    assert th.Monitor(calibration(), kind=kind).alarm == alarm


def test_samples_too_familiar_are_a_change_as_well() -> None:
    assert th.Monitor(calibration()).update(stream(300, shift=-2)).alarmed_at is not None


def test_a_reset_begins_anew_and_can_alarm_again() -> None:
    monitor = th.Monitor(calibration(), kind=SHIRYAEV_ROBERTS)
    assert monitor.evidence == -math.inf
    monitor.update(stream(60, shift=3))
    first = monitor.alarmed_at
    monitor.reset()
    assert monitor.alarmed_at is None
    assert (monitor.evidence, monitor.peak, monitor.seen) == (-math.inf, -math.inf, 60)
    monitor.update(stream(60, seed=2, shift=3))
    assert first is not None
    assert first <= 60 < (monitor.alarmed_at or 0), "numbers of samples go on"


def test_a_sample_without_a_score_counts_as_the_strangest() -> None:
    """Leaving such samples out would hide a camera that has broken."""
    known, new = calibration(), stream(100)
    holes = new.copy()
    holes[::5] = math.nan
    lowest = np.where(np.isnan(holes), -math.inf, holes)
    one, other = th.Monitor(known), th.Monitor(known)
    read = one.update(holes)
    np.testing.assert_array_equal(read.trace, other.update(lowest).trace)
    assert (read.unscorable, other.unscorable) == (20, 0)
    assert read.alarmed_at is not None
    assert th.Monitor(known).update(holes[~np.isnan(holes)]).alarmed_at is None


def test_arguments_that_cannot_be_are_refused() -> None:
    known = calibration()
    for alarm in (0.0, 1.0, -1.0, math.nan):
        with pytest.raises(InputError, match="alarm must lie between 0 and 1"):
            th.Monitor(known, alarm=alarm)
    with pytest.raises(InputError, match="kind must be"):
        th.Monitor(known, kind="cusum")
    for seed in (-1, 0.5):
        with pytest.raises(InputError, match="seed must be a whole number"):
            th.Monitor(known, seed=seed)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"scores must be a vector, one a sample, got shape \(2, 2\)"):
        th.Monitor(known).update(np.zeros((2, 2)))


# ---------------------------------------------------------------------- batches, states

anything = st.lists(st.one_of(st.integers(-2, 2).map(float), st.floats()), max_size=300)


@given(anything, st.lists(st.integers(0, 300), max_size=5), st.sampled_from(KINDS), st.booleans())
def test_any_split_and_any_rest_gives_the_same_bytes(
    values: list[float], cuts: list[int], kind: str, ties: bool
) -> None:
    """A stream at once; in batches; and in batches with a save and a load between them."""
    drawn = stream(30, seed=9)
    known = th.Calibration(np.round(drawn) if ties else drawn)
    whole, parts = np.array(values), np.split(np.array(values), sorted(cuts))
    with tempfile.TemporaryDirectory() as folder:
        once, rested = Path(folder, "once"), Path(folder, "rested")
        monitor, batches = (th.Monitor(known, kind=kind, seed=3) for _ in range(2))
        trace = monitor.update(whole).trace
        monitor.save(once)
        np.testing.assert_array_equal(np.concatenate([batches.update(part).trace for part in parts]), trace)
        resumed = th.Monitor(known, kind=kind, seed=3)
        for part in parts:
            resumed.save(rested)
            resumed = th.Monitor.load(rested, known)
            resumed.update(part)
        resumed.save(rested)
        assert rested.read_bytes() == once.read_bytes()
        for other in (batches, resumed):
            assert (other.seen, other.unscorable) == (monitor.seen, monitor.unscorable)
            assert (other.evidence, other.peak, other.alarmed_at) == (
                monitor.evidence,
                monitor.peak,
                monitor.alarmed_at,
            )


@pytest.fixture
def state(tmp_path: Path) -> Path:
    monitor = th.Monitor(calibration(), alarm=0.05)
    monitor.update(np.append(stream(50), math.nan))
    monitor.save(tmp_path / "state.safetensors")
    return tmp_path / "state.safetensors"


def test_the_state_of_another_calibration_is_refused(state: Path) -> None:
    assert th.Monitor.load(state, calibration()).seen == 51
    for other in (calibration(seed=1), calibration(count=199)):
        with pytest.raises(InputError, match="the state of a monitor with other calibration scores"):
            th.Monitor.load(state, other)


def test_a_damaged_state_is_refused(state: Path) -> None:
    whole = state.read_bytes()
    for place in range(0, len(whole), 97):
        state.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises((FormatError, InputError)):
            th.Monitor.load(state, calibration())
    for cut in (0, 7, 100, len(whole) - 1):
        state.write_bytes(whole[:cut])
        with pytest.raises(FormatError):
            th.Monitor.load(state, calibration())
    with pytest.raises(InputError, match="no such file"):
        th.Monitor.load(state.with_name("nothing"), calibration())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("counts", torch.zeros(3, dtype=torch.int64)),
        ("counts", -torch.ones(201, dtype=torch.int64)),
        ("counts", torch.zeros(201, dtype=torch.float64)),
        ("logs", torch.full((4,), math.nan, dtype=torch.float64)),
        ("logs", torch.full((4,), math.inf, dtype=torch.float64)),
        ("shares", torch.ones(4, 5, dtype=torch.float64)),
        ("peak", torch.tensor(9.0, dtype=torch.float64)),
        ("seed", -1),
        ("unscorable", 52),
        ("alarmed_at", 50),
        ("alarm", 2.0),
        ("kind", "cusum"),
    ],
)
def test_a_state_that_contradicts_itself_is_refused(
    state: Path, name: str, value: torch.Tensor | float | str
) -> None:
    """Also where its checksum is right: somebody has written it."""
    tensors, description = read_tensors(state, FORMAT)
    said = description["monitor"]
    assert isinstance(said, dict)
    if isinstance(value, torch.Tensor):
        tensors[name] = value
    else:
        said[name] = value
    write_tensors(state, tensors, description)
    with pytest.raises(FormatError):
        th.Monitor.load(state, calibration())


def test_memory_and_time_do_not_grow_with_the_stream(tmp_path: Path) -> None:
    monitor, sizes = th.Monitor(calibration()), []
    for seed in range(3):
        monitor.update(stream(1_000, seed=seed))
        monitor.save(tmp_path / "state")
        sizes.append((tmp_path / "state").stat().st_size)
    assert max(sizes) - min(sizes) < 64, "but for digits of the header"


def test_the_code_of_the_page_about_monitors_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    fitted().save("guard.safetensors")
    names: dict[str, object] = {"batches": [clusters(100, 5)[0], 2 * torch.randn(100, 16)]}
    for block in re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL):
        exec(block, names)
    assert "changed: alarm at sample 1" in capsys.readouterr().out
    monitor = names["monitor"]
    assert isinstance(monitor, th.Monitor)
    assert (monitor.seen, monitor.alarmed_at) == (200, None)
