"""theodolite: out-of-distribution detection with relative angles, for any trained classifier."""

from ._version import __version__
from .detectors import (
    CSI,
    FDBD,
    KNN,
    MCM,
    MDS,
    MSP,
    NCI,
    NECO,
    ODIN,
    ORA,
    RMDS,
    Detector,
    Distance,
    Energy,
    MahaPlus,
    MaxLogit,
    NNGuide,
    PCos,
    RCos,
    RelativeEnergy,
    SSDPlus,
    ViM,
    create,
    fit_many,
    list_detectors,
    load,
)
from .ensemble import Ensemble
from .features.store import FeatureStore
from .guard import Guard
from .head import Head
from .shaping import ASHB, ASHP, ASHS, ReAct, Scale

# The score to start with: chosen by the study in docs/metric.md.
RECOMMENDED = "relative-energy"

__all__ = [
    "ASHB",
    "ASHP",
    "ASHS",
    "CSI",
    "FDBD",
    "KNN",
    "MCM",
    "MDS",
    "MSP",
    "NCI",
    "NECO",
    "ODIN",
    "ORA",
    "RECOMMENDED",
    "RMDS",
    "Detector",
    "Distance",
    "Energy",
    "Ensemble",
    "FeatureStore",
    "Guard",
    "Head",
    "MahaPlus",
    "MaxLogit",
    "NNGuide",
    "PCos",
    "RCos",
    "ReAct",
    "RelativeEnergy",
    "SSDPlus",
    "Scale",
    "ViM",
    "__version__",
    "create",
    "fit_many",
    "list_detectors",
    "load",
]
