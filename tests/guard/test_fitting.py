"""From paths to a guard in Python: what the fit command does, without the command."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from labelled import labels_of
from made_guards import clusters, head
from theodolite import KNN, ODIN, Energy
from theodolite.core.errors import InputError
from theodolite.features import ExtractionProgress, ExtractionSettings, FeatureStore, extract
from theodolite.guard import Guard, Provenance, fit_guard
from theodolite.guard.choice import choose_detector
from theodolite.guard.shown import note_on

MODEL = "python:small_models:Tiny?mean=0&size=8"


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two archives of pictures, of which one has labels; a cache of its own."""
    monkeypatch.setenv("THEODOLITE_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (200, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "train.npz", images=images, labels=labels_of(images))
    np.savez(tmp_path / "val.npz", images=rng.integers(0, 256, (60, 8, 8), dtype=np.uint8))
    return tmp_path


def test_a_guard_from_pictures_is_that_of_their_features(data: Path) -> None:
    fitted = fit_guard(data / "train.npz", MODEL, detector="knn?k=7", class_names=("a", "b", "c"))
    store = extract(data / "train.npz", MODEL)
    by_hand = Guard.fit(store, head=store.head, detector=KNN(k=7))
    np.testing.assert_allclose(fitted.guard.calibration.scores, by_hand.calibration.scores)
    assert fitted.guard.detector.options()["k"] == 7
    assert fitted.guard.class_names == ("a", "b", "c")
    assert fitted.guard.provenance == Provenance.of_store(store)
    assert fitted.fitted_on + len(fitted.guard.calibration) == 200
    assert fitted.agreement is not None
    assert 0.2 < fitted.agreement < 0.99
    assert fitted.notes == ()


def test_calibration_data_of_its_own_and_the_rate(data: Path) -> None:
    seen: list[ExtractionProgress] = []
    fitted = fit_guard(
        [data / "train.npz"],
        MODEL,
        calibration=data / "val.npz",
        detector=Energy(),
        false_alarm_rate=0.1,
        progress=seen.append,
    )
    assert fitted.fitted_on == 200
    assert len(fitted.guard.calibration) == 60
    assert fitted.guard.false_alarm_rate == 0.1
    assert [Path(now.data).name for now in seen if now.kept] == ["train.npz", "val.npz"]


def test_parts_are_one_data_set(data: Path) -> None:
    parts = [
        extract(
            data / "train.npz", MODEL, output=data / str(part), settings=ExtractionSettings(part=f"{part}/2")
        ).path
        for part in (1, 2)
    ]
    whole = fit_guard(extract(data / "train.npz", MODEL).path)
    parted = fit_guard(parts)
    np.testing.assert_allclose(
        parted.guard.calibration.scores, whole.guard.calibration.scores, rtol=1e-5, atol=1e-6
    )
    assert parted.fitted_on == whole.fitted_on


def test_labels_that_do_not_agree_are_refused_unless_forced(data: Path) -> None:
    store = extract(data / "train.npz", MODEL)
    (features, _, _) = next(iter(store))
    assert store.head is not None
    answers = store.head(features).argmax(dim=1).numpy()
    with np.load(data / "train.npz") as file:
        images = file["images"]
    np.savez(data / "learnt.npz", images=images, labels=answers)
    np.savez(data / "foreign.npz", images=images, labels=(answers + 1) % 3)
    with pytest.raises(InputError, match=r"gives 0\.0 % of the labels, hardly more than by chance.*--force"):
        fit_guard(data / "foreign.npz", MODEL)
    forced = fit_guard(data / "foreign.npz", MODEL, force=True)
    assert forced.agreement == 0
    assert [note.split(",")[0] for note in forced.notes] == ["the classifier gives 0.0 % of the labels"]
    learnt = fit_guard(data / "learnt.npz", MODEL, calibration=data / "val.npz")
    assert (learnt.agreement, learnt.notes) == (1, ())
    unlabelled = fit_guard(data / "val.npz", MODEL, calibration=data / "train.npz")
    assert (unlabelled.agreement, unlabelled.notes) == (None, ())


def test_what_cannot_be_is_refused_before_any_picture_is_looked_at(data: Path) -> None:
    train, val = data / "train.npz", data / "val.npz"
    with pytest.raises(InputError, match="the same data is named twice"):
        fit_guard([train, train], MODEL)
    with pytest.raises(InputError, match="the same data is named twice"):
        fit_guard(train, MODEL, calibration=data / "." / "train.npz")
    with pytest.raises(InputError, match="does not exist"):
        fit_guard(train, MODEL, calibration=data / "nowhere")
    with pytest.raises(InputError, match="data is empty: name at least one path"):
        fit_guard([], MODEL)
    with pytest.raises(InputError, match="false-alarm rate must lie between 0 and 1"):
        fit_guard(train, MODEL, false_alarm_rate=0)
    with pytest.raises(InputError, match=r"calibration share must lie in \(0, 1\)"):
        fit_guard(train, MODEL, calibration_share=1)
    with pytest.raises(InputError, match="did you mean 'ora'"):
        fit_guard(train, MODEL, detector="orra")
    with pytest.raises(InputError, match="is not a feature store: --model says"):
        fit_guard([val, train])
    assert not (data / "cache").exists()


def test_stores_must_belong_together(data: Path) -> None:
    from safetensors.torch import save_file

    from small_models import Tiny

    save_file({name: part + 1 for name, part in Tiny().state_dict().items()}, data / "w.safetensors")
    here = extract(data / "train.npz", MODEL).path
    elsewhere = extract(data / "val.npz", MODEL, weights=data / "w.safetensors").path
    for calibration, parts in ((elsewhere, [here]), (None, [here, elsewhere])):
        with pytest.raises(InputError, match="are of different models or preprocessing"):
            fit_guard(parts, calibration=calibration)
    for name in ("a", "b"):
        (data / "folders" / name).mkdir(parents=True)
        Image.new("L", (8, 8)).save(data / "folders" / name / "0.png")
    folders = extract(data / "folders", MODEL).path
    assert FeatureStore(folders).manifest.folders == ("a", "b")
    with pytest.raises(InputError, match="number different classes by their labels"):
        fit_guard([here, folders])
    np.savez(data / "far.npz", images=np.zeros((40, 8, 8), np.uint8), labels=np.full(40, 7))
    with pytest.raises(InputError, match=r"labels up to 7, but the model has 3 classes"):
        fit_guard(data / "far.npz", MODEL)


# ---------------------------------------------------------------------- the score, by text


def test_a_detector_by_text_has_its_options_and_shaping() -> None:
    features, labels = clusters(300, 0)
    guard = Guard.fit(features, labels, head=head(), detector="knn?k=5+react:90")
    by_hand = Guard.fit(features, labels, head=head(), detector=KNN(k=5, shaping="react:90"))
    np.testing.assert_allclose(guard.calibration.scores, by_hand.calibration.scores)
    with pytest.raises(InputError, match="KNN has no option 'j'"):
        Guard.fit(features, labels, head=head(), detector="knn?j=5")
    with pytest.raises(InputError, match="must be a Detector or its name, got int"):
        Guard.fit(features, labels, head=head(), detector=5)  # type: ignore[arg-type]


def test_a_shaping_may_stand_apart_from_the_text() -> None:
    assert choose_detector("ora", "react:80").options()["shaping"] == "react:80"
    assert choose_detector(None, "ASH_S:90").options()["shaping"] == "ash-s:90"
    with pytest.raises(InputError, match="names a shaping already: leave --shaping out"):
        choose_detector("ora+scale", "react:80")
    with pytest.raises(InputError, match="no shaping is called 'foo'"):
        choose_detector("ora", "foo:3")
    with pytest.raises(InputError, match="give it to the detector"):
        choose_detector(Energy(), "react:80")


def test_a_guard_of_features_leaves_the_nudge_out_and_says_so() -> None:
    assert choose_detector("odin").options() == ODIN().options()
    guard = Guard.fit(*clusters(400, 0), head=head(), detector="odin")
    assert guard.title == "ODIN (ε=0)"
    assert "its nudge is left out" in (note_on(guard.detector, guard.model_score) or "")
    assert note_on(Energy(), None) is None
    with pytest.raises(
        InputError, match=r"odin\?noise=0.01.* asks more of the model than these features hold"
    ):
        Guard.fit(*clusters(400, 0), head=head(), detector="odin?noise=0.01")
