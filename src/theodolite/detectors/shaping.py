"""Activation shaping: features in, shaped features out, before any score looks at them.

Statistics are collected on the shaped features and logits are recomputed from them, so every score that works
from features composes with every shaping: ``ORA(shaping=ReAct(percentile=80))``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from ..core.errors import InputError, NotFittedError, did_you_mean
from ..core.graphs import fixed
from ..reference.percentiles import ActivationHistogram
from ._options import CheckedOptions


class Shaping(CheckedOptions, nn.Module):
    """A row-wise map of features. One that learns from ID data says so in ``learns``, and has a `learn`."""

    name: ClassVar[str]
    title: ClassVar[str]
    learns: ClassVar[bool] = False

    def __init__(self, *, percentile: float) -> None:
        super().__init__()
        if not 0 <= percentile <= 100:
            raise InputError(f"percentile must lie in 0..100, got {percentile}")
        self.percentile = percentile

    def learn(self, histogram: ActivationHistogram, again: Callable[[], Iterable[Tensor]] | None) -> None:
        """Learn from the activations of ID data, which can perhaps be read ``again``; most need not."""

    @property
    def ready(self) -> bool:
        """Whether it has learnt what it has to learn."""
        return not self.learns

    def options(self) -> dict[str, float]:
        names = [name for name in inspect.signature(type(self).__init__).parameters if name != "self"]
        return {name: getattr(self, name) for name in names}

    @property
    def spec(self) -> str:
        """As text, the way `parse_shaping` reads it."""
        return f"{self.name}:{self.percentile:g}"

    @property
    def view_key(self) -> str:
        """Names exactly what is done to features."""
        return self.spec

    def extra_repr(self) -> str:
        return f"percentile={self.percentile:g}"

    def _kept(self, features: Tensor) -> int:
        """How many of the activations of a row survive: n − round(n·p/100), at least one."""
        width = fixed(features.shape[1])
        return max(1, width - round(width * self.percentile / 100))


class ReAct(Shaping):
    """min(z, t), with t the percentile of all ID activations (Sun et al., NeurIPS 2021).

    OOD inputs excite a few units abnormally; cutting them off takes away their confidence.
    The field uses 90, the ORA paper 80.
    """

    name = "react"
    title = "ReAct"
    learns = True
    threshold: Tensor | None

    def __init__(self, *, percentile: float = 90.0) -> None:
        super().__init__(percentile=percentile)
        self.register_buffer("threshold", None)

    def learn(self, histogram: ActivationHistogram, again: Callable[[], Iterable[Tensor]] | None) -> None:
        """Set the threshold: exactly where the data can be read ``again``, else from the histogram."""
        if again is None:
            value = histogram.percentile(self.percentile)
        else:
            value = histogram.exact_percentile(self.percentile, again)
        self.register_buffer("threshold", torch.tensor(value, dtype=torch.float64))

    def fit(self, features: Iterable[Tensor]) -> Self:
        """Learn the threshold from batches of ID features (N, D) alone, for fits in parts (`collect`)."""
        histogram = ActivationHistogram()
        for rows in features:
            histogram.update(rows)
        self.learn(histogram, None)
        return self

    @property
    def ready(self) -> bool:
        return self.threshold is not None

    @property
    def view_key(self) -> str:
        return self.spec if self.threshold is None else f"{self.spec} at {float(self.threshold):.17g}"

    def forward(self, features: Tensor) -> Tensor:
        if self.threshold is None:
            raise NotFittedError(
                "ReAct has no threshold yet: fit the detector it belongs to. For a fit in parts, learn it "
                "first: ReAct(percentile=80).fit(batches)"
            )
        return torch.minimum(features, self.threshold.to(features))


class ASHP(Shaping):
    """Keep the largest (100 − p) % of a row's activations, the rest become 0 (Djurisic et al., ICLR 2023)."""

    name = "ash-p"
    title = "ASH-P"

    def __init__(self, *, percentile: float = 60.0) -> None:
        super().__init__(percentile=percentile)

    def forward(self, features: Tensor) -> Tensor:
        values, places = features.topk(self._kept(features), dim=1)
        return torch.zeros_like(features).scatter_(1, places, values)


class ASHB(Shaping):
    """As ASH-P, but the surviving activations share the row's former sum equally."""

    name = "ash-b"
    title = "ASH-B"

    def __init__(self, *, percentile: float = 65.0) -> None:
        super().__init__(percentile=percentile)

    def forward(self, features: Tensor) -> Tensor:
        kept = self._kept(features)
        places = features.topk(kept, dim=1).indices
        share = features.sum(dim=1, keepdim=True) / kept
        return torch.zeros_like(features).scatter_(1, places, share.expand(-1, kept))


class ASHS(Shaping):
    """As ASH-P, then scaled by exp(s1/s2), the row's sums before and after.

    The field uses 90 on ImageNet, the ORA paper 35.
    """

    name = "ash-s"
    title = "ASH-S"

    def __init__(self, *, percentile: float = 90.0) -> None:
        super().__init__(percentile=percentile)

    def forward(self, features: Tensor) -> Tensor:
        values, places = features.topk(self._kept(features), dim=1)
        values = values * _growth(features, values)
        return torch.zeros_like(features).scatter_(1, places, values)


class Scale(Shaping):
    """z·exp(s1/s2) without pruning, s2 the sum of the largest (100 − p) % (Xu et al., ICLR 2024).

    The field uses 85, the ORA paper 90.
    """

    name = "scale"
    title = "Scale"

    def __init__(self, *, percentile: float = 85.0) -> None:
        super().__init__(percentile=percentile)

    def forward(self, features: Tensor) -> Tensor:
        return features * _growth(features, features.topk(self._kept(features), dim=1).values)


SHAPINGS: dict[str, type[Shaping]] = {kind.name: kind for kind in (ReAct, ASHS, ASHB, ASHP, Scale)}

# exp(s1/s2) beyond this exponent says only that the kept activations sum to almost nothing.
_LARGEST_EXPONENT = 60.0


def _growth(features: Tensor, kept: Tensor) -> Tensor:
    """exp(s1/s2) a row; 1 for a row without activations."""
    before, after = features.sum(dim=1, keepdim=True), kept.sum(dim=1, keepdim=True)
    ratio = torch.where(after != 0, before / after, torch.zeros_like(after))
    return ratio.clamp(-_LARGEST_EXPONENT, _LARGEST_EXPONENT).exp()


def parse_shaping(spec: str) -> Shaping:
    """A shaping from text: ``"react"``, ``"react:80"``, ``"ash-s:90"``."""
    name, _, percent = spec.partition(":")
    key = name.strip().lower().replace("_", "-")
    matches = [kind for known, kind in SHAPINGS.items() if known.replace("-", "") == key.replace("-", "")]
    if not matches:
        hint = did_you_mean(key, SHAPINGS)
        raise InputError(f"no shaping is called {name!r}{hint} Known: {', '.join(SHAPINGS)}")
    try:
        return matches[0](**{"percentile": float(percent)} if percent else {})
    except ValueError as error:
        raise InputError(
            f"shaping {spec!r}: the part after the colon must be a percentile, {error}"
        ) from error
