"""The page of several models: the joint table first, then tests, then every model's own tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...benchmarks.feature_sets import AVERAGE, FIT
from ...benchmarks.result import RunResult
from ...evaluation import Metric
from ..documents import accuracy_text
from ..tables import View, joint_table, metric_table, paired_tables, printed
from ..tables.joint import RANK, common_metrics, said_of_averages
from ..tables.view import NAME, overall_average, printed_rank
from .headlines import Headline
from .results import MetricView, means_first, recommended_rows, sorted_by


@dataclass(frozen=True)
class ModelPart:
    """A model or an ensemble: a line of facts, its tables, and its pages by what they are called."""

    name: str
    facts: str
    views: list[MetricView]
    pages: Mapping[str, str]


@dataclass(frozen=True)
class PairedPart:
    """The tests of one subject."""

    subject: str
    against: str
    views: list[MetricView]


def joint_views(result: RunResult, sort: str | None = None) -> list[MetricView]:
    """The joint table of every metric that all models have, averages over models and ranks first."""
    said = [
        f"Rank: place among the scores that every model has, averaged over the {len(result.models)} models",
        *(line[0].upper() + line[1:] for line in said_of_averages(result)),
    ]
    averages = () if result.joint is None else result.joint.averages
    overall = overall_average(result)
    return [
        MetricView(
            known,
            means_first(
                joint_table(result, known, View(sort=sort)), [*(mean.name for mean in averages), RANK]
            ),
            (RANK,),
            tuple(said),
            recommended_rows(result),
            # By a column of single models' tables the rows are in no order of this one.
            {AVERAGE: None if overall is None else overall.name, RANK: RANK, NAME: NAME}.get(
                sorted_by(sort, known) or ""
            ),
        )
        for known in common_metrics(result)
    ]


def model_parts(result: RunResult, files: Mapping[str, str], sort: str | None = None) -> list[ModelPart]:
    """Every model and ensemble with its tables; ``files`` are the pages of subjects."""
    view, parts = View(sort=sort), []
    for name in result.tabled_subjects:
        members = result.repeats.get(name, ())
        views = [
            MetricView(
                known,
                means_first(metric_table(result, name, known, view), [AVERAGE, *result.groups(name)]),
                marked=recommended_rows(result),
                sorted_by=sorted_by(sort, known),
            )
            for known in result.metrics(name)
        ]
        pages = {f"page of {one}": files[one] for one in (*members, name) if one in files}
        parts.append(ModelPart(name, _facts(result, name), views, pages))
    return parts


def paired_parts(result: RunResult) -> list[PairedPart]:
    """The tests of every subject, if there are any."""
    if result.paired is None:
        return []
    tested = dict.fromkeys(cell.metric for cell in result.paired.cells)
    views: dict[str, list[MetricView]] = {}
    for subject in dict.fromkeys(cell.subject for cell in result.paired.cells):
        metrics = [known for known in result.metrics(subject) if known.name in tested]
        tables = paired_tables(result, View(tuple(known.name for known in metrics)), subject=subject)
        views[subject] = [
            MetricView(known, table, ("p", "p (Holm)"), (table.legend[0].upper() + table.legend[1:],))
            for known, table in zip(metrics, tables, strict=True)
        ]
    return [PairedPart(subject, result.paired.against, found) for subject, found in views.items()]


def joint_notes(result: RunResult) -> list[str]:
    """The lines below the title.

    What keeps models apart, repeats, doubts about heads, what scores were chosen on, what was left out, and
    what to know before it is believed.
    """
    notes = [] if result.joint is None else list(result.joint.notes)
    notes += [] if result.paired is None else result.paired.notes
    notes += [
        f"{name}: mean over {len(members)} repeats, {', '.join(members)}."
        for name, members in result.repeats.items()
    ]
    notes += [f"measured by force: {doubt}" for doubt in result.doubts.values()]
    notes += [f"{label}: {said}." for label, said in result.choices.items()]
    notes += [f"Left out: {line}" for line in result.left_out]
    return notes + [f"Note: {line}" for line in (*result.notes, *result.cautions)]


def joint_headlines(result: RunResult) -> list[Headline]:
    """How many models and scores; the best average over models, or the best rank where there is none."""
    scores = dict.fromkeys(cell.detector for cell in result.cells)
    sets = dict.fromkeys(ood for model in result.models for ood in result.ood_names(model))
    return [
        Headline("models", str(len(result.models)), f"and {len(scores)} scores"),
        Headline("out-of-distribution", str(len(sets)), f"sets: {', '.join(sets)}"),
        *(best for known in common_metrics(result) if known.tabled for best in _best(result, known)),
    ]


def _best(result: RunResult, known: Metric) -> list[Headline]:
    average = overall_average(result)
    if average is not None:
        found = {
            cell.detector: cell.value
            for cell in average.cells
            if (cell.ood, cell.metric) == (AVERAGE, known.name)
        }
        if found:
            best = known.best(found.values())
            name = next(label for label, value in found.items() if value == best)
            return [Headline(f"{known.title} {known.arrow}, {average.name}", f"{printed(best)} %", name)]
    places = {} if result.joint is None else result.joint.ranks.get(known.name, {})
    if not places:
        return []
    name = min(places, key=lambda label: places[label])
    return [Headline(f"best mean rank by {known.title}", printed_rank(places[name]), name)]


def _facts(result: RunResult, name: str) -> str:
    """Width, classes, samples and accuracy of a model; of repeats, the accuracy of each."""
    members = [member for member in result.repeats.get(name, (name,)) if member in result.subjects]
    if not members:
        return ""
    facts = result.subjects[members[0]]
    sets = ", ".join(f"{part} {count:,}" for part, count in facts.samples.items() if part != FIT)
    found = [accuracy_text(result.subjects[member]) for member in members]
    accuracy = f"; ID accuracy {', '.join(found)}" if all(found) else ""
    return f"D = {facts.width:,}, C = {facts.classes:,}; {sets}{accuracy}."
