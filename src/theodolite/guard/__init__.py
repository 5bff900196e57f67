"""A detector with its head and its calibration, ready to give verdicts."""

from .by_class import ClassCalibration
from .calibration import Calibration
from .ensemble import Ensemble
from .explain import Explainer
from .explain_paths import explain_paths
from .explanation import Explanation
from .export import Exported, ExportRecord
from .exported import ExportedGuard, load_exported
from .fitting import FittedGuard, fit_guard
from .guard import Guard
from .monitor import Monitor, Reading
from .provenance import Provenance
from .serving import BatchGuard
from .storage import ready_made
from .verdicts import PathVerdict, Verdicts

__all__ = [
    "BatchGuard",
    "Calibration",
    "ClassCalibration",
    "Ensemble",
    "Explainer",
    "Explanation",
    "ExportRecord",
    "Exported",
    "ExportedGuard",
    "FittedGuard",
    "Guard",
    "Monitor",
    "PathVerdict",
    "Provenance",
    "Reading",
    "Verdicts",
    "explain_paths",
    "fit_guard",
    "load_exported",
    "ready_made",
]
