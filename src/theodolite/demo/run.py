"""The demo from end to end: train, fit every detector in one pass, evaluate, draw."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor

from ..core.arrays import as_scores
from ..detectors import ORA, RECOMMENDED, Detector, create, detector_record, fit_many, list_detectors
from ..evaluation.evaluation import Evaluation, evaluate_detectors
from ..evaluation.metrics import accuracy
from ..guard.calibration import Calibration
from ..models.nets.lenet import LeNet5, features
from ..models.training import one_thread, train
from ..reference.head import Head
from ..report import figures
from ..report.tables import evaluation_table
from .data import KNOWN_DIGITS, Pictures, load_pictures
from .photos import judge_photos
from .report import write_demo_report

_DRAWN = "ORA"


@dataclass(frozen=True)
class DemoResult:
    accuracy: float
    evaluation: Evaluation
    files: list[Path]
    report: Path


@one_thread()
def run_demo(output: Path, *, epochs: int, seed: int, console: Console) -> DemoResult:
    """Run the demo, print its table and write its pictures and its report to ``output``."""
    pictures = load_pictures(seed)
    model = _train(pictures, epochs, seed, console)
    head = Head.from_linear(model.head)
    seen = {name: features(model, images) for name, images in pictures.ood.items()}
    id_features = features(model, pictures.test)
    correct = accuracy(head(id_features), pictures.test_labels)
    detectors = {detector_record(name).title: create(name) for name in list_detectors()}
    fit_many(list(detectors.values()), features(model, pictures.train), pictures.train_labels, head=head)
    evaluation = evaluate_detectors(detectors, id_features, seen)
    console.print(
        f"\nLeNet-5 on digits 0-{KNOWN_DIGITS - 1}: {100 * correct:.1f} % of {len(id_features):,} "
        f"held-out digits right"
    )
    console.print(evaluation_table(evaluation, title="What the network never saw"))
    console.print(_guard_line(evaluation), highlight=False)
    files = _draw(output, pictures, detectors, evaluation, id_features, seen)
    files += judge_photos(output, console)
    report = write_demo_report(
        output / "report.html",
        pictures=pictures,
        detectors=detectors,
        evaluation=evaluation,
        id_features=id_features,
        seen=seen,
        accuracy=correct,
        chosen=detector_record(RECOMMENDED).title,
        drawn=_DRAWN,
        epochs=epochs,
        seed=seed,
    )
    return DemoResult(correct, evaluation, files, report)


def _train(pictures: Pictures, epochs: int, seed: int, console: Console) -> LeNet5:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(f"training LeNet-5 on {len(pictures.train):,} digits", total=epochs)

        def epoch_done(loss: float) -> None:
            bar.update(task, advance=1, description=f"training LeNet-5, loss {loss:.3f}")

        return train(
            lambda: LeNet5(KNOWN_DIGITS),
            pictures.train,
            pictures.train_labels,
            epochs=epochs,
            seed=seed,
            progress=epoch_done,
        )


def _guard_line(evaluation: Evaluation) -> str:
    """What the recommended score flags with its threshold set on one half of the held-out digits."""
    name = detector_record(RECOMMENDED).title
    known = evaluation.id_scores[name]
    guard = Calibration(known[::2])
    flagged = {"other held-out digits": known[1::2], **evaluation.ood_scores[name]}
    shares = ", ".join(f"{100 * guard.is_ood(rows).mean():.1f} % of {who}" for who, rows in flagged.items())
    low, high = guard.rate_interval()
    return (
        f"\nA guard with {name} (recommended), set to at most 5 % false alarms on average (this one, with "
        f"probability 0.9, {100 * low:.1f} to {100 * high:.1f} %), flags {shares}"
    )


def _draw(
    output: Path,
    pictures: Pictures,
    detectors: dict[str, Detector],
    evaluation: Evaluation,
    id_features: Tensor,
    seen: dict[str, Tensor],
) -> list[Path]:
    title = f"digits 0-{KNOWN_DIGITS - 1} against what the network never saw"
    # Eighty panels of one size: nobody edits them, so the large SVG is left out.
    everything = figures.score_histograms(evaluation, title=title)
    files = figures.save(everything, output / "histograms", suffixes=(".png",))
    alone = figures.score_histograms(evaluation, detectors=[_DRAWN], title=f"{_DRAWN} (radians): {title}")
    files += figures.save(alone, output / "histogram-ora")
    ora = detectors[_DRAWN]
    assert isinstance(ora, ORA)
    near = next(iter(pictures.ood))
    views = [
        _median_view(ora, "ID: a held-out digit, read as {predicted}", id_features, pictures.test),
        _median_view(ora, f"OOD ({near}), read as {{predicted}}", seen[near], pictures.ood[near]),
    ]
    return files + figures.save(figures.triangles(views), output / "triangle")


def _median_view(ora: ORA, title: str, rows: Tensor, images: Tensor) -> figures.TriangleView:
    """The triangle of the sample with the median score: typical, not hand-picked."""
    scores = as_scores(ora.score(rows), "scores")
    chosen = int(torch.from_numpy(scores).argsort()[len(scores) // 2])
    sighting = ora.sight(rows[chosen : chosen + 1])
    predicted, other = int(sighting.predicted[0]), int(sighting.furthest[0])
    return figures.TriangleView(
        title=f"{title.format(predicted=predicted)}; furthest boundary {predicted}|{other}",
        angle=float(sighting.angle[0]),
        distance=float(sighting.distance[0]),
        centre_distance=float(sighting.centre_distance[0]),
        height=float(sighting.height[0]),
        image=images[chosen, 0].numpy(),
    )
