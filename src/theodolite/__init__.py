"""theodolite: out-of-distribution detection with relative angles, for any trained classifier."""

from ._version import __version__
from .detectors import (
    FDBD,
    MSP,
    ORA,
    Detector,
    Distance,
    Energy,
    MaxLogit,
    create,
    list_detectors,
    load,
)
from .features.store import FeatureStore
from .guard import Guard
from .head import Head

__all__ = [
    "FDBD",
    "MSP",
    "ORA",
    "Detector",
    "Distance",
    "Energy",
    "FeatureStore",
    "Guard",
    "Head",
    "MaxLogit",
    "__version__",
    "create",
    "list_detectors",
    "load",
]
