"""Benchmarks: data sets and protocols, one model's features as a subject, the runner and its typed result."""

# The protocols of OpenOOD enter themselves.
from . import openood
from .bench import BenchSettings, Watcher, bench
from .cells import Bounds, Cell, PublishedValue
from .datasets import Dataset, Split, list_datasets, register_dataset
from .feature_folder import from_folder
from .feature_sets import ArraySet
from .measure import Intervals, result_of_scores
from .protocols import (
    Protocol,
    ProtocolSet,
    Validation,
    list_protocols,
    on_dataset,
    own_protocol,
    register_protocol,
)
from .ranking import Ranking
from .result import RunResult
from .runner import Highlight, run
from .subject import Subject
from .trials import Ranked
from .tuning import tune

__all__ = [
    "ArraySet",
    "BenchSettings",
    "Bounds",
    "Cell",
    "Dataset",
    "Highlight",
    "Intervals",
    "Protocol",
    "ProtocolSet",
    "PublishedValue",
    "Ranked",
    "Ranking",
    "RunResult",
    "Split",
    "Subject",
    "Validation",
    "Watcher",
    "bench",
    "from_folder",
    "list_datasets",
    "list_protocols",
    "on_dataset",
    "openood",
    "own_protocol",
    "register_dataset",
    "register_protocol",
    "result_of_scores",
    "run",
    "tune",
]
