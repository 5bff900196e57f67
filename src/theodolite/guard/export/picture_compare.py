"""A graph with the preprocessing inside, beside Pillow: the levels of pixels, then the verdicts.

The graph resizes bytes as Pillow does, in arithmetic of its own. A level of 255 here and there moves a score
by far more than rounding does; how far is measured and recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from ...core.errors import ExportError
from ..calibration import Calibration
from ..verdicts import Verdicts
from .compare import Array, Runner, columns_differ
from .graph import LOGITS
from .pixels import PixelGraph
from .record import Compared

Levels: TypeAlias = Callable[[Array], Array]
# By how many levels of 255 a resized pixel may differ from Pillow's, a score by how much of itself.
LEVELS, SCORES = 2, 1e-2


class LevelGraph(nn.Module):
    """The bytes of `PixelGraph` before they are scaled."""

    def __init__(self, pixels: PixelGraph) -> None:
        super().__init__()
        self.pixels = pixels

    def forward(self, pictures: Tensor) -> Tensor:
        return self.pixels.levels(pictures)


def compare_levels(pixels: PixelGraph, levels: Levels, pictures: Sequence[Image.Image]) -> str:
    """How far resized pixels are from Pillow's, in words; an `ExportError` where it is too far."""
    worst, other, count = 0, 0, 0
    mode = "L" if len(pixels.recipe.mean) == 1 else "RGB"
    for picture in pictures:
        right = np.asarray(pixels.recipe.fitted(picture.convert(mode)), dtype=np.int64)
        found = levels(as_bytes(picture))[0].astype(np.int64).transpose(1, 2, 0)
        apart = np.abs(found - right.reshape(found.shape))
        worst, other, count = max(worst, int(apart.max())), other + int((apart > 0).sum()), count + apart.size
    if worst > LEVELS:
        raise ExportError(
            f"resized inside the graph, pixels differ from Pillow's by up to {worst} levels of 255, at most "
            f"{LEVELS} are allowed: leave out --with-preprocessing. Nothing was written"
        )
    share = 100 * other / max(1, count)
    return (
        f"resized pixels differ from Pillow's by at most {worst} of 255 levels, {share:.2g} % of them at all"
    )


def compare_pictures(
    name: str, run: Runner, pictures: Sequence[Image.Image], expected: Verdicts, calibration: Calibration
) -> Compared:
    """Verdicts on pictures of any size: the same class and verdict, a score within a hundredth."""
    parts = [run(as_bytes(picture), None) for picture in pictures]
    found = {column: np.concatenate([part[column] for part in parts]) for column in parts[0]}
    right = {column: torch.as_tensor(values).numpy() for column, values in expected._asdict().items()}
    usual = float(np.median(np.abs(calibration.scores)))
    apart = np.abs(found["score"] - right["score"]) / np.maximum(np.abs(right["score"]), usual)
    rank = [
        calibration.standing(torch.from_numpy(one["score"]), torch.from_numpy(one["predicted"])).rank.numpy()
        for one in (found, right)
    ]
    moved, changed = np.abs(rank[0] - rank[1]), found["is_ood"] != right["is_ood"]
    other = found["predicted"] != right["predicted"]
    for row in range(len(apart)):
        tied = other[row] and LOGITS in found and _near(found[LOGITS][row], int(right["predicted"][row]))
        if (other[row] and not tied) or apart[row] > SCORES or (changed[row] and moved[row] > 1):
            raise ExportError(columns_differ(name, "a picture's verdict", row, found, right))
    return Compared(
        name, len(apart), float(apart.max()), int(moved.max()), int(changed.sum()), int(other.sum())
    )


def as_bytes(picture: Image.Image) -> Array:
    """(1, H, W, 3), as the graph takes it."""
    return np.asarray(picture.convert("RGB"))[None].copy()


def _near(logits: Array, label: int) -> bool:
    return bool(logits.max() - logits[label] <= SCORES * np.abs(logits).max())
