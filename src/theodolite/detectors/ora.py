"""ORA: OOD detection with relative angles (Demirel, Fumero, Locatello 2025).

    s(z) = max_{c ≠ p} θ_{p,c}(z),   θ = angle at μ between z and its projection on the boundary of p and c

with p the predicted class and μ the mean of the ID features. ID features stand deep in their class, far from
every boundary as seen from the station μ; OOD features carry no strong evidence, and a small turn reaches a
boundary. Free of hyper-parameters, and unchanged when the features are scaled.

Where it fails: with few classes a row that fits none is still far from some boundary, and the maximum takes
that one: compare ``aggregate="mean"`` there (results.md, max or mean).

Cost for N rows: the logits (skipped when given), then, in blocks, a dozen passes over N×C and four over N×D.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Generic, NamedTuple

import torch
from torch import Tensor

from ..core.arrays import AnyArray, ArrayLike, like
from ..core.errors import InputError
from ..core.graphs import fixed, recording
from ..core.plain import JsonValue
from ..geometry.aggregation import (
    FEW_CLASSES,
    aggregate_angles,
    check_aggregation,
    chosen_aggregate,
    class_reliability,
    weight_needs,
)
from ..geometry.boundaries import Boundaries, Margins
from ..geometry.centres import Stand, Stations, centre_needs, centre_points, check_centre
from ..geometry.triangle import Triangle, sphere_triangle, triangle
from ..reference.reference import Reference
from ..reference.statistics import Needs
from ._measured import Measured
from ._precision import unresolved
from ._registry import register
from .shaping import Shaping

# A row is worked again in float64 where float32 has too few digits for it. With ρ = ‖z‖·max‖w‖ + max|b|, the
# scale that logits are rounded at: all margins of the row are below this share of ρ, …
_MARGIN_SHARE = 2.0**-10
# … or z − μ is so nearly along a boundary's normal that h² = ‖z − μ‖² − a² cancels, …
_HEIGHT_SHARE = 0.25
# … or ρ/n, the scale of a distance's rounding, is this many times ‖z − μ‖ for some boundary.
_BLUR_LIMIT = 16.0

# Logits are made for so many times the rows of an ordinary tile, and worked on in blocks of so many entries:
# a product of 1,024 rows takes a tenth longer a row than one of 4,096, and what follows stays in the cache.
_TILE_GROWTH = 4
_BLOCK_ENTRIES = 2**18


class Sighting(NamedTuple, Generic[AnyArray]):
    """The triangle that decides a row's score. Seen from the centre the feature stands at
    (distance − centre_distance, height) and its projection at (−centre_distance, height).

    >>> means, labels = 4 * np.eye(3, 8), np.arange(150) % 3
    >>> train = means[labels] + np.random.default_rng(0).normal(size=(150, 8))
    >>> sighting = th.ORA().fit(train, head=th.Head(means)).sight(train[:2])
    >>> sighting.predicted
    array([0, 1])
    """

    predicted: AnyArray
    furthest: AnyArray
    angle: AnyArray
    distance: AnyArray
    centre_distance: AnyArray
    height: AnyArray


@register(
    "ora",
    title="ORA",
    paper="Demirel et al., Out-of-Distribution Detection with Relative Angles",
    year=2025,
    formula="max_c θ_pc(z), the angle at the ID mean between z and its projection on the boundary p|c",
    aliases=("relative-angles",),
)
class ORA(Measured):
    """The largest relative angle, with the paper's ablations as options.

    centre: the station the angles are seen from. ``"mean"`` (the paper's choice); ``"balanced"``, the mean of
        the class means, in which each class counts the same (the authors' code); ``"predicted"`` or
        ``"target"``, the mean of the predicted class or of the class across the boundary; an ``int`` k, the
        mean of class k; ``"max"``, ``"min"``, ``"median"``, element-wise; ``"sum-classes"``, the sum of the
        scores from every class mean (C times the cost); ``"sum-extremes"``, from max, min and median.
    aggregate: over the other classes, ``"max"`` (the paper's choice), ``"mean"``, ``"rms"`` or ``"min"``; or
        ``"auto"``, the mean below 100 classes and the maximum from there on.
    metric: ``"euclidean"`` (the paper's choice), or ``"mahalanobis"``, the triangle measured in the metric of
        the ID features' covariance (one more product with a D×D factor), shrunk by ``shrinkage``.
    class_weights: emphasise reliable classes, by ``"variance"`` (inverse, of the class's ID features) or
        ``"accuracy"`` (of the head on the class's ID samples): in the mean or rms over the boundaries, or
        over the centres of ``"sum-classes"``.
    project_to_sphere: cosine heads only; put the projection back on the sphere, as the authors' code does.

    >>> means, labels = 4 * np.eye(3, 8), np.arange(150) % 3
    >>> train = means[labels] + np.random.default_rng(0).normal(size=(150, 8))
    >>> detector = th.ORA(aggregate="mean").fit(train, labels, head=th.Head(means))
    >>> known, strange = detector.score(np.stack([means[0], np.ones(8)]))
    >>> bool(known > strange)
    True
    """

    centres: Tensor
    weights: Tensor

    def __init__(
        self,
        *,
        centre: str | int = "mean",
        aggregate: str = "max",
        metric: str = "euclidean",
        shrinkage: str = "oas",
        class_weights: str | None = None,
        project_to_sphere: bool = False,
        shaping: Shaping | str | None = None,
    ) -> None:
        super().__init__(metric=metric, shrinkage=shrinkage, shaping=shaping)
        if project_to_sphere and metric != "euclidean":
            raise InputError("project_to_sphere speaks of the Euclidean unit sphere: use metric='euclidean'")
        self.centre = check_centre(centre)
        self.aggregate = aggregate
        check_aggregation(aggregate, class_weights, several_centres=centre == "sum-classes")
        self.class_weights = class_weights
        self.project_to_sphere = project_to_sphere

    @property
    def needs(self) -> Needs:
        return super().needs | centre_needs(self.centre) | weight_needs(self.class_weights)

    def _fit(self, reference: Reference) -> None:
        assert reference.head is not None
        if self.project_to_sphere and not reference.head.unit_features:
            raise InputError("project_to_sphere needs a cosine head: Head.cosine(text_embeddings)")
        super()._fit(reference)
        self.register_buffer("centres", centre_points(self.centre, reference))
        if self.class_weights is not None:
            self.register_buffer("weights", class_reliability(self.class_weights, reference))

    def _build(self) -> None:
        super()._build()
        assert self.head is not None
        self._reduction = chosen_aggregate(self.aggregate, self.head.classes)
        self._boundaries = Boundaries(self.head, self._metric)
        self._stations = Stations(self.centre, self.centres, self.head, self._metric)
        self._weight_scale = float(torch.linalg.vector_norm(self.head.weight, dim=1).max())
        self._bias_scale = float(self.head.bias.abs().max())
        self._centre_length = float(torch.linalg.vector_norm(self.centres.double(), dim=1).max())

    def _tile_rows(self, device: torch.device) -> int:
        """A larger product runs faster; where the tile is a copy of the features it stays small."""
        rows = super()._tile_rows(device)
        copied = self.shaping is not None or (self.head is not None and self.head.unit_features)
        return rows if copied or self._metric is not None else _TILE_GROWTH * rows

    def _notices(self, tile: Tensor) -> bool:
        """Such a row is faint: its norm, its margins or its heights are not finite numbers."""
        return tile.dtype != torch.float64 and self.shaping is None

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:
        rows = self._block_rows(features)
        if rows is None or len(features) <= rows:
            seen = self._look(features, logits)
        else:
            blocks = zip(torch.split(features, rows), torch.split(logits, rows), strict=True)
            seen = torch.cat([self._look(*block) for block in blocks], dim=1)
        if features.dtype == torch.float64:
            return seen[0]
        score, *clues = seen.unbind()
        return unresolved(score, self._too_faint(features, *clues))

    def _block_rows(self, features: Tensor) -> int | None:
        """Rows worked at once; None for all of them."""
        if recording() or self._metric is not None or features.device.type != "cpu":
            return None
        columns = max(1 if self.head is None else self.head.classes, features.shape[1] // 2)
        return max(1, _BLOCK_ENTRIES // columns)

    def _look(self, features: Tensor, logits: Tensor) -> Tensor:
        """Scores of a block, and what tells whether float32 could resolve them, as (5, n)."""
        margins = self._boundaries.margins(logits)
        scores, lowest, nearest = [], [], []
        for station, stand in enumerate(self._stations.stands(features, margins)):
            seen = self._triangle(margins, stand)
            weights = None if self._weighs_centres or self.class_weights is None else self.weights
            score = aggregate_angles(seen, margins, self._reduction, weights)
            scores.append(score * self.weights[station].to(score) if self._weighs_centres else score)
            norm = stand.squared_norm.sqrt()
            near, far = (norm[:, 0],) * 2 if fixed(norm.shape[1]) == 1 else torch.aminmax(norm, dim=1)
            lowest.append(seen.height.amin(dim=1) / far)
            nearest.append(near)
        if len(scores) > 1:
            scores = [torch.stack(scores).sum(dim=0)]
            lowest, nearest = [torch.stack(lowest).amin(dim=0)], [torch.stack(nearest).amin(dim=0)]
        return torch.stack([*scores, *lowest, *nearest, margins.widest[:, 0], margins.steepest])

    def _triangle(self, margins: Margins, stand: Stand) -> Triangle:
        if not self.project_to_sphere:
            return triangle(margins.distance, stand.centre_distance, stand.squared_norm)
        cosine = (1 + stand.centre_square - stand.squared_norm) / 2  # ⟨μ, z⟩, for ‖z‖ = 1
        return sphere_triangle(margins.distance, stand.centre_distance, stand.squared_norm, cosine)

    @property
    def _weighs_centres(self) -> bool:
        return self.class_weights is not None and self.centre == "sum-classes"

    def _too_faint(
        self, features: Tensor, lowest: Tensor, nearest: Tensor, widest: Tensor, steepest: Tensor
    ) -> Tensor:
        """Rows that float32 cannot resolve (or that overflowed in it, or are no numbers).

        By row: the least height over the distance from the centre, that distance, the widest margin and the
        largest reciprocal length. ‖z‖ is at most ‖z − μ‖ + ‖μ‖, which saves a pass over the features.
        """
        if self.project_to_sphere:
            return torch.ones_like(widest, dtype=torch.bool)
        euclidean = self._metric is None
        size = nearest if euclidean else torch.linalg.vector_norm(features, dim=1)
        rest = self._bias_scale + (self._weight_scale * self._centre_length if euclidean else 0.0)
        rounding = size * self._weight_scale + rest
        clear = widest > _MARGIN_SHARE * rounding
        sharp = rounding * steepest <= _BLUR_LIMIT * nearest
        return torch.logical_not(clear & (lowest >= _HEIGHT_SHARE) & sharp)

    @classmethod
    def caution(cls, options: Mapping[str, JsonValue], classes: int) -> str | None:
        """With few classes the maximum hardly tells ID from OOD; the mean does."""
        if options.get("aggregate") != "max" or classes >= FEW_CLASSES:
            return None
        return (
            f"ORA takes the largest angle, as in the paper; with {classes} classes it can fail where the "
            f"mean does not: compare ora?aggregate=mean"
        )

    # ------------------------------------------------------------------ a closer look

    @property
    def decided_by_one(self) -> bool:
        """Whether one boundary, the furthest by angle, decides the score."""
        return self._reduction == "max"

    def angles(self, features: AnyArray) -> AnyArray:
        """All relative angles (N, C) in radians; 0 at the predicted class and where there is no boundary."""
        parts = [self._single(tile)[2].angles().to(tile.dtype) for tile in self._views(features)]
        return like(torch.cat(parts), features)

    def sight(self, features: AnyArray) -> Sighting[AnyArray]:
        """The deciding triangle of each row: which boundary is furthest, and where everything stands."""
        columns: list[tuple[Tensor, ...]] = []
        for tile in self._views(features):
            margins, stand, seen = self._single(tile)
            angles = seen.angles()
            furthest = angles.argmax(dim=1, keepdim=True)
            sides = (angles, margins.distance, stand.centre_distance, seen.height)
            chosen = [side.gather(1, furthest)[:, 0].to(tile.dtype) for side in sides]
            columns.append((margins.predicted, furthest[:, 0], *chosen))
        return Sighting(*(like(torch.cat(column), features) for column in zip(*columns, strict=True)))

    def _views(self, features: ArrayLike) -> Iterator[Tensor]:
        """Checked features as the score sees them, some at a time."""
        rows = self._checked(features)
        self._require_finite(rows)
        return (self._view(tile) for _, tile, _ in self._tiles(rows, None))

    def _single(self, tile: Tensor) -> tuple[Margins, Stand, Triangle]:
        """The view from a detector's only centre, in float64."""
        if str(self.centre).startswith("sum"):
            raise InputError(f"centre={self.centre!r} sums over several centres: look from one at a time")
        exact = tile.double()
        margins = self._boundaries.margins(self._logits(exact))
        (stand,) = self._stations.stands(exact, margins)
        return margins, stand, self._triangle(margins, stand)
