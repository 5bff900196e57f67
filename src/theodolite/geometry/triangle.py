"""The triangle of ORA in closed form: pure functions on tensors, no projection ever materialised.

For a feature z with predicted class p, another class c and a centre μ, all that matters lies in the
plane spanned by the boundary's normal and the part of z − μ within the boundary. With n = ‖w_p − w_c‖

    d = (l_p(z) − l_c(z)) / n       signed distance of z to the boundary (≥ 0: p is predicted)
    e = (l_p(μ) − l_c(μ)) / n       signed distance of μ to the boundary
    a = d − e                       z − μ along the normal
    h² = ‖z − μ‖² − a²              z − μ within the boundary, squared

Seen from μ the feature stands at (a, h) and its projection at (−e, h). The angle between them is

    θ = atan2(h·d, h² − a·e),   h² − a·e = ‖z − μ‖² − a·d

which stays exact for tiny angles, where the arccos of a cosine near 1 loses every digit.

All functions broadcast; shapes are (N, C) for d and e, (N, 1) or (N, C) for ‖z − μ‖².
A pair of classes with the same weights has no boundary: its reciprocal length is 0, so d = e = 0 and
its angle is 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

# Below this share of ‖w_p‖² + ‖w_c‖² the Gram matrix has lost half of float64's digits to cancellation.
_CANCELLED = 1e-8
_PAIRS_AT_ONCE = 4096
# Of a table of all pairs, entries worked at once: 16 MiB in float64.
_BLOCK_ENTRIES = 2**21


def pairwise_lengths(rows: Tensor) -> Tensor:
    """‖row_i − row_j‖ for all pairs as (C, C) float64, made block by block. O(C²·D) time."""
    lengths = torch.empty(len(rows), len(rows), dtype=torch.float64, device=rows.device)
    for part, block in length_blocks(rows):
        lengths[part] = block
    return lengths


def length_blocks(rows: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """The rows of `pairwise_lengths` from the Gram matrix, some at a time.

    Nearly equal rows, where the Gram matrix cancels, are measured from their difference instead, so that
    duplicates give exactly 0 and near-duplicates keep their digits.
    """
    exact = rows.detach().to(torch.float64)
    squares = exact.square().sum(dim=1)
    step = max(1, _BLOCK_ENTRIES // len(exact))
    for start in range(0, len(exact), step):
        part = slice(start, start + step)
        sums = squares[part, None] + squares
        lengths = torch.addmm(sums, exact[part], exact.T, alpha=-2).clamp_min_(0)
        close = (lengths <= sums.mul_(_CANCELLED)).nonzero()
        for pairs in torch.split(close, _PAIRS_AT_ONCE):
            first, second = pairs.unbind(1)
            lengths[first, second] = (exact[start + first] - exact[second]).square_().sum(dim=1)
        yield part, lengths.sqrt_()


def reciprocal_lengths(lengths: Tensor) -> Tensor:
    """1/n, and 0 where n = 0: the pair that has no boundary drops out of every product."""
    return torch.where(lengths > 0, lengths.reciprocal(), torch.zeros_like(lengths))


def signed_distances(own: Tensor, other: Tensor, reciprocal: Tensor) -> Tensor:
    """(l_p − l_c) / n for logits ``own`` = l_p and ``other`` = l_c."""
    return torch.sub(own, other).mul_(reciprocal)


class Triangle(NamedTuple):
    """What a feature, its projection and the centre form, as seen from the centre.

    ``cross`` and ``dot`` are the products of z − μ and z_db − μ; ``height`` is h, the distance of both from
    the normal through the centre.
    """

    cross: Tensor
    dot: Tensor
    height: Tensor

    def angles(self) -> Tensor:
        """θ in radians, in [0, π]."""
        return torch.atan2(self.cross, self.dot)

    def largest_angle(self) -> Tensor:
        """max_c θ as (N,): compares cotangents, which fall as θ grows, and takes one atan2 a row.

        Where the feature or its projection falls on the centre the pair has no angle, and its cotangent is
        0/0. In float64 it is left out; in float32 the row's result is NaN, for whoever looks again.
        """
        cotangents = self.dot / self.cross
        if cotangents.dtype == torch.float64:
            cotangents = cotangents.nan_to_num(nan=torch.inf, posinf=torch.inf, neginf=-torch.inf)
        smallest = cotangents.amin(dim=1)
        return torch.atan2(torch.ones_like(smallest), smallest)


def triangle(distance: Tensor, centre_distance: Tensor, squared_norm: Tensor) -> Triangle:
    """The triangle (μ, z, z_db) from d, e and ‖z − μ‖²."""
    along = distance - centre_distance
    dot = torch.addcmul(squared_norm, along, distance, value=-1)
    within = torch.addcmul(squared_norm, along, along, value=-1).clamp_min_(0)
    height = within.sqrt_()
    return Triangle(height * distance, dot, height)


def sphere_triangle(
    distance: Tensor, centre_distance: Tensor, squared_norm: Tensor, centre_cosine: Tensor
) -> Triangle:
    """The same triangle when the projection of a unit feature is put back on the unit sphere.

    The boundary passes through the origin, so ‖z_db‖² = 1 − d². With δ = z_db/‖z_db‖ − z the products follow
    from ‖δ‖², ⟨z, δ⟩ = −‖δ‖²/2 and ⟨μ, δ⟩, each written without subtracting nearly equal numbers;
    ``centre_cosine`` is ⟨μ, z⟩.
    """
    square = distance.square().clamp_max_(1)
    shrink = (1 - square).sqrt_().clamp_min_(torch.finfo(distance.dtype).eps)
    growth = square / ((1 + shrink) * shrink)  # 1/‖z_db‖ − 1
    chord = 2 * square / (1 + shrink)  # ‖δ‖²
    centre_part = growth * centre_cosine - (1 + growth) * distance * centre_distance  # ⟨μ, δ⟩
    along = -chord / 2 - centre_part  # ⟨z − μ, δ⟩
    cross = (squared_norm * chord - along.square()).clamp_min_(0).sqrt_()
    return Triangle(cross, squared_norm + along, cross)


def sine_alpha(height: Tensor, centre_distance: Tensor) -> Tensor:
    """sin α of the law of sines, α the triangle's angle at the projection: h / ‖z_db − μ‖.

    0 where the projection falls on the centre, which leaves no angle there.
    """
    to_projection = torch.hypot(height, centre_distance)
    return torch.where(to_projection > 0, height / to_projection, torch.zeros_like(to_projection))


def distance_ratio(distance: Tensor, squared_norm: Tensor) -> Tensor:
    """fDBD's ratio of two sides, d / ‖z − μ‖ = sin θ / sin α; 0 where z = μ."""
    return over_norm(distance, squared_norm.sqrt())


def over_norm(values: Tensor, norm: Tensor) -> Tensor:
    """values / norm; 0 where the norm is 0, and NaN where it overflowed: a quotient of 0 would hide that.

    NaN in either stays NaN, also over a norm of 0.
    """
    divisor = norm.masked_fill(norm == torch.inf, torch.nan)
    return values / divisor.masked_fill(divisor == 0, torch.inf)


def squared_distances(rows: Tensor, points: Tensor) -> Tensor:
    """‖row − point‖² for all pairs, (N, K), in the precision of ``rows``.

    The Gram form cancels where rows are close to points, so it is worked in float64 about the points' mean.
    """
    shift = points.to(torch.float64).mean(dim=0)
    moved, targets = rows.to(torch.float64) - shift, points.to(torch.float64) - shift
    squares = moved.square().sum(dim=1, keepdim=True) + targets.square().sum(dim=1)
    return squares.addmm_(moved, targets.T, alpha=-2).clamp_min_(0).to(rows.dtype)
