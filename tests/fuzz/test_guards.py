"""Guards on whatever features there are: verdicts that mean something, or an error of ours."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import theodolite as th
from fuzzing import ArrayPlan, array_plans, cases, count
from theodolite.core.errors import TheodoliteError

RATES = (None,) * 24 + (0.5, 0.2, 0.05, 0.05, 1e-9, 0.0, 1.0, math.nan, -1.0, "0.1")
SHARES = (0.2,) * 24 + (0.5, 0.5, 1e-9, 1.0, math.nan, -1.0)
FORMS = ("memory",) * 4 + ("npy", "npz")
WIDTH, CLASSES = 6, 3


@dataclass(frozen=True)
class Case:
    name: str
    rows: int
    fit: ArrayPlan
    calibration: ArrayPlan | None
    new: ArrayPlan
    head: bool
    labels: bool
    rate: Any
    share: float
    unscorable: str
    form: str


guard_cases = st.builds(
    Case,
    name=st.sampled_from(th.list_detectors()),
    rows=st.sampled_from((200,) * 8 + (120, 120, 25, 1, 0)),
    fit=array_plans(ordinary=0.98),
    calibration=st.one_of(st.none(), array_plans(ordinary=0.98)),
    new=array_plans(ordinary=0.9),
    head=st.sampled_from((True,) * 5 + (False,)),
    labels=st.sampled_from((True,) * 5 + (False,)),
    rate=st.sampled_from(RATES),
    share=st.sampled_from(SHARES),
    unscorable=st.sampled_from(("raise",) * 4 + ("flag",) * 6 + ("skip",)),
    form=st.sampled_from(FORMS),
)


def stored(array: Any, folder: Path, name: str, form: str) -> Any:
    """The array, or the file that holds it; what a file cannot hold without a pickle stays in memory."""
    if form == "memory" or isinstance(array, Tensor) or array.dtype == object:
        return array
    path = folder / f"{name}.{form}"
    np.save(path, array) if form == "npy" else np.savez(
        path, features=array, labels=np.arange(len(array)) % CLASSES
    )
    return path


def verdicts_of(case: Case, folder: Path) -> tuple[Any, th.Verdicts]:
    head = th.Head(np.random.default_rng(0).standard_normal((CLASSES, WIDTH))) if case.head else None
    features = case.fit.make(case.rows, WIDTH)
    labels = np.arange(case.rows) % CLASSES if case.labels else None
    calibration = None if case.calibration is None else case.calibration.make(case.rows, WIDTH)
    asked: dict[str, Any] = {} if case.rate is None else {"false_alarm_rate": case.rate}
    said = stored(features, folder, "fit", case.form)
    if isinstance(said, Path):
        if calibration is not None:
            calibration = stored(calibration, folder, "calibration", case.form)
        if not isinstance(calibration, Path | None):
            calibration = None
        guard = th.fit_guard(said, head=head, detector=case.name, calibration=calibration, **asked).guard
    else:
        guard = th.Guard.fit(
            features,
            labels,
            head=head,
            detector=case.name,
            calibration=calibration,
            calibration_share=case.share,
            **asked,
        )
    rows = case.new.make(11, WIDTH)
    return rows, guard.verdicts(rows, unscorable=case.unscorable)


@given(case=guard_cases)
@cases(bounded=80, long=2_000)
@pytest.mark.filterwarnings("ignore::theodolite.core.errors.TheodoliteWarning")
def test_verdicts_that_mean_something_or_an_error_of_ours(
    tmp_path_factory: pytest.TempPathFactory, case: Case
) -> None:
    folder = tmp_path_factory.getbasetemp()
    try:
        rows, verdicts = verdicts_of(case, folder)
    except TheodoliteError as error:
        assert str(error), "an error says what is wrong"  # noqa: PT017
        count("guards", case.name, "refused")
        return
    plain = rows.detach().double() if isinstance(rows, Tensor) else rows.astype(float)
    finite = np.isfinite(np.asarray(plain)).all(axis=1)
    predicted, score, p_value, is_ood = (np.asarray(column) for column in verdicts)
    assert all(column.shape == (11,) for column in (predicted, score, p_value, is_ood))
    assert case.unscorable == "flag" or finite.all(), "a row without a score is refused unless asked for"
    known = ~np.isnan(p_value)
    assert not known[~finite].any()
    assert is_ood[~known].all(), "what could not be judged is flagged"
    assert ((p_value[known] > 0) & (p_value[known] <= 1)).all()
    assert not np.isnan(score[known]).any()
    assert (predicted < CLASSES).all()
    assert (predicted[known] >= 0).all() == case.head or not known.any()
    count("guards", case.name, "judged")
