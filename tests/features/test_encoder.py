"""Encoders without a head: their output is the feature, never logits by mistake; their probes and guards."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from theodolite import ExtractionSettings, FeatureStore, Guard, Head, extract, fit_guard, train_probe
from theodolite.benchmarks import BenchSettings, bench
from theodolite.cli.extract import extract as extract_command
from theodolite.cli.probe import probe as probe_command
from theodolite.core.errors import CaptureError, InputError
from theodolite.features.encoder import OUTPUT, OutputCapture
from theodolite.features.head_files import read_head
from theodolite.features.linear_probe import save_probe
from theodolite.models import load_model

CODE = """
import torch
from safetensors.torch import save_file
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(64, 16), nn.Linear(16, 12)

    def forward(self, images):
        return torch.relu(self.second(torch.relu(self.first(images.flatten(1)))))


class Projection(Encoder):
    def forward(self, images):
        return self.second(torch.relu(self.first(images.flatten(1))))
"""
MODEL = "python:own_encoders:Encoder?mean=0&size=8"
SETTINGS = ExtractionSettings(headless=True)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Grey noise whose brightness is its class, and an OOD set of stripes."""
    folder = tmp_path_factory.mktemp("encoder")
    (folder / "own_encoders.py").write_text(CODE)
    rng = np.random.default_rng(0)
    for name, count in (("fit", 900), ("test", 300), ("far", 150)):
        labels = rng.integers(0, 3, size=count)
        images = rng.integers(0, 60, size=(count, 8, 8)) + 80 * labels[:, None, None]
        if name == "far":
            images[:, ::2] = 255 - images[:, ::2]
        np.savez(folder / f"{name}.npz", images=images.astype(np.uint8), labels=labels)
    sys.path.append(str(folder))
    for name, part in (("fit", "id_fit"), ("test", "id_test"), ("far", "far")):
        extract(folder / f"{name}.npz", MODEL, output=folder / "features" / part, settings=SETTINGS)
    yield folder
    sys.path.remove(str(folder))
    sys.modules.pop("own_encoders", None)


def test_the_features_are_the_output_and_there_is_no_head(place: Path) -> None:
    store = FeatureStore(place / "features" / "id_fit")
    assert store.head is None
    assert (store.width, store.manifest.recipe.layer) == (12, OUTPUT)
    encoder = sys.modules["own_encoders"].Encoder()
    with np.load(place / "fit.npz") as data:
        images = torch.from_numpy(data["images"][:5]).float()[:, None] / 255
        assert store.shard(0).labels[:5].tolist() == data["labels"][:5].tolist()
    with torch.no_grad():
        assert torch.allclose(store.shard(0).features[:5], encoder(images), atol=1e-6)
    with pytest.raises(InputError, match="without a head: train one with `theodolite probe"):
        read_head(place / "features" / "id_fit")
    again = extract(place / "fit.npz", MODEL, output=place / "features" / "id_fit", settings=SETTINGS)
    assert len(again) == 900


def test_an_encoder_is_not_taken_for_a_classifier_nor_the_other_way_round(place: Path) -> None:
    with pytest.raises(CaptureError, match="--no-head"):
        extract(place / "test.npz", MODEL, output=place / "none")
    projection = MODEL.replace("Encoder", "Projection")
    with pytest.raises(CaptureError, match="looks like logits: it is that of its linear layer 'second'"):
        extract(place / "test.npz", projection, output=place / "none", settings=SETTINGS)
    assert not (place / "none").exists()
    forced = ExtractionSettings(headless=True, force=True)
    assert extract(place / "test.npz", projection, output=place / "forced", settings=forced).width == 12
    images = torch.rand(4, 6)
    with pytest.raises(CaptureError, match="looks like probabilities"):
        OutputCapture(nn.Sequential(nn.ReLU(), nn.Softmax(dim=1)))(images)
    with pytest.raises(CaptureError, match="expected features"):
        OutputCapture(nn.Unflatten(1, (2, 3)))(images)
    named = ExtractionSettings(headless=True, layer="second")
    with pytest.raises(InputError, match="names a head, and --no-head"):
        extract(place / "test.npz", MODEL, output=place / "none", settings=named)


def test_a_probe_then_bench_fit_and_score(place: Path, tmp_path: Path) -> None:
    features = place / "features"
    head = train_probe(FeatureStore(features / "id_fit"), epochs=60, learning_rate=0.05)
    save_probe(head, tmp_path / "probe.safetensors")
    with pytest.raises(InputError, match="holds features of an encoder, without a head"):
        bench(f"features:{features}", settings=BenchSettings(cache=tmp_path / "cache"))
    save_probe(head, features / "head.safetensors")
    done = bench(
        f"features:{features}", detectors=["energy", "ora"], settings=BenchSettings(cache=tmp_path / "cache")
    )
    (features / "head.safetensors").unlink()
    accuracy = done.subjects["features"].accuracy
    assert accuracy is not None
    assert accuracy > 80

    with pytest.raises(InputError, match="Energy needs a head"):
        fit_guard(features / "id_fit", detector="energy", calibration=features / "id_test")
    fitted = fit_guard(
        features / "id_fit",
        detector="energy",
        calibration=features / "id_test",
        head=tmp_path / "probe.safetensors",
    )
    assert fitted.agreement is not None
    assert fitted.agreement > 0.8
    fitted.guard.save(tmp_path / "guard.safetensors")
    with pytest.raises(InputError, match="save the guard with its own"):
        fitted.guard.save(tmp_path / "other.safetensors", with_head=False)
    guard = Guard.load(tmp_path / "guard.safetensors")
    stored = [row.score for rows in guard.score_paths([features / "far"]) for row in rows]
    pictures = [row.score for rows in guard.score_paths([place / "far.npz"], model=MODEL) for row in rows]
    assert len(stored) == 150
    assert np.allclose(np.asarray(stored, float), np.asarray(pictures, float), atol=1e-4)


def test_a_score_without_a_head_needs_no_probe(place: Path) -> None:
    fitted = fit_guard(
        place / "features" / "id_fit", detector="knn", calibration=place / "features" / "id_test"
    )
    assert fitted.guard.head is None
    assert fitted.agreement is None
    images = torch.rand(4, 1, 8, 8)
    guard = fitted.guard.attach(sys.modules["own_encoders"].Encoder())
    with torch.no_grad():
        known = guard.verdicts(sys.modules["own_encoders"].Encoder()(images))
    assert np.allclose(np.asarray(guard.verdicts(images).score), np.asarray(known.score), atol=1e-5)


def test_a_head_of_another_width_and_one_too_many(place: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the head takes features of width 5, but the data has width 12"):
        fit_guard(place / "features" / "id_fit", detector="energy", head=Head(torch.randn(3, 5)))
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).normal(size=(50, 5)).astype(np.float32))
    head = Head(torch.randn(3, 5))
    store = extract(tmp_path / "rows.npy", head=head, output=tmp_path / "store")
    with pytest.raises(InputError, match="any other feature store has its own"):
        fit_guard(store.path, detector="energy", head=head)


def test_the_commands_say_what_was_taken(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    extract_command(data=str(place / "test.npz"), output=tmp_path / "s", model=MODEL, no_head=True)
    assert "the output of the model, which has no head: 300 × 12 features" in capsys.readouterr().out
    probe_command(store=str(place / "features" / "id_fit"), output=tmp_path / "p.safetensors", epochs=2)
    assert read_head(tmp_path / "p.safetensors").width == 12


def test_a_supcon_encoder_without_its_linear_file(tmp_path: Path) -> None:
    """`scl:…?linear=none`: the encoder of a contrastive release, whose 512 outputs are the features."""
    whole = load_model("scl:resnet18-supcon", pretrained=False)
    weights = {f"encoder.{key}": value for key, value in whole.model.state_dict().items() if "fc." not in key}
    save_file(weights, tmp_path / "encoder.safetensors")
    loaded = load_model("scl:resnet18-supcon?linear=none", weights=tmp_path / "encoder.safetensors")
    assert (loaded.layer, loaded.class_names) == (None, None)
    features, logits = OutputCapture(loaded.model)(torch.rand(2, 3, 32, 32))
    assert (features.shape, logits.shape) == ((2, 512), (2, 0))
