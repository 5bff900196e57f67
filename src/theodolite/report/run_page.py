"""The HTML report of a run: one page a model, with the samples that one score finds most telling."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ..benchmarks.feature_sets import FeatureSet, StoreSet
from ..benchmarks.protocols import TEST
from ..benchmarks.results import TABLED
from ..benchmarks.runner import Outcome
from ..benchmarks.scoring import Scores
from ..benchmarks.subject import Subject
from ..core.arrays import FloatArray
from ..detectors import ORA, Detector, fit_many
from ..evaluation.evaluation import Evaluation
from ..evaluation.metrics import evaluate
from .environment import environment
from .grid import grids
from .page import ReportData, SampleCard, write_report
from .samples import sample_cards

Picture = Callable[[str, int], Image.Image | None]
_CARDS = 12
_HIGHLIGHT = "ORA"


def write_reports(
    outcome: Outcome, folder: Path, *, picture: Picture = lambda _set, _row: None
) -> list[Path]:
    """``report.html``, or one a model where there are several. ``picture`` gives a sample's image, if any."""
    shown = [model for model in outcome.scores if outcome.scores[model].values]
    names = ["report.html"] if len(outcome.scores) == 1 else _names(shown)
    return [
        write_report(report_data(outcome, model, picture), folder / name)
        for model, name in zip(shown, names, strict=False)
    ]


def _names(models: Sequence[str]) -> list[str]:
    """A file name a model; those that would be called the same are numbered."""
    slugs = [_slug(model) for model in models]
    return [
        f"report-{slug}{f'-{slugs[:place].count(slug) + 1}' if slug in slugs[:place] else ''}.html"
        for place, slug in enumerate(slugs)
    ]


def report_data(outcome: Outcome, model: str, picture: Picture = lambda _set, _row: None) -> ReportData:
    """Everything the page of one model (or of the ensemble) shows."""
    results, subject = outcome.results, outcome.subjects.get(model)
    found = evaluation_of(outcome.scores[model])
    facts = results["models"].get(model, {})
    suspicious: list[SampleCard] = []
    deceptive: list[SampleCard] = []
    if subject is not None and _HIGHLIGHT in found.metrics:
        suspicious, deceptive = _telling(subject, found, picture)
    accuracy = facts.get("accuracy")
    published = _published(outcome, model)
    return ReportData(
        title=f"{results['title']}: {model}" if len(outcome.scores) > 1 else results["title"],
        evaluation=found,
        id_name="held-out ID data",
        summary=_summary(outcome, model),
        accuracy=None if accuracy is None else accuracy / 100,
        published={key: float(text.rstrip("†")) for key, text in published.items()},
        doubtful={key for key, text in published.items() if text.endswith("†")},
        intervals={
            (cell["entry"], cell["ood"], metric): (bounds[0], bounds[1])
            for cell in results["cells"]
            if cell["model"] == model
            for metric, bounds in cell.get("intervals", {}).items()
        },
        suspicious_id=suspicious,
        deceptive_ood=deceptive,
        environment=environment(),
        provenance=dict(facts.get("digests", {})),
        command=results["command"],
        highlight=_HIGHLIGHT,
    )


def evaluation_of(scores: Scores) -> Evaluation:
    """The scores of one model in the form that figures and pages take."""
    ood = {
        label: {name: part for name, part in sets.items() if name != TEST}
        for label, sets in scores.values.items()
    }
    id_scores = {label: sets[TEST] for label, sets in scores.values.items()}
    metrics = {
        label: {name: evaluate(id_scores[label], part) for name, part in sets.items()}
        for label, sets in ood.items()
    }
    return Evaluation(id_scores, ood, metrics)


def _summary(outcome: Outcome, model: str) -> list[str]:
    counts = outcome.results["models"].get(model, {}).get("samples", {})
    lines = [", ".join(f"{name} {count:,}" for name, count in counts.items())] if counts else []
    refused = outcome.results["refused"].get(model, {})
    return lines + [f"{label} is left out: {reason}" for label, reason in refused.items()]


def _published(outcome: Outcome, model: str) -> dict[tuple[str, str, str], str]:
    """The same printed numbers that the tables show."""
    return {
        (label, column, grid.metric): cell.published
        for grid in grids(outcome.results)
        if grid.model == model and grid.metric in TABLED
        for label, row in grid.rows
        for column, cell in zip(grid.columns, row, strict=True)
        if cell.published
    }


def _telling(
    subject: Subject, found: Evaluation, picture: Picture
) -> tuple[list[SampleCard], list[SampleCard]]:
    """The ID samples that score lowest, and of every OOD set those that score highest."""
    ora = ORA()
    fit_many([ora], subject.fit, head=subject.head)
    suspicious = _cards(
        ora, subject.test, found.id_scores[_HIGHLIGHT], TEST, picture, lowest=True, count=_CARDS
    )
    share = max(1, _CARDS // len(subject.ood))
    deceptive = [
        card
        for name, rows in subject.ood.items()
        for card in _cards(
            ora, rows, found.ood_scores[_HIGHLIGHT][name], name, picture, lowest=False, count=share
        )
    ]
    return suspicious, deceptive


def _cards(
    detector: Detector,
    rows: FeatureSet,
    scores: FloatArray,
    name: str,
    picture: Picture,
    *,
    lowest: bool,
    count: int,
) -> list[SampleCard]:
    order = np.argsort(scores if lowest else -scores, kind="stable")[:count].tolist()
    features, labels = _rows(rows, order)
    names = _class_names(rows)
    return sample_cards(
        detector,
        features,
        scores[order],
        lowest=lowest,
        count=count,
        data_set=name,
        class_name=lambda label: names[label] if names is not None and label < len(names) else str(label),
        labels=labels if name == TEST else None,
        picture=lambda place: picture(name, order[place]),
        sample_id=lambda place: f"#{order[place]}",
    )


def _rows(rows: FeatureSet, wanted: Sequence[int]) -> tuple[Tensor, Tensor | None]:
    """Some rows of a set in the order wanted, found in one pass."""
    places: Mapping[int, int] = {row: place for place, row in enumerate(wanted)}
    features: list[Tensor] = [torch.empty(0)] * len(wanted)
    labels: list[int | None] = [None] * len(wanted)
    start = 0
    for batch, batch_labels, _ in rows:
        for row in range(start, start + len(batch)):
            if row in places:
                features[places[row]] = batch[row - start].float()
                label = -1 if batch_labels is None else int(batch_labels[row - start])
                labels[places[row]] = None if label < 0 else label
        start += len(batch)
    known = [label for label in labels if label is not None]
    return torch.stack(features), torch.tensor(known) if len(known) == len(wanted) else None


def _class_names(rows: FeatureSet) -> tuple[str, ...] | None:
    return rows.store.class_names if isinstance(rows, StoreSet) else None


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", text).strip("-")
