"""A detector with its head and its calibration, ready to give verdicts."""

from .by_class import ClassCalibration
from .calibration import Calibration
from .collecting import collect
from .engines import fit_guard
from .ensemble import Ensemble
from .ensemble_guard import EnsembleGuard
from .explain import Explainer
from .explain_paths import explain_paths
from .explanation import Explanation
from .export import Exported, ExportRecord
from .exported import ExportedGuard, load_exported
from .fit_parts import fit_parts
from .fitting import FittedGuard
from .guard import Guard
from .monitor import Monitor, Reading
from .part import Part
from .provenance import Provenance
from .ray_batches import DatasetColumns
from .ray_dataset import collect_dataset
from .serving import BatchGuard
from .storage import ready_made
from .verdicts import PathVerdict, Verdicts

__all__ = [
    "BatchGuard",
    "Calibration",
    "ClassCalibration",
    "DatasetColumns",
    "Ensemble",
    "EnsembleGuard",
    "Explainer",
    "Explanation",
    "ExportRecord",
    "Exported",
    "ExportedGuard",
    "FittedGuard",
    "Guard",
    "Monitor",
    "Part",
    "PathVerdict",
    "Provenance",
    "Reading",
    "Verdicts",
    "collect",
    "collect_dataset",
    "explain_paths",
    "fit_guard",
    "fit_parts",
    "load_exported",
    "ready_made",
]
