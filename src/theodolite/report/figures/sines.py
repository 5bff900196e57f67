"""The law of sines behind ORA and fDBD, sin θ / sin α = d / ‖z − μ‖: each part of it as a score."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from matplotlib.figure import Figure
from torch import Tensor

from ...benchmarks.feature_sets import TEST
from ...core.arrays import Array, FloatArray, as_scores, as_tensor
from ...detectors.ora import Sighting
from ...evaluation import Evaluation
from ...geometry.triangle import sine_alpha
from .histograms import score_histograms

NAMES = ("sin α", "sin θ", "sin θ / sin α")


class Sines(NamedTuple):
    """A row's deciding triangle: α at the projection, θ at the centre, and the ratio of their sines."""

    alpha: FloatArray
    theta: FloatArray
    ratio: FloatArray


def sines(sighting: Sighting[Tensor] | Sighting[Array]) -> Sines:
    """The sines of the triangles that `ORA.sight` saw; the ratio is d / ‖z − μ‖, 0 where z = μ."""
    angle, distance, centre_distance, height = (
        as_tensor(side, "sighting").double()
        for side in (sighting.angle, sighting.distance, sighting.centre_distance, sighting.height)
    )
    to_feature = torch.hypot(height, distance - centre_distance)
    ratio = torch.where(to_feature > 0, distance / to_feature, torch.zeros_like(distance))
    parts = (sine_alpha(height, centre_distance), angle.sin(), ratio)
    return Sines(*(as_scores(part, "sines") for part in parts))


def sine_evaluation(
    id_sighting: Sighting[Tensor] | Sighting[Array],
    ood_sightings: Mapping[str, Sighting[Tensor] | Sighting[Array]],
) -> Evaluation:
    """The three quantities as if each were a score, higher = ID."""
    parts = {name: sines(seen) for name, seen in {TEST: id_sighting, **ood_sightings}.items()}
    return Evaluation.of(
        {
            name: {data_set: values[place] for data_set, values in parts.items()}
            for place, name in enumerate(NAMES)
        },
        known=TEST,
    )


def sine_histograms(
    id_sighting: Sighting[Tensor] | Sighting[Array],
    ood_sightings: Mapping[str, Sighting[Tensor] | Sighting[Array]],
    *,
    title: str,
) -> Figure:
    """The paper's figure: rows sin α, sin θ and their ratio, a column an OOD set."""
    return score_histograms(sine_evaluation(id_sighting, ood_sightings), title=title)
