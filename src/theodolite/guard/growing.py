"""P-values against a reference that grows with the stream: independent and uniform while nothing changes.

The guard's own p-values compare every new score with the same n calibration scores. Each is honest by itself,
but they share the luck of that one calibration set: if its scores are a little high, all p-values are a
little low, for ever, and a test that adds up evidence takes this for a change. So every stream score joins
the reference once it has its p-value. The n calibration scores leave n + 1 gaps between them; with N_i
earlier stream scores in gap i, the t-th score of the stream, if it falls into gap j, has

    p = ( Σ_{i<j} (1 + N_i) + θ·(1 + N_j) ) / (n + t),        θ uniform on (0, 1]

Equal scores are ordered by random keys, one a score.

**These are independent and uniform** if calibration and stream are exchangeable. By the keys no two samples
are equal. Given the order of the first n + t − 1 samples, the next is equally likely to fall into each of the
n + t slots that they leave, and 1 + N_j of these lie in gap j. So it falls into gap j with probability
(1 + N_j)/(n + t) whatever happened before, and p is then uniform on an interval of just that length, beside
those of the other gaps: uniform on (0, 1], and independent of all earlier gaps and θ, hence of all earlier
p-values. ∎

It is the smoothed conformal p-value (Vovk, Gammerman and Shafer, *Algorithmic Learning in a Random World*,
2nd ed. 2022), but that two stream scores are told apart only by calibration scores between them. This costs
little, and buys an endless stream in bounded memory: n + 1 counts, whatever t, and O(log n) a sample.

Exchangeable means: every order of calibration and stream together is as likely as any other. Independent
samples from one source are. It fails by drift, which is to be found, and also by dependence: frames of a
video, bursts, sorted files, samples that come twice.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..core.arrays import FloatArray

IntArray = npt.NDArray[np.int64]
# Samples that are compared with each other one by one: a batch is worked in pieces of so many.
_PIECE = 128
# Random numbers a stream score: its key among equals, and θ.
_DRAWS = 2


class GrowingReference:
    """Calibration scores, and how many stream scores fell into each gap between them."""

    def __init__(self, calibration: FloatArray, seed: int, counts: IntArray | None = None) -> None:
        self.scores = np.sort(calibration)
        self.seed = seed
        self.counts = np.zeros(len(self.scores) + 1, dtype=np.int64) if counts is None else counts
        self.seen = int(self.counts.sum())
        self._tree = _tree_of(self.counts)
        # Which numbers a sample gets follows from the seed and its place: that is all there is to remember.
        source = np.random.PCG64(seed)
        self._random = np.random.Generator(source)
        keys = self._random.random(len(self.scores))
        self._keys = keys[np.lexsort((keys, self.scores))]
        source.advance(_DRAWS * self.seen)

    def p_values(self, scores: FloatArray) -> FloatArray:
        """The p-values of the next stream scores, in order; each joins the reference. −∞ is a legal score."""
        numbers = self._random.random((len(scores), _DRAWS))
        gaps, thetas = self._gaps(scores, numbers[:, 0]), 1 - numbers[:, 1]
        p_values = np.empty(len(scores))
        for start in range(0, len(scores), _PIECE):
            piece = slice(start, start + _PIECE)
            p_values[piece] = self._piece(gaps[piece], thetas[piece])
        return p_values

    def _piece(self, gaps: IntArray, thetas: FloatArray) -> FloatArray:
        earlier = np.tri(len(gaps), k=-1, dtype=bool)
        below = _prefix(self._tree, gaps) + ((gaps[None, :] < gaps[:, None]) & earlier).sum(axis=1)
        beside = self.counts[gaps] + ((gaps[None, :] == gaps[:, None]) & earlier).sum(axis=1)
        total = len(self.scores) + self.seen + 1 + np.arange(len(gaps))
        _add(self._tree, gaps)
        np.add.at(self.counts, gaps, 1)
        self.seen += len(gaps)
        p_values: FloatArray = (gaps + below + thetas * (1 + beside)) / total
        return p_values

    def _gaps(self, scores: FloatArray, keys: FloatArray) -> IntArray:
        """The gap of each score: how many calibration scores lie below it, equal ones by their keys."""
        gaps = np.searchsorted(self.scores, scores, side="left")
        above = np.searchsorted(self.scores, scores, side="right")
        for row in np.flatnonzero(above > gaps):
            gaps[row] += np.searchsorted(self._keys[gaps[row] : above[row]], keys[row])
        return gaps


# Sums of counts below a gap, in a binary indexed tree (Fenwick 1994): entry k, from 1 on, holds the sum of
# the last (k & −k) counts up to k.


def _tree_of(counts: IntArray) -> IntArray:
    sums = np.concatenate([[0], np.cumsum(counts)])
    places = np.arange(len(counts) + 1)
    return np.asarray(sums - sums[places - (places & -places)], dtype=np.int64)


def _prefix(tree: IntArray, gaps: IntArray) -> IntArray:
    """Σ counts[:gap] of every gap."""
    sums, places = np.zeros_like(gaps), gaps.copy()
    while places.any():
        sums += tree[places]  # tree[0] is 0
        places -= places & -places
    return sums


def _add(tree: IntArray, gaps: IntArray) -> None:
    """Count one more in every gap named."""
    places = gaps + 1
    while len(places):
        np.add.at(tree, places, 1)
        places = places + (places & -places)
        places = places[places < len(tree)]
