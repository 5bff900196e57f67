"""A detector with its head and its calibration, ready to give verdicts."""

from .by_class import ClassCalibration
from .calibration import Calibration
from .ensemble import Ensemble
from .export import Exported, ExportRecord
from .exported import ExportedGuard, load_exported
from .fitting import FittedGuard, fit_guard
from .guard import Guard
from .provenance import Provenance
from .storage import ready_made
from .verdicts import PathVerdict, Verdicts

__all__ = [
    "Calibration",
    "ClassCalibration",
    "Ensemble",
    "ExportRecord",
    "Exported",
    "ExportedGuard",
    "FittedGuard",
    "Guard",
    "PathVerdict",
    "Provenance",
    "Verdicts",
    "fit_guard",
    "load_exported",
    "ready_made",
]
