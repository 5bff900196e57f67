"""One pass over the rows for many detectors."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from ..core.arrays import AnyArray, ArrayLike, like
from ..core.errors import InputError
from ..core.graphs import recording
from ..core.once import Pass
from ._base import Detector
from ._tiled import Swept


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

    >>> means, labels = 4 * np.eye(3, 8), np.arange(150) % 3
    >>> train = means[labels] + np.random.default_rng(0).normal(size=(150, 8))
    >>> detectors = [th.MSP().fit(train, head=th.Head(means)), th.MaxLogit().fit(train, head=th.Head(means))]
    >>> softmax, logits = th.score_many(detectors, train)
    >>> bool((softmax == detectors[0].score(train)).all())
    True
    """
    return Together(detectors).score(features, logits)


class Together:
    """Detectors that score the same rows, batch after batch."""

    def __init__(self, detectors: Sequence[Detector]) -> None:
        if not detectors:
            raise InputError("detectors is empty: nothing to score with")
        self.detectors = list(detectors)
        self._pass = Pass()
        self._own_seconds = [0.0] * len(self.detectors)

    @property
    def seconds(self) -> list[float]:
        """The time of each detector's own work so far, in their order."""
        passing = self._pass.seconds
        return [spent + passing.get(place, 0.0) for place, spent in enumerate(self._own_seconds)]

    @property
    def shared_seconds(self) -> float:
        """The time of the work that more than one detector asked for."""
        return self._pass.shared_seconds

    def score(self, features: AnyArray, logits: ArrayLike | None = None) -> list[AnyArray]:
        """As `score_many`."""
        if recording():
            return [detector.score(features, logits) for detector in self.detectors]
        joining = {
            place: detector
            for place, detector in enumerate(self.detectors)
            if detector._joins and type(detector).score is Detector.score and "score" not in vars(detector)
        }
        found = self._joined(joining, features, logits) if joining else {}
        # Those that do not join come last: whatever they do to what they are given, it is theirs alone.
        for place in range(len(self.detectors)):
            if place not in joining:
                found[place] = self._apart(place, features, logits)
        return [found[place] for place in range(len(self.detectors))]

    def _joined(
        self, joining: Mapping[int, Detector], features: AnyArray, logits: ArrayLike | None
    ) -> dict[int, AnyArray]:
        """The scores of the detectors that join, by their places."""
        checked = [detector._checked(features) for detector in joining.values()]
        rows = checked[0]
        shown: dict[int, Tensor | None] = {}
        for place, detector in joining.items():
            given = detector._checked_logits(logits, rows)
            # Logits belong to features before they are shaped.
            shown[place] = None if detector.shaping is not None else given
        swept = self._sweep(joining, rows, shown)
        return {
            place: like(self._settled(place, parts, rows, shown[place]), features)
            for place, parts in swept.items()
        }

    def _sweep(
        self, joining: Mapping[int, Detector], rows: Tensor, shown: Mapping[int, Tensor | None]
    ) -> dict[int, list[Swept]]:
        """What each of them makes of every block of rows; ``shown`` are given logits, where it sees them."""
        step, groups = _plan(joining, rows.device)
        values = next((given for given in shown.values() if given is not None), None)
        swept: dict[int, list[Swept]] = {place: [] for place in joining}
        # Inference tensors do not count their writes, by which shared work is known to be whole.
        with torch.inference_mode(mode=False), torch.no_grad():
            for start in range(0, len(rows), step):
                block = _counting(rows[start : start + step])
                block_values = None if values is None else _counting(values[start : start + step])
                for group in groups:
                    for place in group:
                        known = None if shown[place] is None else block_values
                        with self._refusing(place, rows, shown[place]), self._pass.asking(place):
                            swept[place].append(joining[place]._sweep(block, known))
                    self._pass.forget()
        return swept

    @contextmanager
    def _refusing(self, place: int, rows: Tensor, shown: Tensor | None) -> Iterator[None]:
        """An error over numbers that are none is told of by the rows' own numbers."""
        try:
            yield
        except Exception:
            self.detectors[place]._require_finite(rows, shown)
            raise

    def _settled(self, place: int, parts: list[Swept], rows: Tensor, shown: Tensor | None) -> Tensor:
        """A detector's scores from those of the blocks: its one look at the numbers, after all of them."""
        start = time.perf_counter()
        scores = torch.cat([part.scores for part in parts])
        swept = Swept(scores, [number for part in parts for number in part.sums])
        settled = self.detectors[place]._settled(swept, rows, shown)
        self._own_seconds[place] += time.perf_counter() - start
        return settled

    def _apart(self, place: int, features: AnyArray, logits: ArrayLike | None) -> AnyArray:
        """The scores of a detector that does not join."""
        start = time.perf_counter()
        scores = self.detectors[place].score(features, logits)
        self._own_seconds[place] += time.perf_counter() - start
        return scores


def _plan(joining: Mapping[int, Detector], device: torch.device) -> tuple[int, list[list[int]]]:
    """Rows worked at once, and the places of the detectors, those of one shaping together.

    A detector that works fewer rows at once than the others divides the tile by itself.
    """
    groups: dict[str, list[int]] = {}
    own, usual = [], []
    for place, detector in joining.items():
        here = next((buffer.device for buffer in detector.buffers()), device)
        own.append(detector._tile_rows(here))
        usual.append(Detector._tile_rows(detector, here))
        shaping = "" if detector.shaping is None else detector.shaping.view_key
        groups.setdefault(shaping, []).append(place)
    least = min(usual)
    return min(rows for rows in (*own, least) if 2 * rows >= least), list(groups.values())


def _counting(rows: Tensor) -> Tensor:
    """The rows, as a tensor that counts the writes to it."""
    return rows.clone() if rows.is_inference() else rows
