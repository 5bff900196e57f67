"""The triangle of a typical sample: the one with the median score, not a hand-picked one."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import torch
from torch import Tensor

from ...core.arrays import as_scores
from ...detectors import ORA
from .triangle import TriangleView


def median_view(
    ora: ORA,
    batches: Iterable[tuple[Tensor, Tensor | None, Tensor | None]],
    title: Callable[[int, int], str],
    images: Tensor | None = None,
) -> TriangleView:
    """Its deciding triangle; ``title`` gets the predicted class and that of the furthest boundary.

    ``images`` (N, 1, height, width), where given, are the samples' pictures in [0, 1].
    """
    features = torch.cat([batch for batch, _, _ in batches])
    scores = as_scores(ora.score(features), "scores")
    middle = int(np.argsort(scores, kind="stable")[len(scores) // 2])
    seen = ora.sight(features[middle : middle + 1])
    return TriangleView(
        title=title(int(seen.predicted[0]), int(seen.furthest[0])),
        angle=float(seen.angle[0]),
        distance=float(seen.distance[0]),
        centre_distance=float(seen.centre_distance[0]),
        height=float(seen.height[0]),
        image=None if images is None else images[middle, 0].numpy(),
    )
