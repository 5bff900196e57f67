"""Centres: the stations the angles are seen from, and how each one sees rows and boundaries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..core.errors import InputError
from ..core.graphs import recording
from ..reference.head import Head
from ..reference.reference import Reference
from ..reference.statistics import Needs
from .boundaries import Margins
from .deviation import away, length
from .inner_product import Mahalanobis
from .triangle import signed_distances, squared_distances

CENTRES = ("mean", "balanced", "predicted", "target", "max", "min", "median", "sum-classes", "sum-extremes")

# Rows of the bank behind an element-wise median: exact up to here, a uniform sample beyond.
MEDIAN_ROWS = 32_768


def check_centre(centre: str | int) -> str | int:
    """``centre`` itself, if it is a name in `CENTRES` or a class number."""
    number = isinstance(centre, int) and not isinstance(centre, bool) and centre >= 0
    if number or centre in CENTRES:
        return centre
    raise InputError(f"centre must be a class number or one of {', '.join(CENTRES)}, got {centre!r}")


def centre_needs(centre: str | int) -> Needs:
    if centre == "mean":
        return Needs(mean=True)
    if centre in ("max", "min"):
        return Needs(extremes=True)
    if centre == "median":
        return Needs(bank=MEDIAN_ROWS)
    if centre == "sum-extremes":
        return Needs(extremes=True, bank=MEDIAN_ROWS)
    return Needs(class_means=True)


def centre_points(centre: str | int, reference: Reference) -> Tensor:
    """The centres as (K, D) float64; a class without samples stands at the mean of all."""
    statistics = reference.statistics
    if centre == "mean":
        return statistics.moments.mean[None]
    if centre in ("max", "min"):
        return (statistics.maximum if centre == "max" else statistics.minimum)[None]
    if centre in ("median", "sum-extremes"):
        bank = statistics.bank.features[:MEDIAN_ROWS].double().numpy()
        median = torch.from_numpy(np.median(bank, axis=0))[None]
        extremes = [statistics.maximum[None].cpu(), statistics.minimum[None].cpu()]
        return median if centre == "median" else torch.cat([*extremes, median])
    moments = statistics.moments
    if centre == "balanced":
        return moments.means[moments.counts > 0].mean(dim=0)[None]
    if not isinstance(centre, int):
        return torch.where(moments.counts[:, None] > 0, moments.means, moments.mean)
    if centre >= len(moments.counts) or not bool(moments.counts[centre] > 0):
        raise InputError(f"centre={centre}, but the labels hold no sample of class {centre}")
    return moments.means[centre][None]


class Stand(NamedTuple):
    """One station's view of a tile of rows."""

    centre_distance: Tensor  # e: signed distance of the centre to each boundary, (n, C)
    squared_norm: Tensor  # ‖z − μ‖², (n, 1), or (n, C) where the centre changes with the class
    centre_square: Tensor  # ‖μ‖², a scalar or of the shape of squared_norm


class Stations:
    """The fitted centres of one detector, with the logits of each."""

    def __init__(
        self, centre: str | int, points: Tensor, head: Head, metric: Mahalanobis | None = None
    ) -> None:
        self.centre = centre
        self.points = points
        self.metric = metric
        self.several = len(points) > 1
        self._first = points[0]
        self.logits = torch.addmm(head.bias.to(points), points, head.weight.to(points).T)
        self.squares = points.square().sum(dim=1)
        self._copies: dict[tuple[torch.dtype, torch.device], tuple[Tensor, Tensor, Tensor]] = {}

    def stands(self, features: Tensor, margins: Margins) -> Iterator[Stand]:
        """The view from each centre in turn: one, but for the sums over several centres."""
        points, logits, squares = self._for(features)
        own = margins.predicted
        if self.centre == "predicted":
            norm = self._squared_norm(features, points.index_select(0, own))
            mine, others = logits.diagonal()[own, None], logits.index_select(0, own)
            yield Stand(signed_distances(mine, others, margins.reciprocal), norm, squares[own, None])
        elif self.centre == "target":
            norm = self._squared_distances(features)
            mine, others = logits.T.index_select(0, own), logits.diagonal()[None]
            yield Stand(signed_distances(mine, others, margins.reciprocal), norm, squares[None])
        else:
            norms = self._squared_norms(features, points)
            for seen, norm, square in zip(logits.unbind(), norms, squares.unbind(), strict=True):
                yield Stand(signed_distances(seen[own, None], seen[None], margins.reciprocal), norm, square)

    def _for(self, features: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Centres, their logits and their squares in the precision and on the device of the features."""
        if recording():
            return self.points.to(features), self.logits.to(features), self.squares.to(features)
        key = (features.dtype, features.device)
        if key not in self._copies:
            self._copies[key] = (
                self.points.to(features),
                self.logits.to(features),
                self.squares.to(features),
            )
        return self._copies[key]

    def _squared_norms(self, features: Tensor, points: Tensor) -> Iterator[Tensor]:
        """‖z − μ_k‖² in the metric from each centre in turn; rows are whitened once for all of them."""
        if self.metric is None:
            return (self._squared_norm(features, point) for point in points.unbind())
        if not self.several:
            apart = self.metric.coordinates(away(features, self._first))
            return iter([length(apart)[:, None].square()])
        return iter(self._squared_distances(features).T[:, :, None].unbind())

    def _squared_norm(self, features: Tensor, centre: Tensor) -> Tensor:
        """‖z − μ‖² in the metric, (n, 1)."""
        apart = torch.sub(features, centre)
        if self.metric is not None:
            apart = self.metric.coordinates(apart)
        norm: Tensor = torch.linalg.vector_norm(apart, dim=1, keepdim=True)
        return norm.square()

    def _squared_distances(self, features: Tensor) -> Tensor:
        """‖z − μ_k‖² in the metric for every centre, (n, K)."""
        if self.metric is None:
            return squared_distances(features, self.points)
        shift = self.points.mean(dim=0)
        rows = self.metric.coordinates(features.to(self.points) - shift)
        return squared_distances(rows, self.metric.coordinates(self.points - shift)).to(features)
