"""Real inputs that a graph is compared on: features or pictures that the caller names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from PIL.Image import Image
from torch import Tensor

from ...core.arrays import Array, as_matrix, as_tensor
from ...core.errors import InputError
from ...data import open_source
from ...data.orientation import upright
from ...data.sample import as_picture, plain
from ...data.sampling import sample_of
from ...features.folders import HOLDS_FEATURES
from ...models import LoadedModel
from ..model_judge import ModelJudge
from ..path_reader import PathReader

# A path to features or pictures, arrays of features or of prepared images, or pictures.
Check: TypeAlias = str | Path | Tensor | Array | Sequence[Image]
_ROWS, _PICTURES = 2_000, 64


def real_rows(guard: ModelJudge, check: Check | None) -> Tensor | None:
    """Features (N, D); of a file or store with more rows a sample."""
    if check is None:
        return None
    if isinstance(check, str | Path):
        reader = PathReader(guard.provenance, _no_model, kind=HOLDS_FEATURES, limit=_ROWS, finite=False)
        reader.knows(guard.width, guard.head, guard.origin)
        reader.accept_code_change = guard.accept_code_change
        parts = [batch.features for batch in reader.read([str(check)]) if batch.features is not None]
        return torch.cat(parts).float()
    if isinstance(check, Tensor | np.ndarray):
        return as_matrix(check, "check", guard.width, f"the guard was fitted on {guard.width}").float()
    raise InputError("check holds pictures, but the graph takes features: pass an array (N, D) or its path")


def real_pictures(guard: ModelJudge, check: Check | None) -> list[Image]:
    """Pictures, upright where the guard's are; of a folder with more a sample. None of an array of images."""
    if isinstance(check, str | Path):
        source = sample_of(open_source(check), _PICTURES)
        pictures = [as_picture(source[index].image) for index in range(len(source))]
    else:
        pictures = list(check) if isinstance(check, list | tuple) else []
    turns = guard.provenance is not None and guard.provenance.turns
    return [upright(plain(picture)) if turns else plain(picture) for picture in pictures]


def real_images(check: Check | None) -> Tensor | None:
    """Prepared images (N, channels, height, width), where the check is an array."""
    if not isinstance(check, Tensor | np.ndarray):
        return None
    images = as_tensor(check, "check").cpu()
    if images.ndim != 4 or len(images) == 0 or not images.is_floating_point():
        raise InputError(
            f"check has shape {tuple(images.shape)} and dtype {images.dtype}, expected prepared images (N, "
            "channels, height, width) of floats, as the model takes them"
        )
    return images.float()


def _no_model() -> LoadedModel:
    raise InputError(
        "check holds pictures, but the graph takes features: name features, or leave out --from features"
    )
