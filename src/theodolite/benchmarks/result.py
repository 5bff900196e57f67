"""The result of a run: one typed record, of which every table, page, figure and file is a view.

`to_json` and `from_json` are the file ``results.json``. The scores behind the cells and the samples worth a
look stay with a result in memory, for pages and figures; a file leaves them out.
"""

from __future__ import annotations

import platform
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch

from .._version import __version__
from ..core.errors import FormatError, InputError
from ..core.plain import JsonObject, JsonValue, from_plain, to_plain
from ..detectors import detector_record, list_detectors
from ..evaluation import Evaluation, Metric, list_metrics
from .cells import Cell, cells_from_json, cells_to_json
from .facts import Bootstrap, DetectorFacts, Seconds, SubjectFacts
from .feature_sets import TEST
from .joint import Joint
from .paired import PairedTests
from .telling import TellingSample

FORMAT = "theodolite-results/1"
HIGHLIGHT = "ORA"


@dataclass(frozen=True)
class RunResult:
    """A run: every cell, what it was measured on and with, and what was left out and why.

    ``notes`` say what to know before it is believed; ``doubts`` are models that were measured by force, and
    why their head seems not to be that of their features. ``repeats`` are the subjects behind each model that
    was measured several times; its own cells are their means. ``joint`` says what holds for several models
    together, ``paired`` how scores differ from one. ``highlight`` is the detector that chose the samples
    worth a look, and that pages show first.

    >>> id_test, fog = np.array([2.0, 3.0, 4.0]), np.array([1.0, 2.5])
    >>> result = th.result_of_scores({"mine": {"id_test": id_test, "fog": fog}}, title="Mine")
    >>> result.cell("model", "mine", "average", "fpr95").value
    50.0
    """

    title: str
    command: str
    cells: tuple[Cell, ...]
    subjects: Mapping[str, SubjectFacts] = field(default_factory=dict)
    detectors: Mapping[str, DetectorFacts] = field(default_factory=dict)
    protocol: str | None = None
    refused: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    seeds: Mapping[str, int] = field(default_factory=dict)
    bootstrap: Bootstrap | None = None
    seconds: Mapping[str, Seconds] | None = None
    repeats: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    joint: Joint | None = None
    paired: PairedTests | None = None
    versions: Mapping[str, str] = field(default_factory=lambda: versions())
    notes: tuple[str, ...] = ()
    doubts: Mapping[str, str] = field(default_factory=dict)
    evaluations: Mapping[str, Evaluation] = field(default_factory=dict, compare=False, repr=False)
    telling: Mapping[str, Sequence[TellingSample]] = field(default_factory=dict, compare=False, repr=False)
    highlight: str = field(default=HIGHLIGHT, compare=False, repr=False)

    # ------------------------------------------------------------------ looking things up

    @property
    def subject_names(self) -> list[str]:
        """Models, and the ensemble of them if there is one, in the order of the run."""
        return list(dict.fromkeys(cell.subject for cell in self.cells))

    @property
    def models(self) -> list[str]:
        """The models that were measured, in the order of the run: no ensemble, and repeats of one as one."""
        measured = set(self.subject_names)
        model_of = {member: name for name, members in self.repeats.items() for member in members}
        return list(dict.fromkeys(model_of.get(name, name) for name in self.subjects if name in measured))

    @property
    def tabled_subjects(self) -> list[str]:
        """Models and ensembles, in the order of the run; of repeats their mean alone."""
        members = {member for repeated in self.repeats.values() for member in repeated}
        return [name for name in self.subject_names if name not in members]

    def facts_of(self, model: str) -> SubjectFacts:
        """Of a model; of one with repeats, those of the first."""
        return self.subjects[self.repeats.get(model, (model,))[0]]

    def detector_names(self, subject: str) -> list[str]:
        return list(dict.fromkeys(cell.detector for cell in self.cells if cell.subject == subject))

    def ood_names(self, subject: str) -> list[str]:
        """The OOD sets of a subject; the average is not among them."""
        cells = (cell for cell in self.cells if cell.subject == subject and cell.samples is not None)
        return list(dict.fromkeys(cell.ood for cell in cells))

    def groups(self, subject: str) -> dict[str, tuple[str, ...]]:
        """The means over some OOD sets that a subject has, such as near and far: what each is over."""
        return {cell.ood: cell.over for cell in self.cells if cell.subject == subject and cell.over}

    def metrics(self, subject: str) -> list[Metric]:
        """The metrics that were measured, in the order they are shown."""
        found = {cell.metric for cell in self.cells if cell.subject == subject}
        return [metric for metric in list_metrics() if metric.name in found]

    def cell(self, subject: str, detector: str, ood: str, metric: str) -> Cell:
        """One cell; ``ood`` may be ``"average"``."""
        key = (subject, detector, ood, metric)
        if key not in self._index:
            raise InputError(f"no cell for {', '.join(key)}: models are {', '.join(self.subject_names)}")
        return self._index[key]

    @cached_property
    def _index(self) -> dict[tuple[str, str, str, str], Cell]:
        return {(cell.subject, cell.detector, cell.ood, cell.metric): cell for cell in self.cells}

    @property
    def left_out(self) -> list[str]:
        """What is not in the tables, and why."""
        lines = [
            f"{name}, {label}: {reason}"
            for name, refused in self.refused.items()
            for label, reason in refused.items()
        ]
        return lines + [
            f"{name}, {ood} is missing: {reason}"
            for name, facts in self.subjects.items()
            for ood, reason in facts.missing.items()
        ]

    @property
    def cautions(self) -> list[str]:
        """What to know before a row of some model is trusted; nothing of scores that are not known here."""
        return self.cautions_of(self.subjects)

    def cautions_of(self, models: Collection[str]) -> list[str]:
        """The cautions of some models; rows of which the same is to be said stand together."""
        known = set(list_detectors())
        found: dict[tuple[str, str], list[str]] = {}
        for label, facts in self.detectors.items():
            for name in [name for name in self.subjects if name in models and facts.detector in known]:
                caution = _caution(facts, self.subjects[name].classes)
                if caution is not None:
                    found.setdefault((name, caution), []).append(label)
        return [f"{name}, {', '.join(labels)}: {caution}" for (name, caution), labels in found.items()]

    @property
    def choices(self) -> dict[str, str]:
        """Scores whose settings were chosen, and on what."""
        return {label: facts.chosen_on for label, facts in self.detectors.items() if facts.chosen_on}

    @property
    def accuracies(self) -> list[str]:
        """How often each model gives the labels of its held-out ID samples, where they have any."""
        return [
            f"{name}: {facts.accuracy:.2f} % of the labels of {facts.samples[TEST]:,} {TEST} samples are "
            f"given by the head of {facts.classes:,} classes"
            for name, facts in self.subjects.items()
            if facts.accuracy is not None and TEST in facts.samples
        ]

    # ------------------------------------------------------------------ files

    def to_json(self) -> JsonObject:
        """As plain values; the metrics of a pair of detector and OOD set stand together."""
        content: JsonObject = {
            "format": FORMAT,
            "title": self.title,
            "command": self.command,
            "protocol": self.protocol,
            "versions": to_plain(self.versions),
            "seeds": to_plain(self.seeds),
        }
        if self.bootstrap is not None:
            content["bootstrap"] = to_plain(self.bootstrap)
        content |= {
            "models": {name: facts.to_json() for name, facts in self.subjects.items()},
            "entries": {label: facts.to_json() for label, facts in self.detectors.items()},
            "cells": cells_to_json(self.cells),
            "refused": to_plain(self.refused),
        }
        if self.notes:
            content["notes"] = to_plain(self.notes)
        if self.seconds is not None:
            content["seconds"] = {name: spent.to_json() for name, spent in self.seconds.items()}
        if self.doubts:
            content["doubts"] = to_plain(self.doubts)
        if self.repeats:
            content["repeats"] = to_plain(self.repeats)
        if self.joint is not None:
            content["joint"] = self.joint.to_json()
        if self.paired is not None:
            content["paired"] = to_plain(self.paired)
        return content

    @classmethod
    def from_json(cls, content: Mapping[str, JsonValue]) -> RunResult:
        """The result that `to_json` wrote; entries that a study adds of its own are left aside."""
        if content.get("format") != FORMAT:
            raise FormatError(f"the content has format {content.get('format')!r}; expected {FORMAT}")
        read = from_plain(_File, {key: content[key] for key in _File.__annotations__ if key in content})
        return cls(
            title=read.title,
            command=read.command,
            cells=cells_from_json(read.cells),
            subjects=read.models,
            detectors=read.entries,
            protocol=read.protocol,
            refused=read.refused,
            seeds=read.seeds,
            bootstrap=read.bootstrap,
            seconds=read.seconds,
            doubts=read.doubts,
            repeats=read.repeats,
            joint=None if read.joint is None else Joint.from_json(read.joint),
            paired=read.paired,
            versions=read.versions,
            notes=read.notes,
        )


@dataclass(frozen=True)
class _File:
    """The entries of ``results.json``."""

    title: str
    command: str
    protocol: str | None
    versions: Mapping[str, str]
    seeds: Mapping[str, int]
    models: Mapping[str, SubjectFacts]
    entries: Mapping[str, DetectorFacts]
    cells: tuple[Mapping[str, JsonValue], ...]
    refused: Mapping[str, Mapping[str, str]]
    bootstrap: Bootstrap | None = None
    seconds: Mapping[str, Seconds] | None = None
    notes: tuple[str, ...] = ()
    doubts: Mapping[str, str] = field(default_factory=dict)
    repeats: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    joint: Mapping[str, JsonValue] | None = None
    paired: PairedTests | None = None


def _caution(facts: DetectorFacts, classes: int) -> str | None:
    kind = detector_record(str(facts.detector)).detector
    return kind.caution(facts.options or {}, classes)


def versions() -> dict[str, str]:
    """Of what computed a result."""
    return {
        "theodolite": __version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
