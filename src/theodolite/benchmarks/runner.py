"""The runner: subjects and detector specs in, a result out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeAlias

from ..core.arrays import FloatArray
from ..core.errors import InputError
from ..detectors.combination import SUM, check_combination
from ..detectors.spec import DetectorSpec
from ..evaluation import Evaluation
from .belonging import require_belonging
from .cells import Cell
from .compare import leaderboard_beside, published_beside, published_ensemble
from .ensemble import common_scores, ensemble_name, ensemble_scores, not_in_common, require_same_samples
from .facts import Seconds, SubjectFacts
from .feature_sets import FIT, TEST
from .measure import Intervals, detector_facts, measured_cells, subject_facts
from .result import HIGHLIGHT, RunResult
from .scales import scales_of
from .scoring import Scorer, Scores
from .subject import Subject
from .telling import Picture, TellingSample, find_telling
from .words import refused_words

Progress: TypeAlias = Callable[[str, str, int, int], None]


@dataclass(frozen=True)
class Highlight:
    """The score that chooses the samples worth a look, and where their pictures are, if anywhere.

    ``subjects`` are the models that looked at these pictures (None: all of them); a feature folder that joins
    a protocol may have other samples.
    """

    label: str = HIGHLIGHT
    picture: Picture = lambda _set, _row: None
    subjects: Collection[str] | None = None

    def picture_for(self, subject: str) -> Picture:
        known = self.subjects is None or subject in self.subjects
        return self.picture if known else (lambda _set, _row: None)


@dataclass
class _Gathered:
    """What has come out so far."""

    cells: list[Cell] = field(default_factory=list)
    subjects: dict[str, SubjectFacts] = field(default_factory=dict)
    refused: dict[str, dict[str, str]] = field(default_factory=dict)
    seconds: dict[str, Seconds] = field(default_factory=dict)
    scores: dict[str, Scores] = field(default_factory=dict)
    evaluations: dict[str, Evaluation] = field(default_factory=dict)
    telling: dict[str, list[TellingSample]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def run(
    subjects: Sequence[Subject],
    specs: Sequence[DetectorSpec],
    *,
    title: str,
    command: str,
    ensemble: bool | Sequence[str] = False,
    intervals: Intervals | None = None,
    cache: Path | None = None,
    highlight: Highlight | None = None,
    force: bool = False,
    progress: Progress = lambda _model, _name, _done, _total: None,
) -> RunResult:
    """Score every spec on every subject, and measure.

    ``ensemble`` adds the models' scores together, by the plain sum or by the rules it names. ``cache`` is a
    folder of finished scores. With ``highlight`` the result also has the samples worth a look.
    A subject whose head gives the labels of its ID rows hardly more often than by chance is refused; with
    ``force`` it is measured, and the result says so.
    """
    asked = (SUM,) if ensemble is True else ensemble or ()
    rules = [check_combination(rule) for rule in dict.fromkeys(asked)]
    names = [subject.name for subject in subjects]
    if len(set(names)) < len(names):
        raise InputError(f"two models are called the same: {', '.join(names)}")
    intervals = intervals or Intervals()
    doubts = {subject.name: require_belonging(subject, force=force) for subject in subjects}
    out = _Gathered(notes=require_same_samples(subjects) if rules else [])
    scorers = []
    for subject in subjects:
        others = refused_words(subject.fit, specs)
        own = [spec for spec in specs if spec.label not in others]
        scorers.append(Scorer(subject, own, cache=cache, progress=partial(progress, subject.name)))
        _refuse(out, subject.name, others)
    for scorer in scorers:
        _enter(out, scorer, intervals, highlight)
    _enter_ensembles(out, scorers, rules, intervals)
    if not out.cells:
        reasons = [reason for refused in out.refused.values() for reason in refused.values()]
        raise InputError(f"no score could be computed: {'; '.join(reasons) or 'none was asked for'}")
    facts = {spec.label: detector_facts(spec) for spec in specs}
    seeds = {label: fact.seed for label, fact in facts.items() if fact.seed is not None}
    return RunResult(
        title=title,
        command=command,
        cells=tuple(out.cells),
        subjects=out.subjects,
        detectors=facts,
        protocol=subjects[0].protocol,
        refused=out.refused,
        notes=tuple(out.notes),
        seeds={"bootstrap": intervals.seed, **seeds},
        bootstrap=intervals.bootstrap,
        seconds=out.seconds,
        doubts={name: doubt for name, doubt in doubts.items() if doubt is not None},
        evaluations=out.evaluations,
        telling=out.telling,
        highlight=HIGHLIGHT if highlight is None else highlight.label,
    )


def _enter(out: _Gathered, scorer: Scorer, intervals: Intervals, highlight: Highlight | None) -> None:
    subject, scores = scorer.subject, scorer.run()
    out.scores[subject.name] = scores
    out.subjects[subject.name] = subject_facts(subject, leaderboard_beside(subject))
    out.seconds[subject.name] = Seconds(
        round(scores.fit_seconds, 3),
        {label: round(spent, 3) for label, spent in scores.seconds.items()},
        round(scores.shared_seconds, 3),
    )
    _refuse(out, subject.name, scores.refused)
    if not scores.values:
        return
    found = Evaluation.of(scores.values, known=TEST)
    out.evaluations[subject.name] = found
    for spec in scorer.specs:
        if spec.label in found.metrics:
            beside = partial(published_beside, subject, spec)
            out.cells += measured_cells(subject.name, spec.label, found, beside, intervals, subject.groups)
    if highlight is not None:
        out.telling[subject.name] = find_telling(
            scorer, found, highlight.label, highlight.picture_for(subject.name)
        )


def _enter_ensembles(
    out: _Gathered, scorers: Sequence[Scorer], rules: Sequence[str], intervals: Intervals
) -> None:
    if not rules:
        return
    members = [out.scores[scorer.subject.name].values for scorer in scorers]
    out.notes += not_in_common([scorer.subject for scorer in scorers], members)
    known = [scales_of(scorer, common_scores(members)) for scorer in scorers] if set(rules) - {SUM} else []
    unscaled = {
        label: f"{scorer.subject.name} has no scale: {reason}"
        for scorer, scales in zip(scorers, known, strict=bool(known))
        for label, reason in scales.refused.items()
    }
    scaled = [{label: sets[FIT] for label, sets in scales.values.items()} for scales in known]
    for rule in rules:
        if rule == SUM:
            _enter_ensemble(out, scorers, rule, intervals, members, None)
        else:
            able = [{label: sets[label] for label in sets if label not in unscaled} for sets in members]
            _enter_ensemble(out, scorers, rule, intervals, able, scaled)
            _refuse(out, ensemble_name([scorer.subject for scorer in scorers], rule), unscaled)


def _enter_ensemble(
    out: _Gathered,
    scorers: Sequence[Scorer],
    rule: str,
    intervals: Intervals,
    members: Sequence[Mapping[str, Mapping[str, FloatArray]]],
    known: Sequence[Mapping[str, FloatArray]] | None,
) -> None:
    subjects = [scorer.subject for scorer in scorers]
    name = ensemble_name(subjects, rule)
    # Means of the same name over other sets are not the same figure.
    groups = subjects[0].groups if all(one.groups == subjects[0].groups for one in subjects) else {}
    scores = ensemble_scores(subjects, members, rule, known)
    out.notes += scores.notes
    _refuse(out, name, scores.refused)
    if not scores.values:
        return
    found = Evaluation.of(scores.values, known=TEST)
    out.evaluations[name] = found
    for spec in scorers[0].specs:
        if spec.label in found.metrics:
            beside = partial(published_ensemble, subjects, spec)
            published = beside if rule == SUM else lambda _ood, _metric: ()
            out.cells += measured_cells(name, spec.label, found, published, intervals, groups)


def _refuse(out: _Gathered, name: str, reasons: Mapping[str, str]) -> None:
    if reasons:
        out.refused.setdefault(name, {}).update(reasons)
