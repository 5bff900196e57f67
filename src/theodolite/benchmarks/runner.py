"""The runner: subjects and entries in, results and files out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..core.arrays import FloatArray
from ..core.errors import InputError
from ..core.files import write_bytes, write_json
from ..detectors.spec import Entry
from ..report.forms import csv_text, latex, markdown
from .protocols import TEST
from .results import FORMAT, Intervals, ensemble_cells, entry_facts, model_facts, subject_cells, versions
from .scoring import Scorer, Scores
from .subject import Subject


@dataclass
class Outcome:
    """The results of a run, and the scores they were computed from."""

    results: dict[str, Any]
    scores: dict[str, Scores] = field(default_factory=dict)
    subjects: dict[str, Subject] = field(default_factory=dict)


def run(
    subjects: Sequence[Subject],
    entries: Sequence[Entry],
    *,
    title: str,
    command: str,
    ensemble: bool = False,
    intervals: Intervals | None = None,
    cache: Path | None = None,
    progress: Callable[[str, str, int, int], None] = lambda _model, _name, _done, _total: None,
) -> Outcome:
    """Score every entry on every subject, and measure."""
    names = [subject.name for subject in subjects]
    if len(set(names)) < len(names):
        raise InputError(f"two models are called the same: {', '.join(names)}")
    intervals = intervals or Intervals()
    outcome = Outcome(_empty(title, command, subjects, entries, intervals))
    for subject in subjects:

        def show(name: str, done: int, total: int, subject: Subject = subject) -> None:
            progress(subject.name, name, done, total)

        scores = Scorer(subject, entries, cache=cache, progress=show).run()
        outcome.scores[subject.name], outcome.subjects[subject.name] = scores, subject
        _enter(outcome.results, subject, entries, scores, intervals)
    if ensemble:
        _enter_ensemble(outcome, entries, intervals)
    if not outcome.results["cells"]:
        reasons = [reason for part in outcome.scores.values() for reason in part.refused.values()]
        raise InputError(f"no score could be computed: {'; '.join(reasons) or 'none was asked for'}")
    return outcome


def _empty(
    title: str, command: str, subjects: Sequence[Subject], entries: Sequence[Entry], intervals: Intervals
) -> dict[str, Any]:
    facts = {entry.label: entry_facts(entry) for entry in entries}
    seeds = {label: fact["options"]["seed"] for label, fact in facts.items() if "seed" in fact["options"]}
    return {
        "format": FORMAT,
        "title": title,
        "command": command,
        "protocol": subjects[0].protocol,
        "versions": versions(),
        "seeds": {"bootstrap": intervals.seed, **seeds},
        "bootstrap": {"replicates": intervals.replicates, "level": intervals.level},
        "models": {},
        "entries": facts,
        "cells": [],
        "refused": {},
        "seconds": {},
    }


def _enter(
    results: dict[str, Any], subject: Subject, entries: Sequence[Entry], scores: Scores, intervals: Intervals
) -> None:
    results["models"][subject.name] = model_facts(subject)
    results["cells"] += subject_cells(subject, entries, scores, intervals)
    if scores.refused:
        results["refused"][subject.name] = dict(scores.refused)
    results["seconds"][subject.name] = {
        "fit": round(scores.fit_seconds, 3),
        "score": {label: round(spent, 3) for label, spent in scores.seconds.items()},
    }


def _enter_ensemble(outcome: Outcome, entries: Sequence[Entry], intervals: Intervals) -> None:
    subjects = list(outcome.subjects.values())
    summed = ensemble_scores(subjects, [outcome.scores[subject.name].values for subject in subjects])
    name = f"ensemble of {len(subjects)}: " + " + ".join(subject.name for subject in subjects)
    outcome.results["cells"] += ensemble_cells(name, subjects, entries, summed, intervals)
    outcome.scores[name] = Scores(values={label: dict(sets) for label, sets in summed.items()})


def ensemble_scores(
    subjects: Sequence[Subject], scores: Sequence[Mapping[str, Mapping[str, FloatArray]]]
) -> dict[str, dict[str, FloatArray]]:
    """The plain sum of the members' scores, as in the paper; refused unless all saw the same samples."""
    if len(subjects) < 2:
        raise InputError("an ensemble needs at least two models: pass --model twice")
    common = [name for name in subjects[0].ood if all(name in subject.ood for subject in subjects)]
    for name in (TEST, *common):
        rows = [subject.test if name == TEST else subject.ood[name] for subject in subjects]
        if len({part.samples for part in rows}) > 1:
            raise InputError(
                f"the models did not see the same samples of {name}, in the same order: an ensemble adds "
                f"their scores sample by sample"
            )
    labels = [label for label in scores[0] if all(label in member for member in scores)]
    return {
        label: {name: np.sum([member[label][name] for member in scores], axis=0) for name in (TEST, *common)}
        for label in labels
    }


def write_files(results: Mapping[str, Any], folder: Path, name: str = "results") -> list[Path]:
    """The results as JSON, CSV, Markdown and LaTeX."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / f"{name}.json", results)
    for suffix, text in (("csv", csv_text(results)), ("md", markdown(results)), ("tex", latex(results))):
        write_bytes(folder / f"{name}.{suffix}", text.encode())
    return [folder / f"{name}.{suffix}" for suffix in ("json", "csv", "md", "tex")]
