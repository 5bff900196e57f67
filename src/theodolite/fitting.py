"""Many detectors from one pass over the data."""

from __future__ import annotations

from collections.abc import Sequence

from .arrays import ArrayLike
from .detectors import Detector
from .errors import InputError
from .head import Head
from .reference import Batches, Reference
from .statistics import Needs


def fit_many(
    detectors: Sequence[Detector],
    features: ArrayLike | Batches,
    labels: ArrayLike | None = None,
    *,
    head: Head | None = None,
    ids: ArrayLike | None = None,
) -> Reference:
    """Fit all detectors on the same ID features, which are read once; the same as fitting each alone.

    Returns the reference that served them all.
    """
    if not detectors:
        raise InputError("detectors is empty: nothing to fit")
    needs = Needs()
    for detector in detectors:
        needs |= detector.needs
    reference = Reference.collect(features, labels, head=head, needs=needs, ids=ids)
    for detector in detectors:
        detector.fit(reference)
    return reference
