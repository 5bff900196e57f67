"""Several models of a result seen together: averages over those that were judged on the same data, and ranks.

Figures on different data are not averaged. A published average over models stands beside ours only where
ours is over the very models of that table, each measured as the table's figures are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ..evaluation import list_metrics
from ..published import AVERAGE as OVER_MODELS
from ..published import PublishedCell, list_tables, load_table
from .cells import Cell, PublishedValue
from .compare import published_value
from .feature_sets import AVERAGE, FIT
from .joint import Ground, Joint, ModelAverage
from .result import RunResult

_DIGITS = 6


def join(result: RunResult) -> RunResult:
    """The result with its `Joint`; one model alone has nothing to be joined with."""
    if len(result.models) < 2:
        return result
    grounds = _grounds(result)
    averages: list[ModelAverage] = []
    notes = [] if len(grounds) == 1 else [_different(grounds)]
    for ground in grounds:
        if len(ground.models) > 1:
            found = _averages(result, ground)
            averages += found
            notes += _not_beside(result, ground, found)
    named = _named_apart(averages, grounds)
    return replace(result, joint=Joint(tuple(grounds), tuple(named), _ranks(result), tuple(notes)))


def _grounds(result: RunResult) -> list[Ground]:
    found: dict[tuple[object, ...], Ground] = {}
    for model in result.models:
        facts = result.facts_of(model)
        sets = {name: count for name, count in facts.samples.items() if name != FIT}
        key = (facts.classes, *sorted(sets.items()))
        known = found.get(key, Ground((), facts.classes, sets))
        found[key] = replace(known, models=(*known.models, model))
    return list(found.values())


def _different(grounds: Sequence[Ground]) -> str:
    said = "; ".join(
        f"{', '.join(ground.models)}: {ground.classes:,} classes, "
        + ", ".join(f"{name} {count:,}" for name, count in ground.sets.items())
        for ground in grounds
    )
    return f"The models were judged on different data, so there is no average over all of them. {said}."


# ---------------------------------------------------------------------- averages


def _averages(result: RunResult, ground: Ground) -> list[ModelAverage]:
    """Over all models of a ground; and over those of a published table, where they are some of these."""
    everyone = _average(result, f"average of {len(ground.models)} models", ground.models)
    found = [everyone]
    for table, members in _published_models().items():
        here = _measured_for(result, ground, table)
        if set(here.values()) == set(members) and len(here) == len(members):
            models = tuple(here)
            if models == ground.models:
                found[0] = _beside(result, found[0], table)
            else:
                name = f"average of the {len(models)} models of {table}"
                found.append(_beside(result, _average(result, name, models), table))
    return found


def _average(result: RunResult, name: str, models: Sequence[str]) -> ModelAverage:
    cells: dict[tuple[str, str, str], list[Cell]] = {}
    for cell in result.cells:
        if cell.subject in models:
            cells.setdefault((cell.detector, cell.ood, cell.metric), []).append(cell)
    means = [
        Cell(
            name,
            *key,
            round(float(np.mean([cell.value for cell in found])), _DIGITS),
            found[0].samples,
            over=found[0].over,
        )
        for key, found in cells.items()
        if len(found) == len(models)
    ]
    return ModelAverage(name, tuple(models), tuple(means))


def _beside(result: RunResult, average: ModelAverage, table: str) -> ModelAverage:
    """With the averages that a table prints, where all the figures they summarise stand beside ours."""
    printed: dict[tuple[str, str], PublishedValue] = {
        (cell.column, cell.metric): published_value(cell)
        for cell in load_table(table).cells()
        if cell.backbone == OVER_MODELS
    }
    cells = []
    for cell in average.cells:
        members = [result.cell(model, cell.detector, cell.ood, cell.metric) for model in average.models]
        columns = [{one.column for one in member.published if one.table == table} for member in members]
        common = sorted(set.intersection(*columns))
        values = tuple(printed[column, cell.metric] for column in common if (column, cell.metric) in printed)
        cells.append(replace(cell, published=values))
    return replace(average, cells=tuple(cells))


def _published_models() -> dict[str, tuple[str, ...]]:
    """The tables that print an average over models, and the models it is over."""
    found = {}
    for name in list_tables():
        cells: list[PublishedCell] = list(load_table(name).cells())
        if any(cell.backbone == OVER_MODELS for cell in cells):
            over = dict.fromkeys(cell.backbone for cell in cells if cell.backbone not in (None, OVER_MODELS))
            found[name] = tuple(str(backbone) for backbone in over)
    return found


def _measured_for(result: RunResult, ground: Ground, table: str) -> dict[str, str]:
    """Models with a figure of a table beside their own average, and the table's names for them."""
    cited = {
        cell.subject
        for cell in result.cells
        if cell.ood == AVERAGE and any(one.table == table for one in cell.published)
    }
    return {model: str(result.facts_of(model).backbone) for model in ground.models if model in cited}


def _not_beside(result: RunResult, ground: Ground, averages: Sequence[ModelAverage]) -> Iterator[str]:
    """Why a published average does not stand beside ours, though it is over some of these models."""
    for table, members in _published_models().items():
        here = set(_measured_for(result, ground, table).values())
        models = {result.facts_of(model).backbone for model in ground.models}
        shown = any(one.table == table for over in averages for cell in over.cells for one in cell.published)
        if not shown and models & set(members):
            lacking = ", ".join(member for member in members if member not in here)
            yield (
                f"The published average of {table} is over {len(members)} models and does not stand beside "
                f"ours: here are no figures, on all of its sets, of {lacking}."
                if lacking
                else f"The published average of {table} does not stand beside ours: a model is here twice."
            )


def _named_apart(averages: Sequence[ModelAverage], grounds: Sequence[Ground]) -> list[ModelAverage]:
    """Averages over as many models are told apart by their OOD sets, then by their models."""
    sets = {model: ", ".join([*ground.sets][1:]) for ground in grounds for model in ground.models}
    found = list(averages)
    by_sets = [f"{one.name} on {sets[one.models[0]]}" for one in found]
    by_models = [f"average of {', '.join(one.models)}" for one in found]
    for names in (by_sets, by_models):
        taken = [one.name for one in found]
        found = [
            _renamed(one, name) if taken.count(one.name) > 1 else one
            for one, name in zip(found, names, strict=True)
        ]
    return found


def _renamed(average: ModelAverage, name: str) -> ModelAverage:
    return replace(average, name=name, cells=tuple(replace(cell, subject=name) for cell in average.cells))


# ---------------------------------------------------------------------- ranks


def _ranks(result: RunResult) -> dict[str, dict[str, float]]:
    """Mean places by metric and score, of the scores that every model has."""
    models = result.models
    everywhere = [
        label
        for label in result.detector_names(models[0])
        if all(label in result.detector_names(model) for model in models)
    ]
    found = {}
    for metric in list_metrics():
        if not everywhere or any(metric not in result.metrics(model) for model in models):
            continue
        places = []
        for model in models:
            values = [result.cell(model, label, AVERAGE, metric.name).value for label in everywhere]
            # As printed: a difference that no table shows is none.
            places.append(_places([round(value, 2) for value in values], metric.lower_is_better))
        means = np.mean(places, axis=0)
        found[metric.name] = {
            label: round(float(mean), 4) for label, mean in zip(everywhere, means, strict=True)
        }
    return found


def _places(values: Sequence[float], lower_is_better: bool) -> list[float]:
    """1 for the best; equal values share the mean of their places."""
    signed = [value if lower_is_better else -value for value in values]
    return [
        sum(other < value for other in signed) + (sum(other == value for other in signed) + 1) / 2
        for value in signed
    ]
