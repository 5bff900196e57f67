"""From a model and pictures to features: capture, extraction, the store on disk."""

from .cached import extract, open_features
from .capture import Capture
from .engine import RayEngine
from .extraction import fill_store
from .linear_probe import save_probe, train_probe
from .logistic_probe import solve_probe
from .run_log import RunLog
from .settings import ExtractionProgress, ExtractionSettings, Running
from .store import FeatureStore, StoreParts

__all__ = [
    "Capture",
    "ExtractionProgress",
    "ExtractionSettings",
    "FeatureStore",
    "RayEngine",
    "RunLog",
    "Running",
    "StoreParts",
    "extract",
    "fill_store",
    "open_features",
    "save_probe",
    "solve_probe",
    "train_probe",
]
