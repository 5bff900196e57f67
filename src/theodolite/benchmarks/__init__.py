"""Benchmarks: data sets and protocols, one model's features as a subject, the runner and its typed result."""

# The protocols of OpenOOD and CLINC150 enter themselves.
from . import clinc150, openood
from .bench import BenchSettings, Watcher, bench
from .cells import Bounds, Cell, PublishedValue, Spread
from .datasets import Dataset, Split, list_datasets, register_dataset
from .feature_folder import from_folder
from .feature_sets import ArraySet
from .joining import join
from .joint import Ground, Joint, ModelAverage
from .measure import Intervals, result_of_scores
from .paired import PairedCell, PairedTests, Pairing
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
from .repeats import Repeats, with_repeats
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
    "Ground",
    "Highlight",
    "Intervals",
    "Joint",
    "ModelAverage",
    "PairedCell",
    "PairedTests",
    "Pairing",
    "Protocol",
    "ProtocolSet",
    "PublishedValue",
    "Ranked",
    "Ranking",
    "Repeats",
    "RunResult",
    "Split",
    "Spread",
    "Subject",
    "Validation",
    "Watcher",
    "bench",
    "clinc150",
    "from_folder",
    "join",
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
    "with_repeats",
]
