"""One pass over the data for many detectors."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from ..core.arrays import ArrayLike
from ..core.errors import InputError
from ..reference.head import Head
from ..reference.looks import Look
from ..reference.moments import Moments
from ..reference.reference import Batches, Reference, batches, collect_views
from ..reference.statistics import Needs
from ..reference.view import View
from .shaping import Learner

if TYPE_CHECKING:
    from ._base import Detector


def fit_many(
    detectors: Sequence[Detector],
    features: ArrayLike | Batches,
    labels: ArrayLike | None = None,
    *,
    head: Head | None = None,
    ids: ArrayLike | None = None,
    on_refusal: Callable[[Detector, InputError], None] | None = None,
) -> None:
    """Fit all detectors on the same ID features; the same as fitting each alone, but the data is read once.

    A shaping that learns (ReAct its threshold) reads the data once more, before everything else.
    ``on_refusal`` is told of a detector that refuses what it was given; without it the refusal is raised.

    >>> means, labels = 4 * np.eye(3, 8), np.arange(150) % 3
    >>> train = means[labels] + np.random.default_rng(0).normal(size=(150, 8))
    >>> detectors = [th.ORA(), th.MDS(), th.KNN(k=10)]
    >>> th.fit_many(detectors, train, labels, head=th.Head(means))
    >>> [detector.score(train[:5]).shape for detector in detectors]
    [(5,), (5,), (5,)]
    """
    if not detectors:
        raise InputError("detectors is empty: nothing to fit")
    detectors = _fit_layers(list(dict.fromkeys(detectors)), features, labels, head, ids, on_refusal)
    if not detectors:
        return
    own = {detector: detector.shaping for detector in detectors}
    waiting = dict.fromkeys(detectors)
    try:
        _learn_shapings(detectors, features, labels, ids, head)
        references = _collect(detectors, features, labels, ids, head)
        for detector in detectors:
            try:
                detector._adopt(references[detector.view_key, detector.bank_seed])
            except InputError as error:
                if on_refusal is None:
                    raise
                detector._wear(own[detector])
                on_refusal(detector, error)
            waiting.pop(detector, None)
    except BaseException:
        # What was not fitted stays as it was, its shaping too.
        for detector in waiting:
            detector._wear(own[detector])
        raise


def _fit_layers(
    detectors: Sequence[Detector],
    features: ArrayLike | Batches,
    labels: ArrayLike | None,
    head: Head | None,
    ids: ArrayLike | None,
    on_refusal: Callable[[Detector, InputError], None] | None,
) -> list[Detector]:
    """Fit those of several layers, which read their rows in passes of their own; the others are left."""
    for detector in detectors:
        if detector.of_layers:
            try:
                detector.fit(features, labels, head=head, ids=ids)
            except InputError as error:
                if on_refusal is None:
                    raise
                on_refusal(detector, error)
    return [detector for detector in detectors if not detector.of_layers]


def _collect(
    detectors: Sequence[Detector],
    features: ArrayLike | Batches,
    labels: ArrayLike | None,
    ids: ArrayLike | None,
    head: Head | None,
) -> dict[tuple[str, int], Reference]:
    views = views_of(detectors)
    found = collect_views(features, labels, head=head, views=[*views.values()], ids=ids)
    return dict(zip(views, found, strict=True))


def views_of(detectors: Sequence[Detector]) -> dict[tuple[str, int], View]:
    """Detectors that see the features in the same way share one set of statistics: by view and seed."""
    views: dict[tuple[str, int], View] = {}
    for detector in detectors:
        key = (detector.view_key, detector.bank_seed)
        needs = views[key].needs if key in views else Needs()
        views[key] = View(
            detector.view_key,
            detector._shape,
            needs | detector.needs,
            detector.bank_seed,
            detector.seen_width,
        )
    return views


def looks_of(shapings: Iterable[Learner]) -> dict[str, Look]:
    """The looks, yet empty, that shapings learn from, by their names."""
    return {name: kind() for name, kind in {one.looks.name: one.looks for one in shapings}.items()}


def _learn_shapings(
    detectors: Sequence[Detector],
    features: ArrayLike | Batches,
    labels: ArrayLike | None,
    ids: ArrayLike | None,
    head: Head | None,
) -> None:
    """One pass for all shapings that learn: exact on arrays, from what was counted on streams."""
    learners = {
        detector: shaping for detector in detectors if isinstance(shaping := detector.shaping, Learner)
    }
    if not learners:
        return
    if isinstance(features, Iterator):
        names = sorted({shaping.title for shaping in learners.values()})
        raise InputError(
            f"features is an iterator that can be read once, but {', '.join(names)} needs a pass of its own: "
            f"pass arrays, or an object that gives a new iterator each time"
        )

    def prepared(*, finite: bool = False) -> Iterator[Tensor]:
        for rows, _, _ in batches(features, labels, ids, head, finite=finite):
            yield rows if head is None else head.prepare(rows)

    looks = looks_of(learners.values())
    for rows in prepared(finite=True):
        for look in looks.values():
            look.update(rows)
    again = prepared if isinstance(features, Tensor | np.ndarray) else None
    learnt: dict[str, Learner] = {}
    for detector, shaping in learners.items():
        if shaping.spec not in learnt:
            learnt[shaping.spec] = copy.deepcopy(shaping)
            learnt[shaping.spec].learn(looks[shaping.looks.name], again)
            learnt[shaping.spec].of_unit_rows = None
        detector._wear(copy.deepcopy(learnt[shaping.spec]))


def right_rows(reference: Reference, name: str) -> Moments:
    """Counts and means of the rows that the head answers right, by class; refused where there are none."""
    right = reference.statistics.answers.right
    assert right is not None
    if not bool((right.counts > 0).any()):
        raise InputError(
            f"{name} learns from rows that the head answers right, and it is right on none of the "
            f"{reference.count:,} rows: are these the labels of the features, and is this their head?"
        )
    return right
