"""The ID samples nearest to a feature: of a bank that a guard searches itself, or of features that are given.

Near is meant as KNN means it, by the distance of directions ‖ẑ − ẑ_i‖, ẑ = z/‖z‖, in float64: exact, O(N·B·D)
for N samples and B of the bank, which is read in blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import torch
from torch import Tensor

from ..core.arrays import as_float, require_finite
from ..core.errors import InputError
from ..data.pictures import is_picture
from ..detectors import Detector, NNGuide
from ..detectors._banked import Banked
from ..features.arrays import FeatureArray, open_array
from ..features.folders import holds_features
from ..features.store import FeatureStore, is_store
from ..geometry.neighbours import top_similarities
from ..reference.head import unit_rows
from .explanation import Neighbour, Neighbours
from .origin import Origin, require_array, require_like_origin
from .provenance import Provenance, require_store

View: TypeAlias = Callable[[Tensor], Tensor]
BankLike: TypeAlias = str | Path | FeatureStore | FeatureArray
ON_SPHERE = "distance of directions (0 the same, 1.41 at right angles)"
GUIDED = "energy times cosine, as NNGuide weighs them (larger is nearer)"
# ID samples whose angles are looked at: every so-many-th row of a larger bank.
_ANGLES = 20_000
_QUERIES = 1_024


@dataclass(frozen=True)
class IdBank:
    """ID features by name, in blocks of (names, rows); ``folder`` is where their pictures may lie.

    ``directions``: the rows are not features, but their directions as a score keeps them.
    """

    of: str
    count: int
    blocks: Callable[[], Iterator[tuple[Sequence[str], Tensor]]]
    folder: Path | None = None
    directions: bool = False

    def mean(self, view: View) -> Tensor:
        """The mean of the rows as ``view`` shows them, float64."""
        total, count = None, 0
        for _, rows in self.blocks():
            seen = view(rows)
            part = seen.sum(dim=0)
            total, count = part if total is None else total + part, count + len(seen)
        if total is None:
            raise InputError(f"{self.of} holds no features: a bank needs at least one")
        return total / count

    def spread(self) -> Iterator[Tensor]:
        """All rows, or of a large bank some 20,000 at equal steps, which meet every class in proportion."""
        step, start = -(-self.count // _ANGLES), 0
        for _, rows in self.blocks():
            yield rows[-start % step :: step]
            start += len(rows)

    def picture(self, name: str) -> str | None:
        """The file of a sample's picture, if it is there."""
        return picture_at(self.folder, name)


def picture_at(folder: Path | None, name: str) -> str | None:
    """A picture of that name in a folder, or where its name says; None if there is none."""
    try:
        place = Path(name) if folder is None else folder / name
        return str(place) if is_picture(place) else None
    except (OSError, ValueError):  # a name that is no path
        return None


def open_bank(
    bank: BankLike, width: int, provenance: Provenance | None, origin: Origin | None, *, accept: bool
) -> IdBank:
    """ID features of a guard's own model: a feature store, or features in a file; others are refused."""
    if isinstance(bank, str | Path):
        if is_store(bank):
            bank = FeatureStore(bank)
        elif holds_features(bank):
            bank = open_array(bank)
        else:
            raise InputError(
                f"bank {bank} is neither a feature store nor a file of features (.npy, .npz, .parquet, "
                f".safetensors): make one with theodolite extract"
            )
    if isinstance(bank, FeatureArray):
        require_array(bank, width, provenance, origin)
        array = bank
        return IdBank(
            f"{len(array):,} samples of {array.path}",
            len(array),
            lambda: ((names, rows) for rows, _, names in array.blocks()),
        )
    store = bank
    require_store(provenance, store, accept_code_change=accept)
    if provenance is None:
        require_like_origin(origin, store, width)
    return IdBank(f"{len(store):,} samples of {store.path}", len(store), _blocks(store), folder_of(store))


def folder_of(store: FeatureStore) -> Path | None:
    """Where the pictures of a store's samples were, if that is a folder here."""
    source = Path(store.manifest.source).expanduser()
    try:
        return source if source.is_dir() else None
    except (OSError, ValueError):
        return None


def own_bank(detector: Detector) -> IdBank | None:
    """The bank that a score searches itself; in memory its rows are directions without names."""
    if not isinstance(detector, Banked):
        return None
    if detector._stored is None:
        bank = detector.bank
        names = [f"#{row}" for row in range(len(bank))]
        title = f"the {len(bank):,} samples in the bank of {detector.record.title}, which keeps no names"
        return IdBank(title, len(bank), lambda: iter([(names, bank)]), directions=True)
    store, chosen = detector._stored.store, detector.chosen.cpu()
    title = f"{detector._stored.count:,} samples of {store.path}"
    return IdBank(title, detector._stored.count, _blocks(store, chosen), folder_of(store))


def _blocks(
    store: FeatureStore, chosen: Tensor | None = None
) -> Callable[[], Iterator[tuple[Sequence[str], Tensor]]]:
    """The rows of a store, a shard at a time; with ids ``chosen``, those only."""

    def blocks() -> Iterator[tuple[Sequence[str], Tensor]]:
        for index in range(store.shards):
            shard = store.shard(index)
            if chosen is None or len(chosen) == 0:
                yield shard.names, shard.features
                continue
            places = torch.isin(shard.ids, chosen).nonzero().flatten().tolist()
            if places:
                yield [shard.names[place] for place in places], shard.features[places]

    return blocks


def nearest(queries: Tensor, bank: IdBank, view: View, k: int) -> list[Neighbours | None]:
    """The k nearest samples of every query (n, D), both as ``view`` shows them; None for a query of zeros.

    A row of zeros in the bank has no direction, and is taken to be at a right angle to all others.
    """
    found: list[Neighbours | None] = []
    for part in torch.split(queries, _QUERIES):
        unit = unit_rows(part)
        directed = unit.any(dim=1).tolist()
        distances, names = _searched(unit, bank, view, k)
        for row, known in enumerate(directed):
            samples = tuple(
                Neighbour(name, value, bank.picture(name))
                for name, value in zip(names[row], distances[row].tolist(), strict=True)
            )
            found.append(Neighbours(ON_SPHERE, bank.of, samples) if known else None)
    return found


def _searched(unit: Tensor, bank: IdBank, view: View, k: int) -> tuple[Tensor, list[list[str]]]:
    """Distances (n, k) and names of the nearest; each block is merged with the best before it."""
    distances, names = unit.new_empty(len(unit), 0), [list[str]() for _ in range(len(unit))]
    for block_names, rows in bank.blocks():
        require_finite(as_float(rows), bank.of)
        seen = unit_rows(rows.to(unit) if bank.directions else view(rows))
        _, places = top_similarities(unit, seen, k, by_distance=True)
        near = seen[places]
        apart = torch.linalg.vector_norm(unit[:, None] - near, dim=2)
        apart = torch.where(near.any(dim=2), apart, math.sqrt(2))
        distances = torch.cat([distances, apart], dim=1)
        names = [
            old + [block_names[place] for place in new]
            for old, new in zip(names, places.tolist(), strict=True)
        ]
        distances, order = distances.sort(dim=1, stable=True)
        distances = distances[:, :k]
        names = [
            [known[place] for place in chosen[:k]]
            for known, chosen in zip(names, order.tolist(), strict=True)
        ]
    return distances, names


def guided(queries: Tensor, detector: NNGuide, k: int) -> list[Neighbours | None]:
    """The rows of NNGuide's bank in memory that count most: directions times energies, no distances."""
    of = f"the {len(detector.bank):,} samples in the bank of NNGuide, which keeps no names"
    found: list[Neighbours | None] = []
    for part in torch.split(queries, _QUERIES):
        values, places = top_similarities(unit_rows(part), detector.bank.double(), k)
        for row in range(len(part)):
            pairs = zip(places[row].tolist(), values[row].tolist(), strict=True)
            samples = tuple(Neighbour(f"#{place}", value) for place, value in pairs)
            found.append(Neighbours(GUIDED, of, samples))
    return found
