"""What a guard can be shown beside features: pictures or texts, and batches as its model takes them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL.Image import Image
from torch import Tensor, nn

from ..core.batches import Inputs, described, moved
from ..core.errors import InputError, TheodoliteError, TheodoliteWarning
from ..data.orientation import orientation, upright
from ..data.sample import PICTURES, plain
from ..features.loading import warn_cut
from ..models import LoadedModel

_NAMED = 3


def prepared(loaded: LoadedModel | None, samples: Sequence[object], *, turn: bool = False) -> Inputs:
    """A batch as a model takes it of PIL pictures of any mode, which ``turn`` makes upright; or of texts."""
    if loaded is None:
        raise InputError("the guard cannot prepare pictures yet: attach(load_model(spec)) first")
    if not samples:
        raise InputError("inputs is an empty list: pass at least one sample")
    if loaded.takes == PICTURES:
        return loaded.together([loaded.preprocess(picture) for picture in _pictures(samples, turn=turn)])
    ready = [_sample(loaded, sample, f"inputs[{index}]") for index, sample in enumerate(samples)]
    warn_cut(sum(getattr(one, "cut", False) for one in ready), len(ready), "inputs")
    return loaded.together(ready)


def _sample(loaded: LoadedModel, sample: object, name: str) -> object:
    """One sample that is no picture, prepared; ``name`` is what an error calls it."""
    try:
        return loaded.preprocess(sample)
    except TheodoliteError as error:
        raise InputError(f"{name}: {error}") from error
    except Exception as error:
        raise InputError(
            f"the preprocessing of {loaded.spec} fails on {name}: {type(error).__name__}: {error}"
        ) from error


def _pictures(pictures: Sequence[Any], *, turn: bool) -> list[Image]:
    for picture in pictures:
        if not hasattr(picture, "convert"):
            raise InputError(
                f"inputs hold a {type(picture).__name__}, expected PIL pictures: Image.open(path)"
            )
    plain_ones = [plain(picture) for picture in pictures]
    tilted = [f"inputs[{index}]" for index, one in enumerate(plain_ones) if orientation(one) != 1]
    if tilted and not turn:
        warn_tilted(tilted)
    return [upright(one) if turn else one for one in plain_ones]


def warn_tilted(names: Sequence[str]) -> None:
    """Say that pictures were judged as they are stored, which is not how they are meant to be seen."""
    more = ", …" if len(names) > _NAMED else ""
    warnings.warn(
        f"{len(names):,} of the pictures are to be turned as their EXIF orientation says "
        f"({', '.join(names[:_NAMED])}{more}), and were judged as they are stored: the guard was fitted on "
        f"pictures as stored, as version 0.1.0 read them, or does not know. Remedy: fit it again from the "
        f"pictures, or turn these first (PIL.ImageOps.exif_transpose)",
        TheodoliteWarning,
        stacklevel=2,
    )


def images_for(model: nn.Module | None, images: Inputs, width: int) -> tuple[nn.Module, Inputs]:
    """A model and a batch in its precision, on its device; refused without a model or a batch."""
    if isinstance(images, Tensor) and images.ndim == 3:
        raise InputError(
            f"inputs have shape {tuple(images.shape)}, expected a batch (N, channels, height, width): "
            f"one image is inputs[None]. A model that takes tensors of this shape gets them as (inputs,)"
        )
    if model is None:
        what = "images" if isinstance(images, Tensor) else "them"
        raise InputError(
            f"inputs are {described(images)}: the guard has no model to turn {what} into features; pass "
            f"features (N, {width}), or attach(load_model(spec)) first"
        )
    home = next(model.parameters(), None)
    return model, images if home is None else moved(images, home)


def look_at_matrix(model: nn.Module | None, rows: Tensor, width: int) -> None:
    """A matrix is taken for features. Where it fits the first layer of a model that takes rows of a table, it
    is refused if it cannot be features, and there is a warning if it can be either.
    """
    if model is None:
        return
    layers = [layer for layer in model.modules() if next(layer.parameters(recurse=False), None) is not None]
    if len(layers) < 2 or not isinstance(layers[0], nn.Linear) or layers[0].in_features != rows.shape[1]:
        return
    if rows.shape[1] != width:
        raise InputError(
            f"inputs are a matrix of width {rows.shape[1]}, and a matrix is taken for features, of width "
            f"{width}: inputs of the model are passed as (inputs,)"
        )
    warnings.warn(
        f"inputs are a matrix of width {width}, which the model takes as its input as well: it is taken for "
        f"features. If it is inputs, the verdicts are wrong: pass (inputs,)",
        TheodoliteWarning,
        stacklevel=4,
    )


def require_samples(loaded: LoadedModel | None, inputs: object) -> None:
    """Refuse a single text, or an array of texts, with what to pass instead."""
    expected = f"expected a list of {PICTURES if loaded is None else loaded.takes}, or features"
    if isinstance(inputs, str | bytes):
        raise InputError(
            f"inputs are a {type(inputs).__name__}, {expected}: [text] for one text, score_paths([path]) for "
            f"what lies at a path"
        )
    if isinstance(inputs, np.ndarray) and inputs.dtype.kind in "USO":
        raise InputError(f"inputs are an array of dtype {inputs.dtype}, {expected}: inputs.tolist()")


def refused_by_model(loaded: LoadedModel | None, inputs: Inputs, error: Exception) -> InputError:
    """What to say of a batch that a model does not take."""
    takes = "" if loaded is None else f" ({loaded.spec} takes {loaded.takes})"
    return InputError(
        f"inputs are {described(inputs)}, which the model does not take{takes}: {type(error).__name__}: "
        f"{error}"
    )
