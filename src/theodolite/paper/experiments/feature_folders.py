"""Every score, the ablations and the shapings on the two feature folders."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...benchmarks.feature_folder import from_folder
from ...benchmarks.runner import run
from ...detectors.spec import parse_specs
from ..studies import RunStudy
from ._registry import Context, Need, Produced, experiment

FOLDERS = ("cifar10-densenet", "imagenet-lite0")
_NEEDS = tuple(Need(folder) for folder in FOLDERS)

# CIFAR-10 has ten class means; of ImageNet's the paper takes five.
IMAGENET_CLASSES = (0, 249, 499, 749, 999)
_CLASS_CENTRES = {"cifar10-densenet": range(10), "imagenet-lite0": IMAGENET_CLASSES}
_CENTRES = ("predicted", "target", "max", "min", "median", "sum-classes", "sum-extremes")
_SHAPED = ("react:80", "react:90", "ash-s:35", "ash-s:90", "scale:90", "scale:85")
_SCORES = ("ora", "fdbd", "energy")

AGGREGATIONS = ("ora?aggregate=min", "ora?aggregate=mean", "ora")
SHAPINGS = (*_SCORES, *(f"{score}+{shape}" for score in _SCORES for shape in _SHAPED))


def centres(classes: Iterable[int]) -> list[str]:
    """ORA from every centre of the paper's table, and from the means of some classes."""
    return ["ora", *(f"ora?centre={centre}" for centre in (*_CENTRES, *classes))]


def measured(context: Context, folder: str, detectors: Sequence[str], name: str, title: str) -> RunStudy:
    """A table of scores on one feature folder, as the experiment of that name makes it."""
    context.say(f"{name}: {folder}")
    result = run(
        [from_folder(context.root / folder)],
        parse_specs(detectors),
        title=title,
        command=f"theodolite reproduce {name}",
        cache=context.scores,
    )
    return RunStudy(result)


@experiment("all-scores", "Every score on the two feature folders", *_NEEDS)
def all_scores(context: Context) -> Produced:
    return {
        folder: measured(context, folder, [], "all-scores", f"Every score on {folder}") for folder in FOLDERS
    }


@experiment("centring", "The centre that ORA's angles are seen from", *_NEEDS)
def centring(context: Context) -> Produced:
    return {
        f"centring-{folder}": measured(
            context,
            folder,
            centres(_CLASS_CENTRES[folder]),
            "centring",
            f"ORA from other centres on {folder}",
        )
        for folder in FOLDERS
    }


@experiment("aggregation", "How ORA reduces the angles to all classes to one score", *_NEEDS)
def aggregation(context: Context) -> Produced:
    return {
        f"aggregation-{folder}": measured(
            context,
            folder,
            AGGREGATIONS,
            "aggregation",
            f"ORA with other aggregations on {folder}",
        )
        for folder in FOLDERS
    }


@experiment("half-bank", "Scores of neighbours with the bank in half precision", *_NEEDS)
def half_bank(context: Context) -> Produced:
    scores = ("knn", "nnguide?fraction=1", "csi")
    halves = ("knn?half_bank=true", "nnguide?fraction=1&half_bank=true", "csi?half_bank=true")
    return {
        f"half-bank-{folder}": measured(
            context,
            folder,
            [spec for pair in zip(scores, halves, strict=True) for spec in pair],
            "half-bank",
            f"Banks in half precision on {folder}",
        )
        for folder in FOLDERS
    }


@experiment("shaping", "ORA, fDBD and Energy on shaped features", *_NEEDS)
def shaping(context: Context) -> Produced:
    return {
        f"shaping-{folder}": measured(
            context,
            folder,
            SHAPINGS,
            "shaping",
            f"Shaped features on {folder}",
        )
        for folder in FOLDERS
    }
