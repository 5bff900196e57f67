"""How a guard was calibrated: a doubt where the classifier may know the data, with a stated rate of error."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from command_server import run
from made_guards import clusters, head
from realdata import load_head, load_split
from theodolite import Guard
from theodolite.core.errors import CalibrationWarning
from theodolite.guard.calibrated import Calibrated

OLD = Path(__file__).parents[1] / "fixtures" / "0.1.0" / "guard-knn.safetensors"


@pytest.mark.parametrize("samples", [100, 227, 228, 1_000, 4_000])
def test_the_test_is_the_binomial_one(samples: int) -> None:
    for errors in range(0, samples // 20, max(1, samples // 400)):
        expected = stats.binom.cdf(errors, samples, 0.02) < 0.01
        assert Calibrated(True, samples, samples, samples - errors).learnt == expected


def test_a_classifier_that_errs_on_new_data_is_seldom_accused() -> None:
    """At an error of 2 %, the least that the test speaks of, in less than one case of a hundred."""
    errors = np.random.default_rng(0).binomial(2_000, 0.02, 4_000)
    accused = np.mean([Calibrated(True, 2_000, 2_000, 2_000 - int(count)).learnt for count in errors])
    assert accused < 0.015
    assert not any(Calibrated(True, 2_000, 2_000, 2_000 - int(2.5 * count)).learnt for count in errors[:500])


def test_fit_warns_where_the_labels_are_known_by_heart() -> None:
    features, _ = clusters(3_000, 0)
    answers = head()(features).argmax(dim=1)
    with pytest.warns(
        CalibrationWarning, match=r"gives 100\.0 % of \d+ labels.*2 % of new data.*0\.01.*calibration="
    ):
        learnt = Guard.fit(features, answers, head=head(), detector="energy")
    assert learnt.calibrated is not None
    assert (learnt.calibrated.learnt, learnt.calibrated.own_share) == (True, True)
    with pytest.warns(CalibrationWarning, match="without labels nothing shows"):
        Guard.fit(features, head=head(), detector="energy")
    with pytest.warns(CalibrationWarning, match="too few to tell"):
        Guard.fit(features[:500], answers[:500], head=head(), detector="energy")


def test_fit_is_silent_where_there_is_no_doubt() -> None:
    features, _ = clusters(3_000, 0)
    labels = head()(features).argmax(dim=1)
    labels[::20] = (labels[::20] + 1) % 5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        erring = Guard.fit(features, labels, head=head(), detector="energy")
        apart = Guard.fit(features, head=head(), detector="energy", calibration=clusters(400, 1)[0])
        told = Guard.fit(features, head=head(), detector="energy", calibration=[clusters(400, 1)])
    for guard in (erring, apart, told):
        assert guard.calibrated is not None
        assert guard.calibrated.doubt is None
    assert erring.calibrated is not None
    assert erring.calibrated.agreement == pytest.approx(0.95, abs=0.02)
    assert apart.calibrated == Calibrated(False, 400)
    assert told.calibrated is not None
    assert told.calibrated.labelled == 400


def test_the_file_and_inspect_remember_it(tmp_path: Path) -> None:
    features, _ = clusters(3_000, 0)
    with pytest.warns(CalibrationWarning):
        guard = Guard.fit(features, head()(features).argmax(dim=1), head=head(), detector="energy")
    guard.save(tmp_path / "guard.safetensors")
    loaded = Guard.load(tmp_path / "guard.safetensors")
    assert loaded.calibrated == guard.calibrated
    shown = " ".join(run("inspect", tmp_path / "guard.safetensors", env={"COLUMNS": "200"}).out.split())
    assert "of a share of the data to fit on; the classifier gave 100.0 % of its labels" in shown
    assert "beware: the threshold is set on a share of the data to fit on" in shown
    old = run("inspect", OLD).out
    assert "the file does not say of what data" in " ".join(old.split())


@pytest.mark.parametrize("name", ["cifar10-densenet", "clinc150-minilm"])
def test_real_data_of_training_is_recognised_and_new_data_is_not(data_root: Path, name: str) -> None:
    """CIFAR-10 DenseNet: 99.98 % on training images, 94.5 % on others; CLINC150: 99.7 % and 92.2 %."""
    for part, known in (("id_fit", True), ("id_test", False)):
        features, labels = load_split(data_root, name, part)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrationWarning)
            guard = Guard.fit(features, labels, head=load_head(data_root, name), detector="energy")
        assert guard.calibrated is not None
        assert guard.calibrated.learnt == known
        assert (guard.calibrated.doubt is not None) == known
