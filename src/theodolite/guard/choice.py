"""Which score a guard uses: a detector at hand, one by its text, or the recommended one."""

from __future__ import annotations

from dataclasses import replace

from ..core.errors import InputError
from ..detectors import RECOMMENDED, Detector, detector_record, list_detectors
from ..detectors.spec import parse_spec
from ..reference.head import Head


def choose_detector(detector: Detector | str | None, shaping: str | None = None) -> Detector:
    """A detector at hand, or a new one by its text: ``"energy"``, ``"knn?k=50+react:90"``.

    ``shaping`` may stand apart from the text: ``"react:90"``.
    """
    if isinstance(detector, Detector):
        if shaping is not None:
            raise InputError(f"shaping={shaping!r} is for a detector by its text: give it to the detector")
        return detector
    if not isinstance(detector, str | None):
        raise InputError(f"detector must be a Detector or its name, got {type(detector).__name__}")
    spec = parse_spec(detector or RECOMMENDED, model=True)
    if shaping is not None and spec.shaping is not None:
        raise InputError(f"{detector} names a shaping already: leave --shaping out")
    # Options as published: whether inputs can be changed shows with the features, see `shown`.
    return replace(spec, settings={}, shaping=shaping or spec.shaping).build()


def require_head(detector: Detector, head: Head | None) -> None:
    """A score of logits needs the head that gives them."""
    if head is not None or not detector.uses_logits:
        return
    scores = (detector_record(name) for name in list_detectors())
    without = [one.name for one in scores if not one.detector.uses_logits and not one.detector.reads_head]
    raise InputError(
        f"{detector.record.title} needs a head, the classifier's last layer: pass head=Head(weight, bias) "
        f"(--head head.safetensors), or choose a score that needs none: {', '.join(without)}"
    )
