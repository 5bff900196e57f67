"""What is neither picture nor text: a format and a factory of one's own, from files to verdicts."""

from __future__ import annotations

import sys
import wave
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from theodolite import Guard
from theodolite.core.errors import CaptureError, InputError, ModelError
from theodolite.data import formats
from theodolite.features import ExtractionSettings, Running, extract
from theodolite.features.checked import checked_capture
from theodolite.guard import fit_guard
from theodolite.models import load_model

MODEL = "python:my_sounds:listener"


def write_sounds(folder: Path, count: int, seed: int, pitch: float = 1.0) -> Path:
    """Tones of two pitches, of different lengths."""
    rng = np.random.default_rng(seed)
    folder.mkdir()
    for index in range(count):
        label, time = index % 2, np.arange(rng.integers(60, 120))
        tone = 0.5 * np.sin(pitch * (0.3 + 0.6 * label) * time + rng.uniform(0, 6))
        tone += 0.02 * rng.standard_normal(len(time))
        with wave.open(str(folder / f"{label}-{index:03d}.wav"), "wb") as file:
            file.setparams((1, 2, 8000, 0, "NONE", ""))
            file.writeframes((tone * 2**15).astype("<i2").tobytes())
    return folder


@pytest.fixture
def sounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Folders of sounds, whose format is known for the time of a test."""
    monkeypatch.setattr(formats, "_formats", dict(formats._formats))
    monkeypatch.setenv("THEODOLITE_CACHE", str(tmp_path / "cache"))
    __import__("my_sounds")
    for name, count, seed, pitch in (("fit", 80, 0, 1.0), ("held-out", 80, 1, 1.0), ("far", 20, 2, 2.9)):
        write_sounds(tmp_path / name, count, seed, pitch)
    yield tmp_path
    del sys.modules["my_sounds"]


def test_a_format_and_a_factory_lead_from_files_to_verdicts(sounds: Path) -> None:
    fitted = fit_guard(sounds / "fit", MODEL, detector="mds", calibration=sounds / "held-out", force=True)
    fitted.guard.save(sounds / "guard.safetensors")
    guard = Guard.load(sounds / "guard.safetensors")
    known, far = (guard.score_folder(sounds / name, model=MODEL) for name in ("held-out", "far"))
    assert [row.path for row in far][:2] == ["0-000.wav", "0-002.wav"]
    assert np.mean([row.verdict == "OOD" for row in far]) > 0.8
    assert np.mean([row.verdict == "OOD" for row in known]) < 0.1
    one = open_one(sounds / "far")
    direct = guard.verdicts([one, one[:70]])
    assert float(torch.as_tensor(direct.score)[0]) == pytest.approx(far[0].score, rel=1e-4)


def open_one(folder: Path) -> np.ndarray:
    from my_sounds import Sounds

    content = Sounds(folder)[0].content
    assert isinstance(content, np.ndarray)
    return content


def test_features_do_not_depend_on_the_batch(sounds: Path) -> None:
    stores = [
        extract(sounds / "fit", MODEL, output=sounds / f"store{size}", settings=settings(size))
        for size in (1, 7)
    ]
    first, second = (next(iter(store.batches(80)))[0] for store in stores)
    torch.testing.assert_close(first, second, rtol=1e-5, atol=1e-6)


def settings(batch_size: int) -> ExtractionSettings:
    return ExtractionSettings(running=Running(batch_size=batch_size))


@pytest.mark.usefixtures("sounds")
def test_a_collate_that_lets_filling_count_is_refused() -> None:
    with pytest.raises(CaptureError, match="gives a sample other features alone than beside a longer one"):
        checked_capture(load_model("python:my_sounds:careless_listener"))


def test_what_it_takes_and_what_the_data_holds_must_be_one(sounds: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a text\n")
    with pytest.raises(
        InputError, match=r"holds texts, but the model python:my_sounds:listener takes sounds"
    ):
        extract(tmp_path / "a.txt", MODEL)
    with pytest.raises(
        InputError, match=r"holds sounds, but the model python:small_models:Tiny.* takes pictures"
    ):
        extract(sounds / "far", "python:small_models:Tiny?mean=0&size=8")
    with pytest.raises(ModelError, match="takes sounds, and has no examples"):
        checked_capture(replace(load_model(MODEL), examples=()))
