"""Scoring in tiles: memory that does not grow with the rows, one look at the numbers, two precisions."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from itertools import chain
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from ..core.arrays import as_float, require_finite
from ..core.graphs import recording
from ..core.once import once
from ._common import cut, total
from ._precision import require_scores


class Swept(NamedTuple):
    """Scores at which nobody has looked yet, and sums of what they were made from, for who does."""

    scores: Tensor
    sums: list[Tensor]


class Tiled(nn.Module):
    """What a detector does with checked rows; the mathematics of a tile is the subclass's."""

    second_look: ClassVar[bool] = True  # a float32 row without a finite score is worked again in float64

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:
        """Scores (n,) of one tile; logits are (n, 0) where `uses_logits` is False."""
        raise NotImplementedError(f"{type(self).__name__} defines no score")

    def _tile_rows(self, device: torch.device) -> int:
        """Rows scored at once, so that extra memory does not grow with N."""
        raise NotImplementedError

    def _view(self, features: Tensor) -> Tensor:
        """The features as this score sees them."""
        raise NotImplementedError

    def _logits(self, features: Tensor) -> Tensor:
        """Logits of features that went through `_view`; none for a score that does not look at them."""
        raise NotImplementedError

    @property
    def _name(self) -> str:
        return type(self).__name__

    @property
    def _joins(self) -> bool:
        """Whether it may be given fewer rows at once than it asks for, so as to share work with others."""
        return True

    def _scores(
        self, rows: Tensor, logits: Tensor | None, *, refuse: bool = True, first_row: int = 0
    ) -> Tensor:
        """Scores of checked rows, which are ``first_row`` and the next ones to whoever is told of them.

        Rows whose score overflows are refused, or have NaN: nothing is infinitely familiar.
        The numbers are looked at once, after all tiles: a look makes a device wait. NaN and infinity survive
        a sum, and a sum that is not finite (legal numbers can overflow too) has every row looked at.
        """
        try:
            swept = self._sweep(rows, logits)
        except Exception:
            self._require_finite(rows, logits, first_row)
            raise
        return self._settled(swept, rows, logits, refuse=refuse, first_row=first_row)

    def _sweep(self, rows: Tensor, logits: Tensor | None) -> Swept:
        """Scores as the tiles give them, at which nobody has looked."""
        scores: list[Tensor] = []
        seen: list[Tensor] = []
        for _, tile, given in self._tiles(rows, logits):
            if not self._notices(tile):
                seen += [total(tile)] if given is None else [total(tile), total(given)]
            scores.append(self._score_tile(self._view(tile), given).to(rows.device, tile.dtype))
        return Swept(torch.cat(scores), seen)

    def _settled(
        self, swept: Swept, rows: Tensor, logits: Tensor | None, *, refuse: bool = True, first_row: int = 0
    ) -> Tensor:
        """The one look at the numbers, and what follows from it."""
        scores, seen = swept
        numbers = [float(functools.reduce(torch.add, seen))] if seen else []
        if math.isfinite(sum(numbers, float(scores.sum()))):
            return scores
        self._require_finite(rows, logits, first_row)
        scores = self._second_look(rows, scores)
        return require_scores(scores, self._name, first_row) if refuse else scores

    def _notices(self, tile: Tensor) -> bool:  # noqa: ARG002
        """Whether no row with NaN or infinity, in features or logits, gets a finite score from `_score`."""
        return False

    def _require_finite(self, rows: Tensor, logits: Tensor | None = None, first_row: int = 0) -> None:
        for start, tile, given in self._tiles(rows, logits):
            require_finite(tile, "features", first_row + start)
            if given is not None:
                require_finite(given, "logits", first_row + start)

    def _second_look(self, rows: Tensor, scores: Tensor) -> Tensor:
        """Scores, those that are not finite worked again in float64, from the features alone."""
        lost = (~torch.isfinite(scores)).nonzero().flatten()
        if scores.dtype != torch.float64 and self.second_look:
            for part in torch.split(lost, self._tile_rows(self._home(rows))):
                for _, tile, _ in self._tiles(rows[part], None):
                    scores[part] = self._score_exactly(self._view(tile).double()).to(scores)
        return scores.masked_fill_(scores == torch.inf, torch.nan)

    def _home(self, rows: Tensor) -> torch.device:
        """Where scores are worked: with the detector's buffers, or with the rows if it has none."""
        # Its own buffers first, as `buffers` does, which takes as long as ten of them to set out.
        found = chain(self._buffers.values(), self.buffers())
        return next((buffer.device for buffer in found if buffer is not None), rows.device)

    def _tiles(self, rows: Tensor, logits: Tensor | None) -> Iterator[tuple[int, Tensor, Tensor | None]]:
        """(first row, features, given logits) of every tile, as floats on the detector's device."""
        device = self._home(rows)
        step = self._tile_rows(device)
        for start in range(0, len(rows), step):
            stop = min(start + step, len(rows))
            tile = once(cut, rows, start, stop, device)
            yield start, tile, None if logits is None else once(cut, logits, start, stop, device, tile.dtype)

    def _recorded(self, rows: Tensor, logits: Tensor | None) -> Tensor:
        """The scores as a graph computes them: of all rows at once, and NaN for a row that is not finite."""
        rows, whole = as_float(rows), torch.isfinite(rows).all(dim=1)
        if logits is not None:
            whole = whole & torch.isfinite(logits).all(dim=1)
            logits = torch.where(whole[:, None], logits, 0).to(rows)
        scores = self._score_tile(self._view(torch.where(whole[:, None], rows, 0)), logits).to(rows.dtype)
        return torch.where(whole & (scores != torch.inf), scores, torch.nan)

    def _score_tile(self, tile: Tensor, given: Tensor | None) -> Tensor:
        """Scores of a tile; in a graph, which cannot look, both precisions are worked and one is taken."""
        scores = self._score(tile, self._logits(tile) if given is None else given)
        if tile.dtype == torch.float64 or not (self.second_look and recording()):
            return scores
        exact = self._score_exactly(tile.double())
        return torch.where(torch.isfinite(scores), scores, exact.to(scores.dtype))

    def _score_exactly(self, tile: Tensor) -> Tensor:
        """Scores of a float64 tile."""
        return self._score(tile, self._logits(tile))
