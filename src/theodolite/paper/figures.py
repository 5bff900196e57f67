"""The paper's figures, from its own networks and data where they are here, else from the data at hand."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ..benchmarks.ensemble import ensemble_scores, require_same_samples
from ..benchmarks.feature_folder import from_folder
from ..benchmarks.feature_sets import TEST
from ..benchmarks.scoring import Scorer
from ..benchmarks.subject import Subject
from ..core.arrays import FloatArray
from ..detectors import ORA
from ..detectors.spec import parse_specs
from ..evaluation import Evaluation
from ..evaluation.metrics import FPR95
from ..report import figures
from ._figure_registry import AtHand, Drawn, paper_figure
from .experiments import Context, Need
from .experiments.angles import angle_scores
from .experiments.mnist import DATA, OE_WEIGHTS, convnet_subject, lenet_subject

CIFAR, IMAGENET = "cifar10-densenet", "imagenet-lite0"
# What the paper drew from: its contrastive networks, and the members of its ensemble.
_CIFAR_SCL = (("cifar10", "resnet18-scl"),)
_IMAGENET_SCL = (("imagenet", "resnet50-scl"),)
_MEMBERS = (("imagenet", "resnet50-scl"), ("imagenet", "resnet50"), ("imagenet", "vit-b16"))


def _folders(*names: str) -> AtHand:
    return lambda context: [from_folder(context.root / name) for name in names]


@paper_figure(
    "fig:teaser", "The triangle of centre, feature and projection", Need(CIFAR), at_hand=_folders(CIFAR)
)
def teaser(_: Context, subjects: Sequence[Subject]) -> Drawn:
    """The deciding triangles of the median ID and the median OOD sample."""
    (subject,) = subjects
    ora = ORA().fit(subject.fit, head=subject.head)
    sets = {"ID": subject.test, **subject.ood}
    views = [figures.median_view(ora, rows, partial(_title, name)) for name, rows in sets.items()]
    return {"figure-triangles": figures.triangles(views)}


@paper_figure(
    "fig:sine",
    "sin α of ID and OOD samples",
    Need(CIFAR),
    Need(IMAGENET),
    at_hand=_folders(CIFAR, IMAGENET),
    pairs=_CIFAR_SCL,
    stand_ins=("angles",),
)
def sine(_: Context, subjects: Sequence[Subject]) -> Drawn:
    return _sines(subjects, "sine", "sin α")


@paper_figure(
    "fig:histograms_angles",
    "sin α, sin θ and their ratio",
    Need(CIFAR),
    Need(IMAGENET),
    at_hand=_folders(CIFAR, IMAGENET),
    pairs=_IMAGENET_SCL,
    stand_ins=("angles",),
)
def histograms_angles(_: Context, subjects: Sequence[Subject]) -> Drawn:
    return _sines(subjects, "sines", "sin α", "sin θ", "sin θ/sin α")


@paper_figure(
    "fig:model_ensemble_hist",
    "Scores of single models and of their ensemble",
    *DATA,
    Need(OE_WEIGHTS),
    at_hand=lambda context: [convnet_subject(context), lenet_subject(context)],
    pairs=_MEMBERS,
    stand_ins=("ensemble",),
)
def model_ensemble(context: Context, subjects: Sequence[Subject]) -> Drawn:
    """The best of the models, and their sum."""
    require_same_samples(subjects)
    members = [_ora_scores(context, subject) for subject in subjects]
    alone = {f"ORA, {subject.name}": scores["ORA"] for subject, scores in zip(subjects, members, strict=True)}
    found = Evaluation.of(alone, known=TEST).metrics
    single = min(alone, key=lambda name: sum(values[FPR95.name] for values in found[name].values()))
    summed = f"ORA, all {len(subjects)} models"
    both = {single: alone[single], summed: ensemble_scores(subjects, members)["ORA"]}
    drawn = figures.ensemble_histograms(
        Evaluation.of(both, known=TEST),
        single=single,
        ensemble=summed,
        title=f"{' + '.join(subject.name for subject in subjects)}: ID and OOD, alone and summed",
    )
    return {"figure-ensemble": drawn}


@paper_figure(
    "fig:image-grid_cifar",
    "ORA's scores on CIFAR-10's OOD sets",
    Need(CIFAR),
    at_hand=_folders(CIFAR),
    pairs=_CIFAR_SCL,
    stand_ins=("all-scores",),
)
def image_grid_cifar(context: Context, subjects: Sequence[Subject]) -> Drawn:
    return _histograms(context, subjects)


@paper_figure(
    "fig:image-grid_imagenet",
    "ORA's scores on ImageNet's OOD sets",
    Need(IMAGENET),
    at_hand=_folders(IMAGENET),
    pairs=_IMAGENET_SCL,
    stand_ins=("all-scores",),
)
def image_grid_imagenet(context: Context, subjects: Sequence[Subject]) -> Drawn:
    return _histograms(context, subjects)


def _title(name: str, predicted: int, other: int) -> str:
    return f"{name}: class {predicted} against {other}"


def _histograms(context: Context, subjects: Sequence[Subject]) -> Drawn:
    return {
        f"figure-ora-{subject.name}": figures.score_histograms(
            Evaluation.of(_ora_scores(context, subject), known=TEST), title=f"ORA (radians) on {subject.name}"
        )
        for subject in subjects
    }


def _sines(subjects: Sequence[Subject], name: str, *rows: str) -> Drawn:
    return {
        f"figure-{name}-{subject.name}": figures.score_histograms(
            Evaluation.of(angle_scores(subject), known=TEST),
            detectors=rows,
            title=f"The law of sines on {subject.name}",
        )
        for subject in subjects
    }


def _ora_scores(context: Context, subject: Subject) -> dict[str, dict[str, FloatArray]]:
    return Scorer(subject, parse_specs(["ora"]), cache=context.scores).run().values
