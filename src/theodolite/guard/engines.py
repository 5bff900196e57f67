"""`fit_guard` on the engine that was asked for: this process, or a Ray cluster. Both give the same guard."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

from ..detectors import Detector
from ..features.engine import engine_of
from ..features.settings import ExtractionSettings, Watch
from .calibration import FALSE_ALARM_RATE
from .fitting import Allowed, FittedGuard
from .fitting import fit_guard as fit_here
from .guard import CALIBRATION_SHARE
from .ray_fit import fit_on_ray


def fit_guard(
    data: str | Path | Sequence[str | Path],
    model: str | None = None,
    *,
    weights: str | Path | None = None,
    calibration: str | Path | None = None,
    calibration_share: float = CALIBRATION_SHARE,
    detector: Detector | str | None = None,
    class_names: Sequence[str] | None = None,
    false_alarm_rate: float = FALSE_ALARM_RATE,
    settings: ExtractionSettings | None = None,
    progress: Watch = lambda _: None,
    **allowed: Unpack[Allowed],
) -> FittedGuard:
    settings = settings or ExtractionSettings()
    engine = engine_of(settings.running.engine)
    fit = fit_here if engine is None else fit_on_ray
    return fit(
        data,
        model,
        weights=weights,
        calibration=calibration,
        calibration_share=calibration_share,
        detector=detector,
        class_names=class_names,
        false_alarm_rate=false_alarm_rate,
        settings=settings,
        progress=progress,
        **allowed,
    )


fit_guard.__doc__ = fit_here.__doc__
