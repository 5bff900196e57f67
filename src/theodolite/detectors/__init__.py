"""The scores. One file each; importing this package enters them all in the registry."""

from .base import Detector
from .distance import Distance
from .energy import Energy
from .fdbd import FDBD
from .maxlogit import MaxLogit
from .msp import MSP
from .ora import ORA, Sighting
from .registry import Record, create, detector_record, list_detectors
from .storage import load

__all__ = [
    "FDBD",
    "MSP",
    "ORA",
    "Detector",
    "Distance",
    "Energy",
    "MaxLogit",
    "Record",
    "Sighting",
    "create",
    "detector_record",
    "list_detectors",
    "load",
]
