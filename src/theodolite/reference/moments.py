"""Counts, means and scatter of groups of rows: sums in float64 that merge, taken at the speed of the machine.

Float32 would be twice as fast and is too coarse: a covariance is inverted down to directions with D·2.2e-16
of the largest variance (`geometry.covariance.not_flat`), and products of float32 are off by 1e-7 of it. What
is saved instead: the scatter is symmetric, so one half of it is computed, and rows pass through a small
float64 tile that stays in the cache and is allocated once.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ..core.errors import InputError

# Entries of a tile of rows: 8 MiB of float64, few for the last cache, enough for a product at full speed.
_TILE_ENTRIES = 2**20
# Columns of the scatter that are computed at once, from the diagonal on.
_BLOCK = 256
# Sums over all rows of a tile are taken in so many strips of neighbouring rows, and then over the strips: the
# core that wrote a strip sums it. Sums down whole columns would wait for the other cores' caches.
_STRIPS = 32
# Rows a power of two apart fall on the same lines of a cache; these numbers more keep them apart.
_PADDING = 24


class Moments:
    """Counts, means and the pooled scatter of groups of rows, merged by Chan's pairwise update.

    A group is a class, or the whole data where classes are not needed. The scatter is kept *within* groups,
    so the total scatter is a sum of two positive parts and nothing cancels.
    """

    def __init__(self, width: int, groups: int, *, scatter: bool, spread: bool = False) -> None:
        self.counts = torch.zeros(groups, dtype=torch.float64)
        self.means = torch.zeros(groups, width, dtype=torch.float64)
        # The scatter within groups on and above its diagonal; what lies below is not kept up.
        self._upper = torch.zeros(width, width, dtype=torch.float64) if scatter else None
        # Σ‖z − mean‖² of each group: the trace of its scatter.
        self.spread = torch.zeros(groups, dtype=torch.float64) if spread else None
        # Two tiles: rows with a gap between them, for sums and products, and without, as adding by groups
        # and taking from groups want them.
        self._tile = torch.empty(0, width, dtype=torch.float64)
        self._dense = torch.empty(0, width, dtype=torch.float64)

    @classmethod
    def restored(cls, counts: Tensor, means: Tensor, upper: Tensor | None, spread: Tensor | None) -> Moments:
        """Moments that `counts`, `means`, `upper` and `spread` of others are."""
        found = cls(means.shape[1], len(counts), scatter=False)
        found.counts, found.means, found._upper, found.spread = counts, means, upper, spread
        return found

    def update(self, rows: Tensor, groups: Tensor | None = None) -> bool:
        """Add rows (n, D) with their group numbers (n,), or all of one group. O(n·D), with scatter O(n·D²).

        False if a sum is not finite, as it is where a row is not: the moments are of no use then.
        """
        present, inverse, counts = _grouped(groups, rows)
        self._make_room(rows, int(present[-1]) + 1)
        means = self._sums(rows, inverse, len(present)).div_(counts[:, None])
        finite = bool(torch.isfinite(means.sum()))
        centres = self._absorb(present, counts, means)
        if self._upper is not None or self.spread is not None:
            for part, tile in _tiles(rows, self._tile):
                if inverse is None:
                    self._add_products(tile.sub_(centres), present)
                else:
                    places = inverse[part]
                    own = torch.index_select(centres, 0, places, out=self._dense[: len(tile)])
                    self._add_products(tile.sub_(own), present[places])
        return finite

    def _make_room(self, rows: Tensor, groups: int) -> None:
        """For these rows and groups, on the device of the rows."""
        self._to(rows.device)
        self._grow(groups)
        width = rows.shape[1]
        tile_rows = min(len(rows), max(1, _TILE_ENTRIES // width))
        if len(self._tile) < tile_rows or self._tile.device != rows.device:
            stride = width + (_PADDING if width % 128 == 0 else 0)
            self._tile = rows.new_empty(tile_rows, stride, dtype=torch.float64)[:, :width]
            # Memory that is never touched, as with one group, is never taken.
            self._dense = rows.new_empty(tile_rows, width, dtype=torch.float64)

    def _sums(self, rows: Tensor, inverse: Tensor | None, groups: int) -> Tensor:
        """The sum of the rows of each group (groups, D)."""
        if inverse is not None:
            sums = rows.new_zeros(groups, rows.shape[1], dtype=torch.float64)
            for part, tile in _tiles(rows, self._dense):
                sums.index_add_(0, inverse[part], tile)
            return sums
        strips = rows.new_zeros(_STRIPS, rows.shape[1], dtype=torch.float64)
        part_sums = torch.empty_like(strips)
        for _, tile in _tiles(rows, self._tile):
            even = len(tile) // _STRIPS
            strips += torch.sum(
                tile[: even * _STRIPS].view(_STRIPS, even, tile.shape[1]), dim=1, out=part_sums
            )
            if even * _STRIPS < len(tile):
                strips[0] += tile[even * _STRIPS :].sum(dim=0)
        return strips.sum(dim=0, keepdim=True)

    def _absorb(self, present: Tensor, counts: Tensor, means: Tensor) -> Tensor:
        """Merge counts and means of groups ``present``; returns the point to take each group's rows from.

        Rows of mean m that join a group of mean μ add S + w·(m − μ)(m − μ)ᵀ to its scatter, S their own
        about m, and w = n·n′/(n + n′) for n rows and n′ rows before them. Taken from m − √(w/n)·(m − μ)
        instead of m, their products are just that sum: the deviations from m sum to zero.
        """
        known = self.means[present]
        before = self.counts[present]
        total = before + counts
        shift = means.sub_(known)
        centres = known.addcmul_(shift, 1 - (before / total).sqrt()[:, None])
        self.means.index_add_(0, present, shift.mul_((counts / total)[:, None]))
        self.counts[present] = total
        return centres

    def _add_products(self, deviations: Tensor, groups: Tensor) -> None:
        """Add Σ d·dᵀ of deviations (n, D), the upper half of it, and ‖d‖² to the spread of their groups."""
        if self._upper is not None:
            for start in range(0, deviations.shape[1], _BLOCK):
                block = slice(start, start + _BLOCK)
                self._upper[block, start:].addmm_(deviations[:, block].T, deviations[:, start:])
        if self.spread is not None:
            squares = torch.linalg.vecdot(deviations, deviations)
            self.spread.index_add_(0, groups.expand(len(squares)), squares)

    def merge(self, other: Moments) -> None:
        """Add what other rows gave."""
        self._grow(len(other.counts))
        present = other.counts.nonzero().flatten()
        if len(present):
            self._to(other.means.device)
            counts, means = other.counts[present], other.means[present]
            centres = self._absorb(present, counts, means.clone())
            self._add_products((means - centres).mul_(counts.sqrt()[:, None]), present)
        if self._upper is not None and other._upper is not None:
            self._upper += other._upper.to(self._upper.device)
        if self.spread is not None and other.spread is not None:
            self.spread[: len(other.spread)] += other.spread.to(self.spread.device)

    def _grow(self, groups: int) -> None:
        missing = groups - len(self.counts)
        if missing > 0:
            self.counts = torch.cat([self.counts, self.counts.new_zeros(missing)])
            self.means = torch.cat([self.means, self.means.new_zeros(missing, self.means.shape[1])])
            if self.spread is not None:
                self.spread = torch.cat([self.spread, self.spread.new_zeros(missing)])

    def _to(self, device: torch.device) -> None:
        if self.means.device != device:
            self.counts, self.means = self.counts.to(device), self.means.to(device)
            self._upper = None if self._upper is None else self._upper.to(device)
            self.spread = None if self.spread is None else self.spread.to(device)

    @property
    def mean(self) -> Tensor:
        """The mean of all rows."""
        return (self.counts @ self.means) / self.counts.sum()

    @property
    def upper(self) -> Tensor | None:
        """The scatter within groups on and above its diagonal; what lies below it means nothing."""
        return self._upper

    @property
    def within(self) -> Tensor | None:
        """Scatter within the groups (D, D); None where it was not asked for."""
        return None if self._upper is None else _mirrored(self._upper)

    @property
    def total(self) -> Tensor:
        """Scatter about the mean of all rows: within the groups plus between them."""
        if self._upper is None:
            raise InputError("the scatter was not collected")
        between = (self.means - self.mean) * self.counts.sqrt()[:, None]
        return _mirrored(torch.addmm(self._upper, between.T, between))


def _grouped(groups: Tensor | None, rows: Tensor) -> tuple[Tensor, Tensor | None, Tensor]:
    """The groups there are, each row's place among them (None: the first), and how many rows each has."""
    if groups is None:
        return (
            torch.zeros(1, dtype=torch.int64, device=rows.device),
            None,
            torch.full((1,), float(len(rows)), dtype=torch.float64, device=rows.device),
        )
    present, inverse, counts = torch.unique(groups.to(rows.device), return_inverse=True, return_counts=True)
    return present, inverse, counts.to(torch.float64)


def _tiles(rows: Tensor, memory: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """The rows in float64, as many at a time as the memory for them holds."""
    for start in range(0, len(rows), len(memory)):
        part = slice(start, min(start + len(memory), len(rows)))
        yield part, memory[: part.stop - start].copy_(rows[part])


def _mirrored(upper: Tensor) -> Tensor:
    """A symmetric matrix from what lies on and above its diagonal."""
    return torch.triu(upper) + torch.triu(upper, 1).T
