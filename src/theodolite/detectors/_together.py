"""One pass over the rows for many detectors."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from ..core.arrays import AnyArray, ArrayLike, like
from ..core.errors import InputError
from ..core.graphs import recording
from ..core.once import Pass
from ._base import Detector
from ._precision import require_scores


def score_many(
    detectors: Sequence[Detector], features: AnyArray, logits: ArrayLike | None = None
) -> list[AnyArray]:
    """Scores (N,) of features (N, D) by each of the detectors, in their order, from one pass over the rows.

    They are the scores that ``detector.score(features, logits)`` gives, and what one refuses is refused here.
    What several of them ask of the same rows is worked once: logits, N·C·D, their maxima and sums, N·C; the
    distances to the boundaries of a head, N·C; rows less a centre and their lengths, N·D; unit rows, shaped
    rows and rows in float64, N·D; rows in the coordinates of a metric, N·D²; squared distances to the nearest
    class mean, N·D² + N·C·D. Heads, centres and matrices are the same where they agree in every bit.

    Memory does not grow with N: a tile of rows for each of these, and what one detector needs for a tile.
    """
    return Together(detectors).score(features, logits)


class Together:
    """Detectors that score the same rows, batch after batch."""

    def __init__(self, detectors: Sequence[Detector]) -> None:
        if not detectors:
            raise InputError("detectors is empty: nothing to score with")
        self.detectors = list(detectors)
        self._pass = Pass()
        self._apart = [0.0] * len(self.detectors)

    @property
    def seconds(self) -> list[float]:
        """The time of each detector's own work so far, in their order."""
        own = self._pass.seconds
        return [apart + own.get(place, 0.0) for place, apart in enumerate(self._apart)]

    @property
    def shared_seconds(self) -> float:
        """The time of the work that more than one detector asked for."""
        return self._pass.shared_seconds

    def score(self, features: AnyArray, logits: ArrayLike | None = None) -> list[AnyArray]:
        """As `score_many`."""
        if recording():
            return [detector.score(features, logits) for detector in self.detectors]
        checked = [detector._checked(features) for detector in self.detectors]
        given = [detector._checked_logits(logits, checked[0]) for detector in self.detectors]
        rows, values = checked[0], next((one for one in given if one is not None), None)
        step, groups = self._plan(rows.device)
        found: dict[int, list[Tensor]] = {place: [] for group in groups for place in group}
        # Inference tensors do not count their writes, by which shared work is known to be whole.
        with torch.inference_mode(mode=False), torch.no_grad():
            for start in range(0, len(rows), step):
                block = _counting(rows[start : start + step])
                block_values = None if values is None else _counting(values[start : start + step])
                for group in groups:
                    for place in group:
                        detector = self.detectors[place]
                        known = None if given[place] is None or detector.shaping is not None else block_values
                        with self._refusing(place, features, logits), self._pass.asking(place):
                            found[place].append(detector._scores(block, known))
                    self._pass.forget()
        return [self._handed_back(place, found.get(place), features, logits) for place in range(len(given))]

    def _plan(self, device: torch.device) -> tuple[int, list[list[int]]]:
        """Rows worked at once, and the places of detectors that join, those of one shaping together.

        A detector that works fewer rows at once than the others divides the tile by itself. One that works
        many more (each of its tiles reads a store) is scored apart, and so is one with a `score` of its own.
        """
        own, usual = [], []
        for detector in self.detectors:
            here = next((buffer.device for buffer in detector.buffers()), device)
            own.append(detector._tile_rows(here))
            usual.append(Detector._tile_rows(detector, here))
        most = 2 * min(usual)
        groups: dict[str, list[int]] = {}
        for place, detector in enumerate(self.detectors):
            if own[place] <= most and type(detector).score is Detector.score:
                shaping = "" if detector.shaping is None else detector.shaping.view_key
                groups.setdefault(shaping, []).append(place)
        return min(rows for rows in (*own, min(usual)) if 4 * rows >= most), list(groups.values())

    @contextmanager
    def _refusing(self, place: int, features: ArrayLike, logits: ArrayLike | None) -> Iterator[None]:
        """What a detector refuses of a block it refuses again alone, where it knows the rows' own numbers."""
        try:
            yield
        except InputError:
            self.detectors[place].score(features, logits)
            raise

    def _handed_back(
        self, place: int, parts: list[Tensor] | None, features: AnyArray, logits: ArrayLike | None
    ) -> AnyArray:
        """The scores from their blocks, or those of a detector that is scored apart."""
        detector = self.detectors[place]
        if parts is not None:
            scores = torch.cat(parts)
            require_scores(scores, detector._name)
            return like(scores, features)
        start = time.perf_counter()
        apart = detector.score(features, logits)
        self._apart[place] += time.perf_counter() - start
        return apart


def _counting(rows: Tensor) -> Tensor:
    """The rows, as a tensor that counts the writes to it."""
    return rows.clone() if rows.is_inference() else rows
