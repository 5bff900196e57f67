"""A detector with its head and its calibration, ready to give verdicts."""

from .calibration import Calibration
from .ensemble import Ensemble
from .fitting import FittedGuard, fit_guard
from .guard import Guard
from .monitor import Monitor, Reading
from .provenance import Provenance
from .storage import ready_made
from .verdicts import PathVerdict, Verdicts

__all__ = [
    "Calibration",
    "Ensemble",
    "FittedGuard",
    "Guard",
    "Monitor",
    "PathVerdict",
    "Provenance",
    "Reading",
    "Verdicts",
    "fit_guard",
    "ready_made",
]
