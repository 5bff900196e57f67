"""RAS: every row gets the same values, in its own order (gigug/RAS, ECCV 2026)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from ...reference.sorted_profile import SortedProfile
from ._base import Learner


class RAS(Learner):
    """The k-th smallest entry of a row becomes the k-th entry of the profile: the mean of sorted ID rows.

    Which units are large is what a class is known by; how large they are is what OOD inputs exaggerate.
    Entries of a row that are equal stay equal: they share the mean of their places.

    >>> shaping = th.RAS().fit(torch.tensor([[0.0, 2.0, 4.0], [4.0, 2.0, 6.0]]))
    >>> shaping(torch.tensor([[9.0, 0.1, 5.0]]))
    tensor([[5., 1., 3.]])
    """

    name = "ras"
    title = "RAS"
    looks = SortedProfile
    learnt = ("profile",)
    profile: Tensor | None

    def __init__(self) -> None:
        super().__init__()

    def learn(self, look: SortedProfile, again: Callable[[], Iterable[Tensor]] | None) -> None:  # noqa: ARG002
        self.register_buffer("profile", look.mean)

    def forward(self, features: Tensor) -> Tensor:
        profile = self._learnt("profile", features).to(features)
        ordered, order = torch.sort(features, dim=1)
        rises = torch.nn.functional.pad((ordered[:, 1:] != ordered[:, :-1]).to(torch.int64), (1, 0))
        run = rises.cumsum(dim=1)  # numbers the runs of equal entries
        nothing = torch.zeros_like(features)
        sums = nothing.scatter_add(1, run, profile.expand_as(features))
        counts = nothing.scatter_add(1, run, torch.ones_like(features))
        return nothing.scatter(1, order, (sums / counts.clamp_min(1)).gather(1, run))
