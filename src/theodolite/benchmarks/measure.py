"""From scores to the cells of a result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ..core.arrays import FloatArray
from ..core.errors import InputError
from ..core.plain import to_plain
from ..detectors.spec import DetectorSpec
from ..evaluation import Evaluation, bootstrap_average, head_accuracy, list_metrics
from ..evaluation import metric as metric_called
from .cells import Bounds, Cell, PublishedValue
from .compare import published_accuracy
from .facts import Bootstrap, DetectorFacts, SubjectFacts
from .feature_sets import AVERAGE, TEST
from .result import RunResult
from .subject import Subject

# What is published for an OOD set and a metric.
Beside: TypeAlias = Callable[[str, str], tuple[PublishedValue, ...]]
_DIGITS = 6


@dataclass(frozen=True)
class Intervals:
    """Bootstrap settings; ``replicates`` 0 means none, ``tests`` are the draws of paired tests.

    ``metrics`` have intervals and tests beside the tabled ones.

    >>> scores = {"mine": {"id_test": np.arange(9.0), "fog": np.arange(9.0) - 5}}
    >>> result = th.result_of_scores(scores, title="Mine", intervals=th.Intervals(replicates=200))
    >>> low, high = result.cell("model", "mine", "fog", "auroc").interval
    >>> low < result.cell("model", "mine", "fog", "auroc").value < high
    True
    """

    replicates: int = 0
    level: float = 0.95
    seed: int = 0
    metrics: tuple[str, ...] = ()
    tests: int = 1000

    def __post_init__(self) -> None:
        for name in self.metrics:
            metric_called(name)
        if self.replicates < 0 or self.seed < 0:
            raise InputError(
                f"replicates and seed must not be negative, got {self.replicates} and {self.seed}"
            )

    @property
    def bootstrap(self) -> Bootstrap:
        return Bootstrap(self.replicates, self.level)

    @property
    def names(self) -> list[str]:
        """The metrics that have intervals, in the order they are shown."""
        return [known.name for known in list_metrics() if known.tabled or known.name in self.metrics]

    def of(self, metric: str, id_scores: FloatArray, *ood_sets: FloatArray) -> Bounds | None:
        """Of a metric that has intervals, averaged over the OOD sets."""
        if self.replicates == 0 or metric not in self.names:
            return None
        found = bootstrap_average(
            id_scores, ood_sets, metric, level=self.level, replicates=self.replicates, seed=self.seed
        )
        return Bounds(percent(found.low), percent(found.high))


def measured_cells(
    subject: str,
    detector: str,
    found: Evaluation,
    beside: Beside = lambda _ood, _metric: (),
    intervals: Intervals | None = None,
    groups: Mapping[str, Sequence[str]] | None = None,
) -> list[Cell]:
    """The cells of one row: every metric on every OOD set, then means over groups of them and over all.

    A mean over a group is unweighted, and is made where all of its sets are there.
    """
    intervals = intervals or Intervals()
    known, strange = found.id_scores[detector], found.ood_scores[detector]
    cells: list[Cell] = []
    for ood, values in strange.items():
        for metric in list_metrics():
            cells.append(
                Cell(
                    subject,
                    detector,
                    ood,
                    metric.name,
                    percent(found.metrics[detector][ood][metric.name]),
                    len(values),
                    intervals.of(metric.name, known, values),
                    beside(ood, metric.name) if metric.tabled else (),
                )
            )
    whole = {name: tuple(sets) for name, sets in (groups or {}).items() if set(sets) <= set(strange)}
    averages = [
        Cell(
            subject,
            detector,
            name,
            metric.name,
            rounded(
                np.mean([cell.value for cell in cells if cell.metric == metric.name and cell.ood in sets])
            ),
            None,
            intervals.of(metric.name, known, *(strange[part] for part in sets)),
            beside(name, metric.name) if metric.tabled else (),
            over=sets if name in whole else (),
        )
        for name, sets in {**whole, AVERAGE: tuple(strange)}.items()
        for metric in list_metrics()
    ]
    return [*cells, *averages]


def result_of_scores(
    scores: Mapping[str, Mapping[str, FloatArray]],
    *,
    known: str = TEST,
    title: str,
    subject: str = "model",
    command: str = "",
    intervals: Intervals | None = None,
    groups: Mapping[str, Sequence[str]] | None = None,
) -> RunResult:
    """A result from scores of your own, by detector and set; the set called ``known`` is ID.

    ``groups`` are means over some of the OOD sets, by name: ``{"near": ["cifar100", "tin"]}``.

    >>> id_test, fog = np.array([2.0, 3.0, 4.0]), np.array([1.0, 2.5])
    >>> result = th.result_of_scores({"mine": {"id_test": id_test, "fog": fog}}, title="Mine")
    >>> round(result.cell("model", "mine", "fog", "auroc").value, 1)
    83.3
    """
    for detector, sets in scores.items():
        if known not in sets or AVERAGE in sets or len(sets) < 2:
            raise InputError(
                f"scores of {detector} are of the sets {', '.join(sets) or 'none'}: expected the ID set "
                f"{known!r} and at least one other, none called {AVERAGE!r}"
            )
    if len({frozenset(sets) for sets in scores.values()}) > 1:
        raise InputError("the detectors have scores of different sets: give each the same ones")
    _require_groups(groups or {}, set(next(iter(scores.values()), {})) - {known})
    found = Evaluation.of(scores, known=known)
    return RunResult(
        title=title,
        command=command,
        cells=tuple(
            cell
            for detector in found.metrics
            for cell in measured_cells(subject, detector, found, intervals=intervals, groups=groups)
        ),
        bootstrap=None if intervals is None else intervals.bootstrap,
        evaluations={subject: found},
    )


def _require_groups(groups: Mapping[str, Sequence[str]], sets: set[str]) -> None:
    for name, parts in groups.items():
        absent = sorted(set(parts) - sets)
        if absent or not parts:
            raise InputError(
                f"groups[{name!r}] is over {', '.join(parts) or 'no set'}, expected OOD sets that have "
                f"scores: {', '.join(sorted(sets))}"
            )
        if name in sets or name == AVERAGE:
            raise InputError(f"groups: a mean cannot be called {name!r}, which is the name of another column")


def subject_facts(subject: Subject, board: str | None = None) -> SubjectFacts:
    """What is known of a subject; ``board`` is the leaderboard that its figures stand beside."""
    accuracy = head_accuracy(subject.head, subject.test)
    return SubjectFacts(
        backbone=subject.backbone,
        classes=subject.head.classes,
        width=subject.head.width,
        accuracy=None if accuracy is None else percent(accuracy),
        samples={name: len(rows) for name, rows in subject.sets.items()},
        digests=subject.digests,
        missing=subject.left_out,
        published_accuracy=published_accuracy(subject),
        shifted=dict(subject.shifted),
        board=board,
    )


def detector_facts(spec: DetectorSpec) -> DetectorFacts:
    detector, record = spec.template, spec.record
    options = to_plain({key: value for key, value in detector.options().items() if key != "shaping"})
    assert isinstance(options, dict)
    return DetectorFacts(
        text=spec.text,
        detector=spec.name,
        options=options,
        shaping=None if detector.shaping is None else detector.shaping.spec,
        paper=f"{record.paper} ({record.year})",
    )


def percent(share: float) -> float:
    return rounded(100 * share)


def rounded(value: float | np.floating) -> float:
    return round(float(value), _DIGITS)
