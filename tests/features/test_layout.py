"""The layout of pictures in memory: a measured choice, the same features, and a model left as it was."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from theodolite.data import open_source
from theodolite.features import Capture, ExtractionSettings, FeatureStore, RunLog, Running, fill_store, layout
from theodolite.features.forward import Forward
from theodolite.features.layout import CHANNELS_LAST, CONTIGUOUS, is_channels_last, measured
from theodolite.features.manifest import MIXED
from theodolite.models import load_model

IMAGES = torch.rand(12, 3, 8, 8, generator=torch.Generator().manual_seed(0))
MODEL = "python:small_models:Tiny?mean=0&size=8"


class Net(nn.Module):
    """Convolution, mean, head; ``act`` stands before the mean."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.fc = nn.Conv2d(3, 5, 3), nn.Linear(5, 4)

    def act(self, values: Tensor) -> Tensor:
        return values

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.fc(self.act(self.conv(images)).mean(dim=(2, 3)))
        return logits


class Views(Net):
    def act(self, values: Tensor) -> Tensor:
        return values.view(len(values), -1).reshape(values.shape)


class Strides(Net):
    """Reads memory as it lies: other numbers in another layout."""

    def act(self, values: Tensor) -> Tensor:
        return torch.as_strided(values, values.shape, values.contiguous().stride()).cumsum(dim=2)


class Clock:
    """Time passes with the calls: so much for a batch in each layout."""

    def __init__(self, contiguous: float, channels_last: float) -> None:
        self.now, self.costs = 0.0, {CONTIGUOUS: contiguous, CHANNELS_LAST: channels_last}

    def perf_counter(self) -> float:
        return self.now

    def run(self, capture: Capture, images: Tensor) -> Tensor:
        last = not images.is_contiguous()
        assert is_channels_last(capture.model) == last, "weights and pictures lie the same way"
        self.now += self.costs[CHANNELS_LAST if last else CONTIGUOUS]
        return capture(images)[0]


@pytest.mark.parametrize(
    ("contiguous", "last", "chosen"),
    [(1.5, 1.0, CHANNELS_LAST), (1.0, 1.5, CONTIGUOUS), (1.02, 1.0, CONTIGUOUS), (0.002, 0.001, CONTIGUOUS)],
    ids=["faster", "slower", "within the margin", "quick"],
)
def test_the_faster_layout_is_taken_by_the_rule(
    contiguous: float, last: float, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, capture = Clock(contiguous, last), Capture(Net())
    monkeypatch.setattr(layout, "time", clock)
    choice = measured(capture.model, lambda images: clock.run(capture, images), IMAGES)
    assert choice.layout == chosen
    assert is_channels_last(capture.model) == (chosen == CHANNELS_LAST)


@pytest.mark.parametrize("net", [Views, Strides])
def test_a_model_that_needs_its_layout_keeps_it(net: type[Net], monkeypatch: pytest.MonkeyPatch) -> None:
    clock, capture = Clock(9, 1), Capture(net())
    monkeypatch.setattr(layout, "time", clock)
    choice = measured(capture.model, lambda images: clock.run(capture, images), IMAGES)
    assert choice.layout == CONTIGUOUS
    assert choice.why.startswith("the model ")


@pytest.mark.parametrize("channels_last", [False, True])
def test_features_are_plain_and_the_model_is_left_as_it_was(channels_last: bool) -> None:
    model = Net()
    expected, _ = Capture(model)(IMAGES)
    forward = Forward(Capture(model), Running(channels_last=channels_last), samples=12)
    with forward.ready():
        features = forward(IMAGES, finite=True)
        assert is_channels_last(model) == channels_last
    torch.testing.assert_close(features, expected)
    assert not is_channels_last(model)
    assert not features.is_inference()
    assert not any(weight.is_inference() for weight in model.parameters())
    model(IMAGES).sum().backward()  # it can be trained on
    assert forward.log.layout == f"{CHANNELS_LAST if channels_last else CONTIGUOUS} (as asked for)"


def test_a_model_made_in_channels_last_stays_so() -> None:
    model = Net().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    forward = Forward(Capture(model), Running(), samples=10_000)
    with forward.ready():
        forward(IMAGES, finite=True)
    assert is_channels_last(model)
    assert forward.layout == CHANNELS_LAST


def test_a_store_is_in_one_layout_and_says_which(tmp_path: Path) -> None:
    np.save(tmp_path / "p.npy", np.random.default_rng(0).integers(0, 255, (40, 8, 8, 3), dtype=np.uint8))
    loaded, source = load_model(MODEL), open_source(tmp_path / "p.npy")

    def fill(name: str, **running: bool | None) -> FeatureStore:
        settings = ExtractionSettings(shard_rows=16, running=Running(batch_size=8, **running))  # type: ignore[arg-type]
        return fill_store(loaded, source, tmp_path / name, settings=settings)

    plain, last = fill("plain"), fill("last", channels_last=True)
    assert plain.manifest.layout == CONTIGUOUS
    assert last.manifest.layout == CHANNELS_LAST
    assert plain.manifest.recipe.key == last.manifest.recipe.key
    for index in range(plain.shards):
        torch.testing.assert_close(plain.shard(index).features, last.shard(index).features)
    (last.path / "shard-00001.safetensors").unlink()
    assert fill("last").manifest.layout == CHANNELS_LAST, "it goes on as it was"
    (last.path / "shard-00001.safetensors").unlink()
    assert fill("last", channels_last=False).manifest.layout == MIXED


def test_a_log_says_what_was_chosen_and_how_long_the_start_took(tmp_path: Path) -> None:
    np.save(tmp_path / "p.npy", np.zeros((10, 8, 8, 3), dtype=np.uint8))
    log = RunLog()
    settings = ExtractionSettings(running=Running(log=log))
    fill_store(load_model(MODEL), open_source(tmp_path / "p.npy"), tmp_path / "s", settings=settings)
    assert log.chosen[0].startswith("1 thread reads ahead"), "code of others prepares them"
    assert log.chosen[1].startswith(f"{CONTIGUOUS} (not measured")
    assert list(log.parts) == ["model", "head", "listing", "first pictures", "layout", "first pass"]
