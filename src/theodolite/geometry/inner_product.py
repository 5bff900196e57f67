"""The inner product that lengths and angles are measured with: Euclidean, or the ID data's own.

In the Mahalanobis metric ⟨x, y⟩ = xᵀ Σ⁻¹ y, Σ the total covariance of the ID features, directions in which ID
features vary little count for more. Boundaries stay where they are; of the closed form only two ingredients
change: the length of a boundary's normal, n² = (w_p − w_c)ᵀ Σ (w_p − w_c), and ‖z − μ‖².

Σ is shrunk towards a multiple of the identity by the oracle-approximating formula (OAS, Chen et al. 2010),
which needs only n, tr Σ and tr Σ² and so comes from the mergeable statistics; there is no knob.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..core.alike import ByContent
from ..core.errors import InputError
from ..core.graphs import fixed, recording
from ..core.once import once
from ..reference.head import Head
from .covariance import Axes, not_flat
from .products import laid_out_product, lay_out
from .triangle import length_blocks, pairwise_lengths

# The triangle is cut into so many blocks at most, each of so many rows at least: more save little.
_BLOCKS, _BLOCK_ROWS = 8, 128
# Narrower factors fit into a core's own cache, and are fetched in no time.
_LAID_OUT_FROM = 1024
# As many as a batch in production has.
_USUAL_ROWS = 32

METRICS = ("euclidean", "mahalanobis")
SHRINKAGES = ("oas", "none")


def check_metric(metric: str, shrinkage: str) -> None:
    if metric not in METRICS:
        raise InputError(f"metric must be one of {', '.join(METRICS)}, got {metric!r}")
    if shrinkage not in SHRINKAGES:
        raise InputError(f"shrinkage must be one of {', '.join(SHRINKAGES)}, got {shrinkage!r}")


class Spectrum(NamedTuple):
    """A covariance as variances along directions (D, r), and ``floor``, the variance along all others.

    With floor 0 the other directions are flat: they are left out, as a pseudo-inverse does.
    """

    directions: Tensor
    variances: Tensor
    floor: Tensor


def oas_shrinkage(covariance: Tensor, samples: int) -> float:
    """The weight ρ of the identity in (1 − ρ)Σ + ρ·(tr Σ/D)·I."""
    width = len(covariance)
    scale = float(covariance.diagonal().mean())
    power = float(covariance.square().sum()) / width**2
    denominator = (samples + 1) * (power - scale**2 / width)
    return 1.0 if denominator <= 0 else min(1.0, (power + scale**2) / denominator)


def spectrum(
    covariance: Tensor, samples: int, *, shrinkage: str = "oas", axes: Axes | None = None
) -> Spectrum:
    """The (shrunk) covariance, float64; its ``axes`` where they are known save the O(D³) of finding them."""
    weight = oas_shrinkage(covariance, samples) if shrinkage == "oas" else 0.0
    variances, directions = Axes.of(covariance) if axes is None else axes
    if not bool(variances[-1] > 0):
        raise InputError("features do not vary at all: the Mahalanobis metric needs a covariance")
    kept = not_flat(variances, len(variances))
    floor = weight * covariance.diagonal().mean()
    return Spectrum(directions[:, kept], (1 - weight) * variances[kept] + floor, floor)


class _Factors(NamedTuple):
    """What rows are multiplied with: triangular blocks, or directions and the gain along each of them."""

    blocks: tuple[Tensor, ...]
    directions: Tensor
    gain: Tensor

    def like(self, rows: Tensor) -> _Factors:
        """In the precision and on the device of the rows."""
        blocks = tuple(block.to(rows) for block in self.blocks)
        return _Factors(blocks, self.directions.to(rows), self.gain.to(rows))

    def laid_out(self) -> _Factors:
        """With blocks laid out in advance for products, two in one, where that can be done."""
        pairs = [self.blocks[start : start + 2] for start in range(0, len(self.blocks), 2)]
        wide = bool(pairs) and pairs[0][0].shape[1] >= _LAID_OUT_FROM
        layouts = [lay_out(_joined(pair), _USUAL_ROWS) for pair in pairs] if wide else []
        ready = tuple(block for block in layouts if block is not None)
        return self._replace(blocks=ready) if ready and len(ready) == len(pairs) else self


class Mahalanobis(ByContent):
    """The metric of one covariance, kept in each precision and place it is used in.

    A row's coordinates are such that Euclidean geometry on them is the metric's geometry on the row. They
    cost a product with a triangular (D, D) factor, of which the half that is zero is mostly left out: 9/16 of
    a full product from D = 2,048 on, 5/8 where it is laid out in advance. Where the covariance has rank
    r ≤ D/2 (fewer samples than features), the exact low-rank form costs two products with a (D, r) factor
    instead.
    """

    def __init__(self, spectrum: Spectrum) -> None:
        self.spectrum = spectrum
        directions, variances, floor = spectrum
        width, rank = directions.shape
        self.low_rank = bool(floor > 0) and 2 * rank <= width
        if self.low_rank:
            self._exact = _Factors((), directions, variances.rsqrt() - floor.rsqrt())
        else:
            factor = directions * variances.rsqrt()
            if rank < width and bool(floor > 0):
                # All of the space is needed: fill up with directions of the floor's variance.
                rest = torch.linalg.qr(directions, mode="complete").Q[:, rank:]
                factor = torch.cat([factor, rest * floor.rsqrt()], dim=1)
            nothing = variances.new_zeros(0)
            self._exact = _Factors(_triangular(factor), nothing, nothing)
        self._copies: dict[tuple[torch.dtype, torch.device], _Factors] = {}

    @property
    def content(self) -> tuple[Tensor, ...]:
        return tuple(self.spectrum)

    def coordinates(self, rows: Tensor) -> Tensor:
        """Rows as points of Euclidean space, in the rows' precision; they may be others' too."""
        return once(_coordinates, rows, self)

    def _for(self, rows: Tensor) -> _Factors:
        if recording():
            return self._exact.like(rows)
        key = (rows.dtype, rows.device)
        if key not in self._copies:
            self._copies[key] = self._exact.like(rows).laid_out()
        return self._copies[key]

    def __getstate__(self) -> dict[str, object]:
        """Without the copies: they are made again, and a layout of oneDNN is for this process alone."""
        return {**self.__dict__, "_copies": {}}

    def boundary_lengths(self, head: Head) -> Tensor:
        """√((w_p − w_c)ᵀ Σ (w_p − w_c)) for all pairs, (C, C) float64. Exact duplicates give exactly 0."""
        directions, variances, floor = self.spectrum
        weight = head.weight.to(directions)
        inside = weight @ directions
        seen = inside * variances.sqrt()
        if bool(floor > 0) and directions.shape[1] < len(directions):
            outside = (weight - inside @ directions.T) * floor.sqrt()
            seen = torch.cat([seen, outside], dim=1)
        lengths = pairwise_lengths(seen)
        for part, plain in length_blocks(head.weight):
            lengths[part].masked_fill_(plain == 0, 0)
        return lengths


def _coordinates(rows: Tensor, metric: Mahalanobis) -> Tensor:
    blocks, directions, gain = metric._for(rows)
    if metric.low_rank:
        inside = (rows @ directions).mul_(gain)
        return torch.addmm(rows * metric.spectrum.floor.rsqrt().to(rows), inside, directions.T)
    width = fixed(rows.shape[1])
    seen = [rows[:, width - fixed(block.shape[1]) :] for block in blocks]
    if recording():
        return torch.cat([part @ block.T for part, block in zip(seen, blocks, strict=True)], dim=1)
    if blocks[0].is_mkldnn:
        return torch.cat([laid_out_product(*pair) for pair in zip(seen, blocks, strict=True)], dim=1)
    result = rows.new_empty(len(rows), sum(map(len, blocks)))
    places = torch.split(result, len(blocks[0]), dim=1)
    for part, block, place in zip(seen, blocks, places, strict=True):
        torch.mm(part, block.T, out=place)
    return result


def _joined(blocks: tuple[Tensor, ...]) -> Tensor:
    """Neighbouring blocks as one, with zeros where the later ones were cut off."""
    width = blocks[0].shape[1]
    return torch.cat([torch.nn.functional.pad(block, (width - block.shape[1], 0)) for block in blocks])


def _triangular(factor: Tensor) -> tuple[Tensor, ...]:
    """A factor T, such that ‖x T‖ = ‖x F‖ for all x, as blocks of its columns, transposed.

    T = Rᵀ of the decomposition Fᵀ = Q R: its column j begins at row j. A block is cut off where all of its
    columns are zero, so that it meets the last columns of the rows only. O(D³), once.
    """
    upper = torch.linalg.qr(factor.T, mode="r").R
    height = max(_BLOCK_ROWS, -(-len(upper) // _BLOCKS))
    starts = range(0, len(upper), height)
    return tuple(upper[start : start + height, start:].contiguous() for start in starts)
