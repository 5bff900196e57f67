"""How an exported guard gives what the service needs: its graph has model, score and calibration inside."""

from __future__ import annotations

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ..core.errors import InputError, UnreadableImageError
from ..data.orientation import orientation
from ..data.sample import plain
from ..guard import ExportedGuard
from ..guard.export.record import FEATURES
from ..guard.verdicts import FLAG
from .judging import AS_STORED, Judged, OfGuard, Prepared, rows_of

# A picture to begin with: any will do.
_SIDE = 64


class JudgingExported(OfGuard):
    """An exported guard: of features, or of pictures where it knows how they are prepared."""

    def __init__(self, guard: ExportedGuard) -> None:
        if guard.takes != FEATURES and not guard.prepares:
            raise InputError(
                "the exported guard takes prepared images and does not know how pictures are prepared: "
                "export it --with-preprocessing, or --from features"
            )
        super().__init__(guard)
        self.guard = guard

    @property
    def title(self) -> str:
        known = self.guard.record.provenance
        return self.guard.record.title if known is None else f"{self.guard.record.title} on {known.model}"

    @property
    def takes_features(self) -> bool:
        return self.guard.takes == FEATURES

    @property
    def takes_pictures(self) -> bool:
        return not self.takes_features

    def warm(self) -> None:
        """A first batch: whatever does not work shows now."""
        grey = Image.new("RGB", (_SIDE, _SIDE), (127, 127, 127))
        first = torch.ones(self.width) if self.takes_features else self.prepare(grey).image
        self.judge(first[None], explain=False)

    def prepare(self, picture: Image.Image) -> Prepared:
        """As `ExportedGuard.verdicts` prepares it."""
        known, image = self.guard.record.preprocessing, plain(picture)
        turns = known is not None and known.orientation is not None
        note = AS_STORED if orientation(image) != 1 and not turns else None
        if note is not None:
            image = Image.fromarray(np.asarray(image))  # the pixels alone: they say nothing of being turned
        try:
            return Prepared(self.guard.prepare(image), note)
        except InputError as error:
            raise UnreadableImageError(str(error)) from error

    def judge(self, inputs: Tensor, *, explain: bool) -> list[Judged]:  # noqa: ARG002
        """Without the triangle: a graph gives verdicts, and no reasons."""
        return rows_of(self.guard.verdicts(inputs, unscorable=FLAG), [None] * len(inputs))
