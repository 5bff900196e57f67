"""Scores of every spec on every set of a subject: one pass to fit all, one pass a set to score all.

What is on disk already is read; a run that was interrupted fits again, and scores only what is not there.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch

from ..core.arrays import FloatArray
from ..core.errors import InputError
from ..detectors import Detector, MultiLayer, fit_many
from ..detectors._together import Together
from ..detectors.spec import DetectorSpec
from .feature_sets import FIT, FeatureSet
from .score_cache import ScoreCache
from .subject import Subject
from .views import view_of, why_not

Progress: TypeAlias = Callable[[str, int, int], None]


@dataclass
class Scores:
    """What came out: ``values[label][set]``; specs that refused the data, with their reason; seconds.

    ``seconds[label]`` is what one score alone asked for; what several asked for is in ``shared_seconds``.
    """

    values: dict[str, dict[str, FloatArray]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    shared_seconds: float = 0.0
    fit_seconds: float = 0.0
    reused: int = 0

    def add(self, other: Scores) -> None:
        """Take what came out of other scores."""
        self.values |= other.values
        self.refused |= other.refused
        self.seconds |= other.seconds
        self.shared_seconds += other.shared_seconds
        self.fit_seconds += other.fit_seconds
        self.reused += other.reused


class Scorer:
    """Scores one subject. ``cache`` is the folder of finished scores, or None to keep nothing.

    ``fit`` are rows to fit on in place of the subject's.
    """

    def __init__(
        self,
        subject: Subject,
        specs: Sequence[DetectorSpec],
        *,
        cache: Path | None = None,
        fit: FeatureSet | None = None,
        progress: Progress = lambda _name, _done, _total: None,
    ) -> None:
        if fit is not None and cache is not None:
            raise InputError("finished scores are of all rows to fit on: with fit there is no cache")
        self.subject = subject
        self.fit = subject.fit if fit is None else fit
        self.specs = list(specs)
        self.progress = progress
        self.cache = ScoreCache(cache, subject)
        self._detectors: dict[str, Detector] = {}

    @property
    def detectors(self) -> Mapping[str, Detector]:
        """The detectors that this run had to fit; none where every score was on disk."""
        return self._detectors

    def fitted(self, label: str) -> Detector:
        """The detector of a label, fitted now if this run had no need to."""
        if label not in self._detectors:
            self._fit([spec for spec in self.specs if spec.label == label], Scores())
        return self._detectors[label]

    def of_held_back(self, rest: FeatureSet, held_back: FeatureSet, result: Scores) -> None:
        """Scores of rows held back, by copies that are fitted on the rest; they stand as a set `FIT`."""
        copies = Scorer(self.subject, self.own, fit=rest, progress=self.progress)
        copies._fit(self.own, result)
        copies._score_set(FIT, held_back, self.own, result)

    @property
    def own(self) -> list[DetectorSpec]:
        """The specs that are scores of the subject's own features."""
        return [spec for spec in self.specs if view_of(spec) == self.subject.shown.view]

    def run(self) -> Scores:
        result = Scores()
        self._run_views(result)
        for name, rows in self.subject.judged.items():
            waiting = []
            for spec in self.own:
                kept = self.cache.read(spec, name)
                if kept is not None:
                    result.values.setdefault(spec.label, {})[name] = kept
                    result.reused += 1
                elif spec.label not in result.refused:
                    waiting.append(spec)
            if waiting:
                self._fit(waiting, result)
                self._score_set(name, rows, waiting, result)
        for label in result.refused:
            result.values.pop(label, None)
        order = [spec.label for spec in self.specs if spec.label in result.values]
        result.values = {label: result.values[label] for label in order}
        return result

    def _run_views(self, result: Scores) -> None:
        """Scores of other features of the same model; a score is refused where they are not there."""
        others = [spec for spec in self.specs if spec not in self.own]
        for view in dict.fromkeys(view_of(spec) for spec in others):
            specs, other = [spec for spec in others if view_of(spec) == view], self.subject.views.get(view)
            if other is None:
                result.refused |= {spec.label: why_not(spec, self.subject.shown) for spec in specs}
            elif set(other.judged) != set(self.subject.judged):
                gone = ", ".join(sorted(set(self.subject.judged) ^ set(other.judged)))
                result.refused |= {spec.label: f"it needs the pictures of {gone}" for spec in specs}
            else:
                found = Scorer(other, specs, cache=self.cache.folder, progress=self.progress).run()
                result.add(found)

    def _fit(self, specs: Sequence[DetectorSpec], result: Scores) -> None:
        """Fit what is not fitted yet, all in one pass."""
        fresh = {spec.label: spec.template for spec in specs if spec.label not in self._detectors}
        if not self.fit.labelled:
            for label in [label for label, detector in fresh.items() if detector.needs.labels]:
                needs = ", ".join(fresh.pop(label).needs.names())
                result.refused[label] = f"it needs {needs}, and the ID data has no labels"
        if not fresh:
            return
        # The template serves every subject, so each fits a copy.
        rows = self.subject.shown.rows
        detectors = {
            label: template.for_rows(rows)
            if isinstance(template, MultiLayer) and rows is not None
            else copy.deepcopy(template)
            for label, template in fresh.items()
        }
        labels = {id(detector): label for label, detector in detectors.items()}

        def refused(detector: Detector, error: InputError) -> None:
            result.refused[labels[id(detector)]] = str(error)

        self.progress("fitting", 0, 1)
        start = time.perf_counter()
        fit_many(list(detectors.values()), self.fit, head=self.subject.head, on_refusal=refused)
        result.fit_seconds += time.perf_counter() - start
        self.progress("fitting", 1, 1)
        self._detectors.update(
            {label: detector for label, detector in detectors.items() if label not in result.refused}
        )

    @torch.no_grad()
    def _score_set(self, name: str, rows: FeatureSet, specs: Sequence[DetectorSpec], result: Scores) -> None:
        """One pass over a set; what several scores ask of a batch is worked once."""
        able = [spec for spec in specs if spec.label in self._detectors]
        if not able:
            return
        together = Together([self._detectors[spec.label] for spec in able])
        parts: list[list[FloatArray]] = [[] for _ in able]
        done = 0
        for batch, _, _ in rows:
            features = batch.float()
            start = time.perf_counter()
            logits = self.subject.head(features)
            result.shared_seconds += time.perf_counter() - start
            for part, scores in zip(parts, together.score(features, logits), strict=True):
                part.append(scores.double().numpy())
            done += len(features)
            self.progress(name, done, len(rows))
        result.shared_seconds += together.shared_seconds
        for spec, part, spent in zip(able, parts, together.seconds, strict=True):
            result.seconds[spec.label] = result.seconds.get(spec.label, 0.0) + spent
            whole = np.concatenate(part)
            result.values.setdefault(spec.label, {})[name] = whole
            self.cache.write(spec, name, whole)
