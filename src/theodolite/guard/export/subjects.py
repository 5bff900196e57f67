"""What is to be exported: the graph, an input to record it on, and the inputs to compare it on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import torch
from PIL import Image
from torch import Tensor

from ...core.errors import ExportError, InputError
from ...features.capture import Capture
from ...models import LoadedModel
from ...models.preprocess import Pixels
from ..model_judge import ModelJudge
from ..verdicts import FLAG, NO_CLASS, Verdicts
from .graph import GuardGraph, graph_of
from .pixels import PixelGraph, why_outside
from .real import Check, real_images, real_pictures, real_rows
from .record import FEATURES, IMAGES, PICTURES, REAL, Preprocessing
from .rows import made_images, made_pictures, made_rows

_SIDES = ("rows", "height", "width")


class ExportOptions(TypedDict, total=False):
    """What of a guard is exported, and compared on what: further arguments of `Guard.export`."""

    takes: str | None
    with_preprocessing: bool
    check: Check | None
    model: str | None
    weights: str | Path | None


@dataclass(frozen=True)
class Case:
    """Inputs of a kind and what PyTorch says of them; PIL pictures are compared one by one."""

    name: str
    inputs: Tensor | Sequence[Image.Image]
    expected: Verdicts


@dataclass(frozen=True)
class Subject:
    """A graph to export; ``free`` are the sides of its input that may have any length."""

    takes: str
    graph: GuardGraph
    example: Tensor
    free: tuple[int, ...]
    cases: tuple[Case, ...]
    preprocessing: Preprocessing | None = None

    @property
    def sides(self) -> tuple[str, ...]:
        """The free sides by name."""
        return _SIDES[: len(self.free)]

    @property
    def shape(self) -> tuple[int | None, ...]:
        return tuple(None if side in self.free else size for side, size in enumerate(self.example.shape))


def features_subject(guard: ModelJudge, check: Check | None) -> Subject:
    """A graph of features (N, D)."""
    sets, real = dict(made_rows(guard)), real_rows(guard, check)
    if real is not None:
        sets[REAL] = real
    cases = _judged(guard, sets)
    return Subject(FEATURES, graph_of(guard, None), sets["random"][:2], (0,), cases)


def images_subject(guard: ModelJudge, check: Check | None, *, inside: bool) -> Subject:
    """A graph of prepared images, or of pictures, with the preprocessing ``inside`` where it can be."""
    capture = guard._own_capture(_model_of(guard))
    pictures, images = real_pictures(guard, check), real_images(check)
    preprocessing = preprocessing_of(guard, inside=inside)
    pixels = preprocessing.pixels if preprocessing.inside else None
    if pictures:
        images = _prepared(guard.loaded, pictures)
    sets = dict(made_images(_input_shape(guard, images)))
    if images is not None:
        sets[REAL] = images
    cases = _judged(guard, sets)
    assert guard._capture is not None
    capture = guard._capture
    if pixels is None:
        return Subject(IMAGES, graph_of(guard, capture), sets["random"][:2], (0,), cases, preprocessing)
    return _pictures_subject(guard, capture, pixels, pictures, preprocessing)


def _pictures_subject(
    guard: ModelJudge,
    capture: Capture,
    pixels: Pixels,
    real: Sequence[Image.Image],
    preprocessing: Preprocessing,
) -> Subject:
    sets = dict(made_pictures(pixels.resize or pixels.size))
    exact = sets.pop(next(iter(sets)))
    cases = [Case("random", exact, _verdicts(guard, _prepared(guard.loaded, _as_pictures(exact))))]
    loose = {name: _as_pictures(made) for name, made in sets.items()} | ({REAL: list(real)} if real else {})
    for name, pictures in loose.items():
        cases.append(Case(name, pictures, _verdicts(guard, _prepared(guard.loaded, pictures))))
    graph = graph_of(guard, capture, PixelGraph(pixels))
    example = torch.zeros(2, 301, 451, 3, dtype=torch.uint8)
    return Subject(PICTURES, graph, example, (0, 1, 2), tuple(cases), preprocessing)


def preprocessing_of(guard: ModelJudge, *, inside: bool) -> Preprocessing:
    """What is known of the way from pictures to images, and whether it can be in the graph."""
    loaded = guard.loaded
    orientation = None if guard.provenance is None else guard.provenance.orientation
    if loaded is None:
        unknown = "the guard has its model in memory, and not what prepares pictures for it"
        return Preprocessing(False, None, None, orientation, unknown)
    pixels = known_pixels(loaded)
    reason = why_outside(pixels)
    note = reason if inside and reason is not None else None
    return Preprocessing(inside and reason is None, pixels, loaded.preprocess_id, orientation, note)


def known_pixels(loaded: LoadedModel) -> Pixels | None:
    """A model's preprocessing in numbers, if these do exactly what it does."""
    pixels = loaded.preprocess if isinstance(loaded.preprocess, Pixels) else loaded.pixels
    if pixels is None or isinstance(loaded.preprocess, Pixels):
        return pixels
    made = [picture for sizes in made_pictures(pixels.size).values() for picture in _as_pictures(sizes)[:1]]
    same = all(torch.equal(pixels(picture), loaded.preprocess(picture)) for picture in made)
    return pixels if same else None


def _model_of(guard: ModelJudge) -> torch.nn.Module:
    model = guard.model
    assert model is not None
    home = next(model.parameters(), None)
    if home is not None and (home.dtype != torch.float32 or home.device.type != "cpu"):
        raise ExportError(
            f"the guard's model is of {home.dtype} on {home.device}: graphs are recorded and compared in "
            "float32 on the CPU. Move it there, and fit the guard on it as it is then"
        )
    return model


def _input_shape(guard: ModelJudge, images: Tensor | None) -> tuple[int, int, int]:
    if images is not None:
        channels, height, width = images.shape[1:]
        return channels, height, width
    if guard.loaded is None:
        raise InputError(
            "the size of the images is not known of a model in memory: pass check=, a batch of prepared "
            "images (N, channels, height, width) as the model takes them"
        )
    channels, height, width = guard.loaded.input_shape
    return channels, height, width


def _prepared(loaded: LoadedModel | None, pictures: Sequence[Image.Image]) -> Tensor:
    if loaded is None:
        raise InputError(
            "the guard cannot prepare pictures: attach(model, preprocess=…), or pass prepared images as "
            "check="
        )
    return torch.stack([loaded.preprocess(picture) for picture in pictures])


def _as_pictures(pictures: Tensor) -> list[Image.Image]:
    return [Image.fromarray(pixels) for pixels in pictures.numpy()]


def _judged(guard: ModelJudge, sets: Mapping[str, Tensor]) -> tuple[Case, ...]:
    return tuple(Case(name, inputs, _verdicts(guard, inputs)) for name, inputs in sets.items())


def _verdicts(guard: ModelJudge, inputs: Tensor) -> Verdicts:
    """What PyTorch says; of inputs that are not finite, that they are unscorable.

    A model may swallow them (tanh ∞ = 1), but a graph flags them all.
    """
    said = guard.verdicts(inputs, unscorable=FLAG)
    lost = ~torch.isfinite(inputs).flatten(1).all(dim=1)
    columns = zip(said, (NO_CLASS, torch.nan, torch.nan, True), strict=True)
    return Verdicts(*(torch.as_tensor(column).masked_fill(lost, value) for column, value in columns))


def subject_of(
    guard: ModelJudge,
    *,
    takes: str | None = None,
    with_preprocessing: bool = False,
    check: Check | None = None,
    model: str | None = None,
    weights: str | Path | None = None,
) -> Subject:
    """The graph that is asked for; by default of images, where the guard has or knows its model."""
    has_model = guard.model is not None or guard.provenance is not None
    takes = takes or (IMAGES if has_model else FEATURES)
    if takes not in (FEATURES, IMAGES):
        raise InputError(f"a graph takes {FEATURES} or {IMAGES}, got {takes!r}")
    if takes == FEATURES:
        if with_preprocessing:
            raise InputError(
                "preprocessing is of pictures, and the graph takes features: leave one of them out"
            )
        return features_subject(guard, check)
    if guard.model is None:
        guard._own_model(model, weights)
    if guard.loaded is not None:
        guard.loaded.require_pictures("a graph of images (--from features makes one without the model)")
    return images_subject(guard, check, inside=with_preprocessing)
