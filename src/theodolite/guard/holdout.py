"""In-distribution data in two shares: one to fit on, one held out to calibrate on.

A sample's share is decided by a hash of its id alone: the same in every order, on every machine, and
whatever other samples come or go.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler

from ..core.arrays import ArrayLike
from ..core.errors import InputError
from ..detectors import Detector
from ..detectors._banked import Banked
from ..features.capture import Captured
from ..features.store import FeatureStore, StoreParts
from ..features.store_checks import require_unseen_pictures
from ..reference.bank import sample_keys
from ..reference.head import Head
from ..reference.reference import Batch, Batches, Reference, batches

# Not the seed of any bank: what is held out must not depend on what a bank keeps.
SHARE_SEED = 0x5EED_CA11B
_KEYS = 2**63


@dataclass(frozen=True)
class Share:
    """One share of the batches, read from the source on every iteration."""

    features: ArrayLike | Batches
    labels: ArrayLike | None
    ids: ArrayLike | None
    head: Head | None
    share: float
    held_out: bool

    def __iter__(self) -> Iterator[Batch]:
        count = 0
        for rows, labels, ids in batches(self.features, self.labels, self.ids, self.head):
            numbers = torch.arange(count, count + len(rows)) if ids is None else ids
            count += len(rows)
            chosen = in_share(numbers, self.share) == self.held_out
            if bool(chosen.any()):
                yield rows[chosen], None if labels is None else labels[chosen], numbers[chosen]


def check_share(share: float) -> None:
    if not 0 < share < 1:
        raise InputError(f"the calibration share must lie in (0, 1), got {share}")


def require_unseen(detector: Detector, features: object, calibration: object) -> list[object]:
    """Data that the detector was fitted on, or that lies in its bank, is no calibration data.

    The answer is what the calibration data has still to be compared with row by row, see `repeated`.
    """
    if _same(features, calibration) or _keys(features) & _keys(calibration):
        raise InputError(
            "the calibration data is the data to fit on: scores of data they were fitted on promise nothing"
        )
    bank = detector.store if isinstance(detector, Banked) else None
    if bank is not None and (
        calibration is None
        or (isinstance(calibration, FeatureStore) and calibration.path.resolve() == Path(bank).resolve())
    ):
        raise InputError(
            f"{detector.record.title} keeps every row of {bank} as its bank, so none of them can "
            f"be held out to calibrate on: pass calibration= features of other samples"
        )
    if calibration is None:
        return []
    fitted = [features, *([] if bank is None else [FeatureStore(bank)])]
    return [data for data in fitted if not require_unseen_pictures(_stores(data), _stores(calibration))]


def require_rows(features: ArrayLike | Batches | Reference) -> ArrayLike | Batches:
    """Features of which a share can be held out."""
    if isinstance(features, Reference):
        raise InputError(
            "a reference holds statistics, and no rows of it can be held out to calibrate on: pass "
            "calibration= features of samples that it did not see"
        )
    return features


def split(
    features: ArrayLike | Batches,
    labels: ArrayLike | None,
    ids: ArrayLike | None,
    head: Head | None,
    share: float,
) -> tuple[Share, Share]:
    """(to fit on, held out): two views of the same data, each read in a pass of its own."""
    check_share(share)
    if isinstance(features, Iterator):
        raise InputError(
            "features is an iterator, which can be read once: fitting and calibrating need two passes; "
            "pass arrays, a list of batches or a feature store"
        )
    if _reshuffles(features):
        raise InputError(
            "the loader shuffles, so every pass has another order and no share can be kept apart: pass "
            "calibration= data of its own, or a DataLoader with shuffle=False"
        )
    fitted, held_out = (Share(features, labels, ids, head, share, side) for side in (False, True))
    return fitted, held_out


def _reshuffles(features: object) -> bool:
    """Whether a loader, or what reads from one, draws its samples anew in every pass."""
    sampler = getattr(_read_from(features), "sampler", None)
    return "Random" in type(sampler).__name__


def _same(features: object, calibration: object) -> bool:
    """Whether both are one object, or read from one loader or from the whole of one data set."""
    one, other = _read_from(features), _read_from(calibration)
    if features is calibration or one is other:
        return True
    whole = _whole_data(one)
    return whole is not None and whole is _whole_data(other)


def _whole_data(loader: object) -> object:
    """The data set that a loader gives all samples of; None where it chooses among them."""
    if not isinstance(loader, DataLoader) or type(loader.batch_sampler) is not BatchSampler:
        return None
    chosen = type(loader.sampler) not in (SequentialSampler, RandomSampler)
    return None if chosen else loader.dataset


def _read_from(features: object) -> object:
    return features.batches if isinstance(features, Captured) else features


def in_share(ids: Tensor, share: float) -> Tensor:
    """True for the samples that belong to a share of the data."""
    return sample_keys(ids, SHARE_SEED) < int(share * _KEYS)


def _keys(data: object) -> set[str]:
    """The keys of the stores that data consists of."""
    return {part.key for part in _stores(data)}


def _stores(data: object) -> list[FeatureStore]:
    parts = data.parts if isinstance(data, StoreParts) else (data,)
    return [part for part in parts if isinstance(part, FeatureStore)]
