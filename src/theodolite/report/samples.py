"""From scored samples to sample cards: which samples, their thumbnails, their triangles."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence

import numpy as np
from PIL import Image
from torch import Tensor

from ..core.arrays import Array, FloatArray, as_tensor
from ..detectors import ORA, Detector
from .page.data import SampleCard

SIDE = 112


def sample_cards(
    detector: Detector,
    features: Tensor | Array,
    scores: FloatArray,
    *,
    lowest: bool,
    count: int,
    data_set: str,
    class_name: Callable[[int], str] = str,
    labels: Sequence[int] | Array | Tensor | None = None,
    picture: Callable[[int], Image.Image | None] = lambda _: None,
    sample_id: Callable[[int], str] = "#{}".format,
) -> list[SampleCard]:
    """Cards of the ``count`` samples that score lowest or highest, the most extreme first.

    The callables take a sample's index. Triangles are drawn for an ORA with a single centre.
    """
    order = np.argsort(scores if lowest else -scores, kind="stable")[:count]
    rows = as_tensor(features, "features")[order.copy()]
    seen = detector.sight(rows) if isinstance(detector, ORA) and _one_centre(detector) else None
    assert detector.head is not None
    predicted = (seen.predicted if seen else detector.head(rows).argmax(dim=1)).tolist()
    cards = []
    for place, index in enumerate(order.tolist()):
        sides = {} if seen is None else {side: float(getattr(seen, side)[place]) for side in _SIDES}
        cards.append(
            SampleCard(
                id=sample_id(index),
                score=float(scores[index]),
                predicted=class_name(int(predicted[place])),
                truth=None if labels is None else class_name(int(labels[index])),
                data_set=data_set,
                image_png=thumbnail(picture(index)),
                **sides,
            )
        )
    return cards


_SIDES = ("angle", "distance", "centre_distance", "height")


def _one_centre(detector: ORA) -> bool:
    return not str(detector.centre).startswith("sum")


def thumbnail(picture: Image.Image | None, side: int = SIDE) -> bytes | None:
    """A PNG at most ``side`` pixels wide and high; small pictures keep their size."""
    if picture is None:
        return None
    small = picture.copy()
    small.thumbnail((side, side), Image.Resampling.LANCZOS)
    if small.mode not in ("L", "RGB"):
        small = small.convert("RGB")
    written = io.BytesIO()
    small.save(written, "PNG", optimize=True)
    return written.getvalue()
