"""What a guard can be shown beside features: pictures, and images as its model takes them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import torch
from PIL.Image import Image
from torch import Tensor, nn

from ..core.errors import InputError, TheodoliteWarning
from ..data.orientation import orientation, upright
from ..data.sample import plain
from ..models import LoadedModel

_NAMED = 3


def prepared(loaded: LoadedModel | None, pictures: Sequence[Image], *, turn: bool = False) -> Tensor:
    """A batch (N, channels, height, width) of PIL pictures of any mode; ``turn`` makes them upright."""
    if loaded is None:
        raise InputError("the guard cannot prepare pictures yet: attach(load_model(spec)) first")
    if not pictures:
        raise InputError("inputs is an empty list: pass at least one picture")
    for picture in pictures:
        if not hasattr(picture, "convert"):
            raise InputError(
                f"inputs hold a {type(picture).__name__}, expected PIL pictures: Image.open(path)"
            )
    plain_ones = [plain(picture) for picture in pictures]
    tilted = [f"inputs[{index}]" for index, one in enumerate(plain_ones) if orientation(one) != 1]
    if tilted and not turn:
        warn_tilted(tilted)
    return torch.stack([loaded.preprocess(upright(one) if turn else one) for one in plain_ones])


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


def images_for(model: nn.Module | None, images: Tensor, width: int) -> tuple[nn.Module, Tensor]:
    """A model and a batch of images in its precision, on its device; refused without a model or a batch."""
    if images.ndim == 3:
        raise InputError(
            f"inputs have shape {tuple(images.shape)}, expected a batch (N, channels, height, width): "
            f"one image is inputs[None]"
        )
    if model is None:
        raise InputError(
            f"inputs have shape {tuple(images.shape)}: the guard has no model to turn images into "
            f"features; pass features (N, {width}), or attach(load_model(spec)) first"
        )
    home = next(model.parameters(), images)
    dtype = home.dtype if images.is_floating_point() else images.dtype
    return model, images.to(home.device, dtype)
