"""Graphs of images and of pictures: the model inside, and its preprocessing where a graph can do it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

import theodolite as th
from picture_nets import PIXELS, Net, net_guard, pictures, prepared
from theodolite.core.errors import ExportError, InputError, TheodoliteWarning
from theodolite.guard import Guard
from theodolite.guard.export.pixels import PixelGraph, why_outside
from theodolite.guard.export.subjects import known_pixels
from theodolite.models import LoadedModel
from theodolite.models.preprocess import Pixels, Rgb

pytest.importorskip("onnxruntime", reason="pip install 'theodolite[onnx]'")
pytestmark = pytest.mark.usefixtures("operators_once")


@pytest.fixture(scope="module")
def images() -> Tensor:
    return prepared()


@pytest.fixture(scope="module")
def guard() -> Guard:
    return net_guard()


def test_images_through_the_model(guard: Guard, images: Tensor, tmp_path: Path) -> None:
    assert guard.model is not None
    guard.model.train()  # of a training loop: the graph is of the network in eval mode all the same
    done = guard.export(tmp_path / "guard.onnx", check=images[:20])
    assert guard.model.training
    assert all(module.training for module in guard.model.modules())
    loaded = th.load_exported(tmp_path / "guard.onnx")
    assert (loaded.takes, done.record.shape) == ("images", (None, 3, 24, 24))
    new = [*pictures(40, seed=1), Image.new("RGB", (30, 50), (255, 0, 0))]
    found, right = loaded.verdicts(new), guard.verdicts(new)
    np.testing.assert_array_equal(found.is_ood, torch.as_tensor(right.is_ood).numpy())
    np.testing.assert_array_equal(found.predicted, torch.as_tensor(right.predicted).numpy())
    np.testing.assert_allclose(np.asarray(found.score), torch.as_tensor(right.score).numpy(), rtol=1e-5)
    assert torch.equal(loaded.prepare(new[0]), PIXELS(new[0]))
    tilted = new[0].copy()
    tilted.getexif()[0x0112] = 6
    with pytest.warns(TheodoliteWarning, match="judged as they are stored"):
        loaded.verdicts([tilted])
    said = json.loads((tmp_path / "guard.preprocess.json").read_text())
    assert (said["inside"], said["pixels"]["resize"], said["pixels"]["mean"]) == (False, 28, [0.5, 0.4, 0.3])


def test_an_image_that_is_not_finite_is_unscorable(guard: Guard, images: Tensor, tmp_path: Path) -> None:
    """Whatever the model makes of it: a maximum, or a ReLU of another runtime, may swallow NaN."""
    guard.export(tmp_path / "guard.pt2")
    loaded = th.load_exported(tmp_path / "guard.pt2", trust=True)
    some = images[:4].clone()
    some[1, 0, 3, 3], some[2, 2, 0, 0] = torch.nan, torch.inf
    found = loaded.verdicts(some)
    assert torch.as_tensor(found.unscorable).tolist() == [False, True, True, False]
    assert torch.as_tensor(found.is_ood)[1:3].all()
    assert torch.as_tensor(found.predicted)[1:3].tolist() == [-1, -1]


@pytest.mark.parametrize("suffix", [".onnx", ".pt2"])
def test_pictures_with_the_preprocessing_inside(guard: Guard, tmp_path: Path, suffix: str) -> None:
    place = tmp_path / f"guard{suffix}"
    done = guard.export(place, with_preprocessing=True, check=pictures(10, seed=3))
    assert done.beside is None
    assert done.record.preprocessing is not None
    assert "differ from Pillow's by at most" in str(done.record.preprocessing.note)
    loaded = th.load_exported(place, trust=True)
    assert (loaded.takes, done.record.shape) == ("pictures", (None, None, None, 3))
    for side in (60, 28, 19):
        new = pictures(12, seed=4, side=side)
        found, right = loaded.verdicts(new), guard.verdicts(new)
        np.testing.assert_array_equal(found.predicted, torch.as_tensor(right.predicted).numpy())
        np.testing.assert_allclose(
            np.asarray(found.p_value), torch.as_tensor(right.p_value).numpy(), atol=0.05
        )
        together = loaded.verdicts(np.stack([np.asarray(picture) for picture in new]))
        np.testing.assert_allclose(np.asarray(together.score), np.asarray(found.score), rtol=1e-5)
    with pytest.raises(InputError, match=r"expected pictures \(N, any, any, 3\) of uint8"):
        loaded.verdicts(np.zeros((1, 24, 24, 3), dtype=np.float32))
    with pytest.raises(InputError, match="more than 16 times as long as wide"):
        loaded.verdicts(np.zeros((1, 10, 400, 3), dtype=np.uint8))


@pytest.mark.parametrize("pixels", [
    PIXELS,
    Pixels(size=20, resize=None, interpolation="bilinear"),
    Pixels(size=24, resize=25, mean=(0.0,), std=(1.0,)),
    Pixels(size=23, resize=36, interpolation="bicubic"),
])  # fmt: skip
@pytest.mark.parametrize("size", [(24, 24), (25, 25), (60, 77), (31, 90), (90, 31), (12, 17), (200, 180)])
def test_pixels_in_tensors_are_those_of_pillow(pixels: Pixels, size: tuple[int, int]) -> None:
    """At every parity of what the crop leaves out; a shift by a pixel would be far more than two levels."""
    picture = pictures(1, seed=5, side=300)[0].resize(size)
    right = pixels(picture)
    found = PixelGraph(pixels)(torch.from_numpy(np.asarray(picture)[None].copy()))[0]
    levels = 255 * (found - right) * torch.tensor(pixels.std)[:, None, None]
    assert float(levels.abs().max()) < 2.01
    assert float((levels.abs() > 0.5).double().mean()) < 0.2


def test_what_stays_outside(guard: Guard, images: Tensor, tmp_path: Path) -> None:
    assert why_outside(PIXELS) is None
    assert "lanczos" in str(why_outside(Pixels(size=8, interpolation="lanczos")))
    assert "padded" in str(why_outside(Pixels(size=8, resize=6)))
    assert "not known" in str(why_outside(None))
    assert guard.loaded is not None
    odd = LoadedModel("net", guard.loaded.model, Rgb(PIXELS), "my own way", (3, 24, 24))
    with pytest.warns(UserWarning, match="cannot know whether this model gave them"):
        own = Guard(guard.detector, guard.calibration).attach(odd.model, preprocess=odd.preprocess)
    done = own.export(tmp_path / "guard.onnx", with_preprocessing=True, check=images[:4])
    assert done.record.takes == "images"
    assert done.beside is not None
    assert "not known as resize, crop and normalise" in json.loads(done.beside.read_text())["note"]
    with pytest.raises(InputError, match="is not in the file"):
        th.load_exported(tmp_path / "guard.onnx").prepare(pictures(1)[0])


def test_numbers_that_are_not_the_preprocessing_are_not_taken_for_it(guard: Guard) -> None:
    assert guard.loaded is not None
    model = guard.loaded.model
    right = LoadedModel("net", model, Rgb(PIXELS), "right", (3, 24, 24), pixels=PIXELS)
    other = Pixels(size=24, resize=28, mean=PIXELS.mean, std=PIXELS.std, interpolation="bilinear")
    wrong = LoadedModel("net", model, Rgb(PIXELS), "wrong", (3, 24, 24), pixels=other)
    assert known_pixels(right) == PIXELS
    assert known_pixels(wrong) is None


def test_models_that_cannot_be_exported(guard: Guard, images: Tensor, tmp_path: Path) -> None:
    class Branching(Net):
        def forward(self, images: Tensor) -> Tensor:
            return super().forward(images if float(images.sum()) > 0 else -images)

    bare = Guard(guard.detector, guard.calibration)
    with pytest.warns(UserWarning, match="cannot"):
        bare.attach(Net().eval())
    with pytest.raises(InputError, match="pass check=, a batch of prepared images"):
        bare.export(tmp_path / "guard.onnx")
    with pytest.warns(UserWarning, match="cannot"):
        bare.attach(Branching().eval())
    with pytest.raises(ExportError, match="cannot record the guard's model as a graph"):
        bare.export(tmp_path / "guard.onnx", check=images[:4])
    assert list(tmp_path.iterdir()) == []
