"""TempScale: maximum softmax probability at the temperature that makes it honest (Guo et al., ICML 2017).

    s(z) = log max_c softmax(l / T)_c,   T = argmin Σ_i −log softmax(l_i / T)_{y_i}

A calibrated classifier says how often it is right. T is learnt from what the score is fitted on, which must
be new to the network: of its own training data it is right too often, and T comes out too low. The logarithm
keeps the order, and tells apart what would all round to 1.

Where it fails: a temperature changes no order between two classes' odds and little between rows: what MSP
does not see it does not see.

Cost for N rows, beyond the logits: one pass over N×C.
"""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from ..core.errors import FittingWarning
from ..reference.reference import Reference
from ..reference.statistics import Needs
from ._base import Detector
from ._common import surplus
from ._registry import register


@register(
    "tempscale",
    title="TempScale",
    paper="Guo et al., On Calibration of Modern Neural Networks, arXiv:1706.04599",
    year=2017,
    formula="log max_c softmax(l/T)_c, T of the highest likelihood",
    aliases=("Temperature Scaling",),
)
class TempScale(Detector):
    """At most 0. T is between 1/4096 and 4096, and 1 where all rows are answered right.

    The likelihood of labels that are all right grows without end as T falls: they say nothing about it.

    >>> means, labels = 4 * np.eye(3, 8), np.arange(150) % 3
    >>> train = means[labels] + np.random.default_rng(0).normal(size=(150, 8))
    >>> detector = th.TempScale().fit(train, labels, head=th.Head(means))
    >>> known, strange = detector.score(np.stack([means[0], np.ones(8)]))
    >>> bool(known > strange)
    True
    """

    temperature: Tensor

    @property
    def needs(self) -> Needs:
        return Needs(likelihood=True)

    def _fit(self, reference: Reference) -> None:
        likelihood = reference.statistics.answers.likelihood
        assert likelihood is not None
        temperature = likelihood.temperature()
        if temperature is None:
            warnings.warn(
                f"{self._name} found no temperature: the head answers all {reference.count:,} rows right, as "
                f"it may its training data. T stays 1, as in MSP: fit it on data new to the network",
                FittingWarning,
                stacklevel=2,
            )
        value = 1.0 if temperature is None else temperature
        self.register_buffer("temperature", torch.tensor(value, dtype=torch.float64))

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:  # noqa: ARG002
        return -surplus(logits / self.temperature.to(logits))
