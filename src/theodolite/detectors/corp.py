"""CoRP: reconstruction error of unit features under a Gaussian kernel (Fang et al., NeurIPS 2024).

    s(z) = −‖Φ − UUᵀΦ‖,   Φ = φ(z/‖z‖) − mean, φ(x) = √(2/M)·cos(ωx + u), U principal directions of Φ

ω and u are random and fixed: inner products of φ are nearly exp(−γ‖x − y‖²), so this is kernel PCA. Curved
sets of ID features are flat after the map, and OOD features lie off them.

Where it fails: γ and M must fit the spread of the features: settings that are good on one network can be poor
on another, the more so with few rows to fit on.

Cost for N rows, beyond the logits: N·M·(D + 2·q) for q directions.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..core.errors import FormatError, InputError
from ..geometry.fourier import drawn_waves, fourier_features
from ..reference.reference import Reference
from ._reconstruction import Reconstructed
from ._registry import register
from .shaping import Shaping

# Below, unit features are all alike after the map; above, float32 has too few digits for its angles.
_LEAST, _MOST = 1e-6, 1e3
# Rows of a tile, times M.
_TILE_ENTRIES = 2**20


@register(
    "corp",
    title="CoRP",
    paper="Fang et al., Kernel PCA for Out-of-Distribution Detection, arXiv:2402.02949",
    year=2024,
    formula="CoP of √(2/M)·cos(ωz/‖z‖ + u), ω and u random",
)
class CoRP(Reconstructed):
    """gamma, components: γ and M of the map; variance, dimension: as in CoP.

    The authors take γ 2, M 2048 and 0.8 on CIFAR-10, γ 3, M 4096 and 0.5 on ImageNet. A fit holds the scatter
    of M mapped features. seed: of ω and u, which are the same on every machine (`geometry.fourier`).

    >>> means, labels = 4 * np.eye(3, 8), np.arange(150) % 3
    >>> train = means[labels] + np.random.default_rng(0).normal(size=(150, 8))
    >>> detector = th.CoRP().fit(train, labels, head=th.Head(means))
    >>> known, strange = detector.score(np.stack([means[0], np.ones(8)]))
    >>> bool(known > strange)
    True
    """

    frequencies: Tensor
    phases: Tensor

    def __init__(
        self,
        *,
        gamma: float = 2.0,
        components: int = 2048,
        variance: float = 0.8,
        dimension: int | None = None,
        seed: int = 0,
        shaping: Shaping | str | None = None,
    ) -> None:
        super().__init__(variance=variance, dimension=dimension, shaping=shaping)
        if not _LEAST <= gamma <= _MOST:
            raise InputError(f"gamma must lie in {_LEAST:g}..{_MOST:g}, got {gamma}")
        if not 2 <= components <= 65_536:
            raise InputError(f"components must lie in 2..65536, got {components}")
        self.gamma = gamma
        self.components = components
        self.seed = seed

    @property
    def seen_width(self) -> int:
        return self.components

    @property
    def view_key(self) -> str:
        return f"{super().view_key}+fourier:{self.components},{self.gamma!r},{self.seed}"

    def _shape(self, prepared: Tensor) -> Tensor:
        rows = super()._shape(prepared)
        return fourier_features(rows, *drawn_waves(rows.shape[1], self.components, self.gamma, self.seed))

    def _fit(self, reference: Reference) -> None:
        super()._fit(reference)
        waves = drawn_waves(reference.width, self.components, self.gamma, self.seed)
        self.register_buffer("frequencies", waves.frequencies)
        self.register_buffer("phases", waves.phases)

    def _build(self) -> None:
        super()._build()
        if self.frequencies.shape != (len(self.phases), self.width):
            raise FormatError(f"frequencies are {tuple(self.frequencies.shape)}, features {self.width} wide")

    def _tile_rows(self, device: torch.device) -> int:
        return max(16, min(super()._tile_rows(device), _TILE_ENTRIES // self.components))

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:  # noqa: ARG002
        return self._left_over(fourier_features(features, self.frequencies, self.phases))
