"""The paper's figures, drawn from the data at hand."""

from __future__ import annotations

from functools import partial

from ..benchmarks.ensemble import ensemble_scores
from ..benchmarks.feature_folder import from_folder
from ..benchmarks.feature_sets import TEST
from ..benchmarks.scoring import Scorer
from ..benchmarks.subject import Subject
from ..core.arrays import FloatArray
from ..detectors import ORA
from ..detectors.spec import parse_specs
from ..evaluation import Evaluation
from ..report import figures
from ._figure_registry import Drawn, paper_figure
from .experiments import Context, Need
from .experiments.angles import angle_scores
from .experiments.mnist import DATA, OE_WEIGHTS, convnet_subject, lenet_subject

CIFAR, IMAGENET = "cifar10-densenet", "imagenet-lite0"


@paper_figure("fig:teaser", "The triangle of centre, feature and projection", Need(CIFAR))
def teaser(context: Context) -> Drawn:
    """The deciding triangles of the median ID and the median OOD sample."""
    subject = from_folder(context.root / CIFAR)
    ora = ORA().fit(subject.fit, head=subject.head)
    sets = {"ID": subject.test, **subject.ood}
    views = [figures.median_view(ora, rows, partial(_title, name)) for name, rows in sets.items()]
    return {"figure-triangles": figures.triangles(views)}


@paper_figure("fig:sine", "sin α of ID and OOD samples", Need(CIFAR), Need(IMAGENET), stand_ins=("angles",))
def sine(context: Context) -> Drawn:
    return _sines(context, "sine", "sin α")


@paper_figure(
    "fig:histograms_angles",
    "sin α, sin θ and their ratio",
    Need(CIFAR),
    Need(IMAGENET),
    stand_ins=("angles",),
)
def histograms_angles(context: Context) -> Drawn:
    return _sines(context, "sines", "sin α", "sin θ", "sin θ/sin α")


@paper_figure(
    "fig:model_ensemble_hist",
    "Scores of single models and of their ensemble",
    *DATA,
    Need(OE_WEIGHTS),
    stand_ins=("ensemble",),
)
def model_ensemble(context: Context) -> Drawn:
    """The better of two models, and their sum."""
    subjects = [convnet_subject(context), lenet_subject(context)]
    members = [_ora_scores(context, subject) for subject in subjects]
    single, summed = f"ORA, {subjects[0].name}", "ORA, both models"
    both = {single: members[0]["ORA"], summed: ensemble_scores(subjects, members)["ORA"]}
    drawn = figures.ensemble_histograms(
        Evaluation.of(both, known=TEST),
        single=single,
        ensemble=summed,
        title="MNIST against what neither network saw",
    )
    return {"figure-ensemble": drawn}


@paper_figure(
    "fig:image-grid_cifar", "ORA's scores on CIFAR-10's OOD sets", Need(CIFAR), stand_ins=("all-scores",)
)
def image_grid_cifar(context: Context) -> Drawn:
    return _histograms(context, CIFAR)


@paper_figure(
    "fig:image-grid_imagenet",
    "ORA's scores on ImageNet's OOD sets",
    Need(IMAGENET),
    stand_ins=("all-scores",),
)
def image_grid_imagenet(context: Context) -> Drawn:
    return _histograms(context, IMAGENET)


def _title(name: str, predicted: int, other: int) -> str:
    return f"{name}: class {predicted} against {other}"


def _histograms(context: Context, folder: str) -> Drawn:
    found = Evaluation.of(_ora_scores(context, from_folder(context.root / folder)), known=TEST)
    return {f"figure-ora-{folder}": figures.score_histograms(found, title=f"ORA (radians) on {folder}")}


def _sines(context: Context, name: str, *rows: str) -> Drawn:
    return {
        f"figure-{name}-{folder}": figures.score_histograms(
            Evaluation.of(angle_scores(from_folder(context.root / folder)), known=TEST),
            detectors=rows,
            title=f"The law of sines on {folder}",
        )
        for folder in (CIFAR, IMAGENET)
    }


def _ora_scores(context: Context, subject: Subject) -> dict[str, dict[str, FloatArray]]:
    return Scorer(subject, parse_specs(["ora"]), cache=context.scores).run().values
