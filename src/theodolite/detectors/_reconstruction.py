"""What CoP and CoRP have in common: the part of mapped features that principal directions leave over."""

from __future__ import annotations

import torch
from torch import Tensor

from ..core.errors import InputError
from ..core.once import kept_like
from ..geometry.deviation import away, length
from ..geometry.principal import principal
from ..reference.reference import Reference
from ..reference.statistics import Needs
from ._base import Detector
from ._precision import crowded, reach, unresolved
from .shaping import Shaping

# A row is worked in float64 if what is left over is less than 1 in this many of the row and of the mean.
_SHARE_LIMIT = 64.0
# What ID features leave over on average, squared, below which unit rows need more than float32's digits.
_FAINT = 2.0**-12


class Reconstructed(Detector):
    """−‖Φ − UUᵀΦ‖ of centred features Φ; U are the fewest directions that explain the variance asked for."""

    uses_logits = False
    unit = True
    mean: Tensor
    directions: Tensor
    outside: Tensor

    def __init__(
        self, *, variance: float, dimension: int | None = None, shaping: Shaping | str | None = None
    ) -> None:
        super().__init__(shaping=shaping)
        if not 0 < variance <= 1:
            raise InputError(f"variance must lie in (0, 1], got {variance}")
        if dimension is not None and dimension < 1:
            raise InputError(f"dimension must be at least 1, got {dimension}")
        self.variance = variance
        self.dimension = dimension

    @property
    def needs(self) -> Needs:
        return Needs(mean=True, scatter=True)

    def _fit(self, reference: Reference) -> None:
        directions, outside = principal(reference, self.variance, self.dimension)
        width, count = directions.shape
        if count >= width:
            asked = f"variance={self.variance:g}" if self.dimension is None else f"dimension={self.dimension}"
            raise InputError(
                f"{asked} takes all {width} directions and leaves none to tell anything by: choose a smaller "
                f"one"
            )
        self.register_buffer("mean", reference.statistics.moments.mean)
        self.register_buffer("directions", directions)
        self.register_buffer("outside", outside)

    def _build(self) -> None:
        self.exact_directions = crowded(self.mean) or float(self.outside) < _FAINT
        self._reach = reach(self.mean)

    def _left_over(self, mapped: Tensor) -> Tensor:
        """The scores of mapped rows."""
        apart = away(mapped, self.mean)
        directions = kept_like(self.directions, mapped)
        left = torch.linalg.vector_norm(apart - apart @ directions @ directions.T, dim=1)
        return unresolved(-left, left * _SHARE_LIMIT < length(apart) + self._reach)
