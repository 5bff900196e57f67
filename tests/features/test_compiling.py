"""A compiled model: the features of the plain one, or the plain one with a word on why."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from theodolite.core.errors import TheodoliteWarning
from theodolite.features import Capture, Running
from theodolite.features.forward import Forward

IMAGES = torch.rand(6, 3, 8, 8, generator=torch.Generator().manual_seed(0))
BATCHES = (IMAGES[:4], IMAGES, 1 - IMAGES, IMAGES[:2])


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 5, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(5, 4)
    )


def compiled(model: nn.Module) -> tuple[Forward, list[Tensor]]:
    """Features of a small batch, two whole ones, and a small one, with the model compiled."""
    capture = Capture(model)
    capture(IMAGES)
    forward = Forward(capture, Running(compile=True), samples=6)
    with forward.ready():
        return forward, [forward(images, finite=True) for images in BATCHES]


def assert_plain_again(model: nn.Module, features: list[Tensor]) -> None:
    for images, found in zip(BATCHES, features, strict=True):
        torch.testing.assert_close(found, Capture(model)(images)[0])
    assert all("forward" not in module.__dict__ for module in model.modules())


@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler on this system")
def test_features_are_the_same_and_the_model_is_left_as_it_was() -> None:
    model = net()
    forward, features = compiled(model)
    assert forward.log.compiled == "compiled for batches of 6"
    assert_plain_again(model, features)


def broken(*_: object, **__: object) -> Callable[[Tensor], Tensor]:
    def run(_: Tensor) -> Tensor:
        raise RuntimeError("no C++ compiler found\nand much more")

    return run


def test_without_a_compiler_the_model_runs_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", broken)
    model = net()
    with pytest.warns(
        TheodoliteWarning, match=r"could not be compiled \(RuntimeError: no C\+\+ compiler found\)"
    ):
        forward, features = compiled(model)
    assert forward.log.compiled == "not compiled"
    assert_plain_again(model, features)


def test_a_compiled_model_with_other_features_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda model, **_: lambda images: model(images + 0.1))
    model = net()
    with pytest.warns(TheodoliteWarning, match="the compiled model gives other features"):
        forward, features = compiled(model)
    assert forward.log.compiled == "not compiled"
    assert_plain_again(model, features)


def test_what_runs_the_model_may_be_anything_that_can_be_called() -> None:
    """A compiled module has a length only if the model has one: its truth is not to be asked for."""

    class Lengthless:
        def __call__(self, images: Tensor) -> Tensor:
            logits: Tensor = model(images)
            return logits

        def __bool__(self) -> bool:
            raise TypeError("it does not support len()")

    model = net()
    capture = Capture(model)
    expected, _ = capture(IMAGES)
    torch.testing.assert_close(capture(IMAGES, run=Lengthless())[0], expected)
