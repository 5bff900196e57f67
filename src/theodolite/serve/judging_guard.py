"""How a guard gives what the service needs, with its model where it knows one."""

from __future__ import annotations

from pathlib import Path

import torch
from PIL.Image import Image
from torch import Tensor

from ..core.errors import InputError
from ..data.orientation import orientation, upright
from ..data.sample import plain
from ..features.device import choose_device
from ..guard import Explainer, Guard
from ..guard.verdicts import FLAG
from ..models import LoadedModel
from .judging import AS_STORED, Judged, OfGuard, Prepared, rows_of
from .triangle import sides_of


class JudgingGuard(OfGuard):
    """A guard, with its model where it knows one: `warm` loads it, and it is checked as ever."""

    def __init__(
        self,
        guard: Guard,
        *,
        model: str | None = None,
        weights: str | Path | None = None,
        device: str = "cpu",
    ) -> None:
        super().__init__(guard)
        if guard.model_score is not None and guard.loaded is None and guard.provenance is None:
            raise InputError(
                f"{guard.title} judges images only, and the guard does not say how its model is loaded: "
                f"attach(model, spec='python:my_module:factory') and save it again"
            )
        self.guard = guard
        self._named = model, weights
        self._device = choose_device(device)
        self._loaded: LoadedModel | None = None
        self._explainer: Explainer | None = None

    @property
    def title(self) -> str:
        score, known = self.guard.title, self.guard.provenance
        return score if known is None else f"{score} on {known.model}"

    @property
    def takes_features(self) -> bool:
        """Not where the score asks the model for more: features do not say of which inputs they are."""
        return self.guard.model_score is None

    @property
    def takes_pictures(self) -> bool:
        return self.guard.loaded is not None or self.guard.provenance is not None

    def warm(self) -> None:
        """Load the model, and give both a first batch: the model's head must be the guard's."""
        self.guard.to(self._device)
        if self.takes_pictures:
            self._loaded = self.guard._own_model(*self._named)
            self._loaded.require_pictures("the service")
            self.guard.to(self._device)
            noise = torch.rand(2, *self._loaded.input_shape, generator=torch.Generator().manual_seed(0))
            self.judge(noise, explain=False)
        if self.takes_features:
            self.judge(torch.ones(1, self.width), explain=True)

    def prepare(self, picture: Image) -> Prepared:
        """As `theodolite score` prepares it, to the bit."""
        assert self._loaded is not None
        image = plain(picture)
        tilted = orientation(image) != 1
        turn = self.guard.provenance is not None and self.guard.provenance.turns
        prepared = self._loaded.preprocess(upright(image) if turn else image)
        return Prepared(prepared, AS_STORED if tilted and not turn else None)

    def judge(self, inputs: Tensor, *, explain: bool) -> list[Judged]:
        guard = self.guard
        with torch.no_grad():
            rows = inputs.to(self._device)
            if not explain:
                return rows_of(guard.verdicts(rows, unscorable=FLAG), [None] * len(rows))
            features = guard._features(rows, finite=False)
            verdicts = guard.verdicts_of_own(features, unscorable=FLAG)
            if self._explainer is None:  # the table of boundaries is made in `warm`, by the first that asks
                self._explainer = Explainer(guard)
            return rows_of(verdicts, [sides_of(one) for one in self._explainer.of_features(features)])
