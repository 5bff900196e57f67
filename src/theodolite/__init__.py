"""theodolite: out-of-distribution detection with relative angles, for any trained classifier.

The names below are imported when they are first used: ``import theodolite`` itself loads no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from ._version import __version__ as __version__

if TYPE_CHECKING:  # for type checkers and editors; a test holds it to the names below
    from .benchmarks import ArraySet as ArraySet
    from .benchmarks import BenchSettings as BenchSettings
    from .benchmarks import Intervals as Intervals
    from .benchmarks import Ranking as Ranking
    from .benchmarks import Repeats as Repeats
    from .benchmarks import RunResult as RunResult
    from .benchmarks import Subject as Subject
    from .benchmarks import bench as bench
    from .benchmarks import own_protocol as own_protocol
    from .benchmarks import result_of_scores as result_of_scores
    from .benchmarks import tune as tune
    from .core.errors import TheodoliteError as TheodoliteError
    from .data import open_source as open_source
    from .detectors import *  # noqa: F403
    from .detectors.shaping import ASHB as ASHB
    from .detectors.shaping import ASHP as ASHP
    from .detectors.shaping import ASHS as ASHS
    from .detectors.shaping import RAS as RAS
    from .detectors.shaping import VRA as VRA
    from .detectors.shaping import ReAct as ReAct
    from .detectors.shaping import Scale as Scale
    from .detectors.shaping import VRAAt as VRAAt
    from .detectors.shaping import VRAClip as VRAClip
    from .detectors.shaping import VRAClipUnits as VRAClipUnits
    from .evaluation import Evaluation as Evaluation
    from .evaluation import auroc as auroc
    from .evaluation import evaluate as evaluate
    from .evaluation import fpr_at_tpr as fpr_at_tpr
    from .features import Capture as Capture
    from .features import ExtractionSettings as ExtractionSettings
    from .features import FeatureStore as FeatureStore
    from .features import RayEngine as RayEngine
    from .features import Running as Running
    from .features import extract as extract
    from .features import solve_probe as solve_probe
    from .features import train_probe as train_probe
    from .guard import BatchGuard as BatchGuard
    from .guard import Calibration as Calibration
    from .guard import DatasetColumns as DatasetColumns
    from .guard import Ensemble as Ensemble
    from .guard import EnsembleGuard as EnsembleGuard
    from .guard import Explainer as Explainer
    from .guard import Explanation as Explanation
    from .guard import ExportedGuard as ExportedGuard
    from .guard import Guard as Guard
    from .guard import Monitor as Monitor
    from .guard import Part as Part
    from .guard import PathVerdict as PathVerdict
    from .guard import Verdicts as Verdicts
    from .guard import collect as collect
    from .guard import collect_dataset as collect_dataset
    from .guard import explain_paths as explain_paths
    from .guard import fit_guard as fit_guard
    from .guard import fit_parts as fit_parts
    from .guard import load_exported as load_exported
    from .models import LoadedModel as LoadedModel
    from .models import load_model as load_model
    from .reference import Head as Head
    from .reference import Needs as Needs
    from .reference import Reference as Reference
    from .report.documents import write_files as write_files
    from .report.page import write_pages as write_pages
    from .report.ray_scores import score_on_ray as score_on_ray

# The public names by the module they live in; those of the detectors are in `detectors.__all__`.
_HOMES = {
    "benchmarks": (
        "ArraySet",
        "BenchSettings",
        "Intervals",
        "Ranking",
        "Repeats",
        "RunResult",
        "Subject",
        "bench",
        "own_protocol",
        "result_of_scores",
        "tune",
    ),
    "core.errors": ("TheodoliteError",),
    "data": ("open_source",),
    "detectors.shaping": (
        "ASHB",
        "ASHP",
        "ASHS",
        "RAS",
        "ReAct",
        "Scale",
        "VRA",
        "VRAAt",
        "VRAClip",
        "VRAClipUnits",
    ),
    "evaluation": ("Evaluation", "auroc", "evaluate", "fpr_at_tpr"),
    "features": (
        "Capture",
        "ExtractionSettings",
        "FeatureStore",
        "RayEngine",
        "Running",
        "extract",
        "solve_probe",
        "train_probe",
    ),
    "guard": (
        "BatchGuard",
        "Calibration",
        "DatasetColumns",
        "Ensemble",
        "EnsembleGuard",
        "Explainer",
        "Explanation",
        "ExportedGuard",
        "Guard",
        "Monitor",
        "Part",
        "PathVerdict",
        "Verdicts",
        "collect",
        "collect_dataset",
        "explain_paths",
        "fit_guard",
        "fit_parts",
        "load_exported",
    ),
    "models": ("LoadedModel", "load_model"),
    "reference": ("Head", "Needs", "Reference"),
    "report.documents": ("write_files",),
    "report.page": ("write_pages",),
    "report.ray_scores": ("score_on_ray",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
# The packages themselves: each is there at once, not only after something else has imported it.
_ROOMS = frozenset({"detectors", *(home.partition(".")[0] for home in _HOMES)})


def _public() -> list[str]:
    return sorted({"__version__", *_HOME_OF, *import_module(".detectors", __name__).__all__})


if not TYPE_CHECKING:  # a type checker would take any name to be there

    def __getattr__(name: str) -> object:
        if name == "__all__":
            return _public()
        if name.startswith("_"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if name in _ROOMS:
            return import_module(f".{name}", __name__)
        home = _HOME_OF.get(name)
        if home is None and name not in import_module(".detectors", __name__).__all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f".{home or 'detectors'}", __name__), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return [*globals(), *_public()]
