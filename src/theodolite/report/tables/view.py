"""What of a result people see: which metrics, which scores, in which order. No number depends on it.

A view is of what is read, the screen, ``results.md`` and ``results.tex``; ``results.json`` and
``results.csv`` have everything in the order of the run, and pages everything in the order of the view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TypeAlias

from ...benchmarks.feature_sets import AVERAGE
from ...benchmarks.foreseen import Foreseen
from ...benchmarks.joint import ModelAverage
from ...benchmarks.result import RunResult
from ...core.errors import InputError, did_you_mean
from ...detectors import RECOMMENDED
from ...evaluation import Metric, list_metrics
from ...evaluation import metric as metric_called
from .table import printed

NAME, RANK = "name", "rank"
# What OpenOOD reports beside AUROC: where near and far are shown, these have tables too.
OPENOOD = ("fpr95_ood_positive", "aupr_in", "aupr_out")
# The value of a score that a table is sorted by; None sorts last.
Measure: TypeAlias = Callable[[str], float | None]


@dataclass(frozen=True)
class View:
    """Rows and tables to show.

    metrics: those that have tables, instead of the usual ones.
    sort: ``name``, ``average`` (each table by its own metric), ``rank`` (several models), the name of a
        metric (every table by its average), or that of an OOD set; the order of the run if None. Scores that
        print the same stay in the order of the run.
    only: patterns such as ``ora*``, of which a score's label or spec must match one; case does not count.
    top: so many of the best, by ``sort`` or else by the average; those that print the same as the last stay,
        and so does the recommended score.
    """

    metrics: tuple[str, ...] = ()
    sort: str | None = None
    only: tuple[str, ...] = ()
    top: int | None = None

    def __post_init__(self) -> None:
        for name in self.metrics:
            metric_called(name)
        if self.top is not None and self.top < 1:
            raise InputError(f"top must be at least 1, got {self.top}")

    def require_fits(self, result: RunResult) -> None:
        """Refuse an order or a pattern that the result has nothing for."""
        sets = {cell.ood for cell in result.cells if cell.ood != AVERAGE}
        labels = dict.fromkeys(cell.detector for cell in result.cells)
        texts = {label: facts.text or label for label, facts in result.detectors.items()}
        scores = {label: texts.get(label, label) for label in labels}
        self.require_possible(Foreseen(sorted(sets), scores, result.joint is not None))

    def require_possible(self, run: Foreseen) -> None:
        """Refuse an order or a pattern for which a run will have nothing."""
        metrics = [metric.name for metric in list_metrics()]
        known = [NAME, AVERAGE, *([RANK] if run.joint else []), *metrics, *run.sets]
        if self.sort is not None and self.sort not in known:
            raise InputError(
                f"nothing to sort by is called {self.sort!r}{did_you_mean(self.sort, known)} "
                f"Known: {', '.join(known)}"
            )
        for pattern in self.only:
            if not any(_matches(names, pattern) for names in run.scores.items()):
                raise InputError(
                    f"no score of this run matches {pattern!r}{did_you_mean(pattern, list(run.scores))} "
                    f"It has: {', '.join(run.scores)}"
                )

    def tabled(self, measured: Iterable[Metric], *, grouped: bool = False) -> list[Metric]:
        """Of the metrics that were measured, those that have tables; OpenOOD's too where sets are grouped."""
        if self.metrics:
            found = {metric.name: metric for metric in measured}
            return [found[name] for name in dict.fromkeys(self.metrics) if name in found]
        return [metric for metric in measured if metric.tabled or (grouped and metric.name in OPENOOD)]

    def rows(self, result: RunResult, subject: str, known: Metric) -> list[str]:
        """The scores that the table of a model shows."""
        labels = result.detector_names(subject)
        columns = [*result.ood_names(subject), *result.groups(subject)]
        by = self.sort if self.sort in columns else AVERAGE
        metric = _metric_of(self.sort) or known
        if self.sort == RANK:
            return self._rows(result, labels, _rank(result, known), lower_is_better=True)

        def measure(label: str) -> float:
            return result.cell(subject, label, by, metric.name).value

        return self._rows(result, labels, measure, lower_is_better=metric.lower_is_better)

    def joint_rows(self, result: RunResult, known: Metric) -> list[str]:
        """The scores that the joint table of a metric shows; by rank where there is no average over all."""
        models = result.models
        labels = list(dict.fromkeys(cell.detector for cell in result.cells if cell.subject in models))
        metric = _metric_of(self.sort) or known
        average = overall_average(result)
        if average is None or self.sort == RANK:
            return self._rows(result, labels, _rank(result, metric), lower_is_better=True)
        values = {
            cell.detector: cell.value
            for cell in average.cells
            if cell.ood == AVERAGE and cell.metric == metric.name
        }
        return self._rows(result, labels, values.get, lower_is_better=metric.lower_is_better)

    def said_of_order(self, result: RunResult) -> list[str]:
        """What a joint table says of an order that it has no column for."""
        known = (None, NAME, AVERAGE, RANK, *(metric.name for metric in list_metrics()))
        if self.sort in known:
            return []
        by = "rank" if overall_average(result) is None else "average"
        return [f"in the order of the {by}: {self.sort} is a column of the tables of single models"]

    def said(self, shown: int, of: int) -> list[str]:
        """What a legend says of rows that are left out."""
        return [] if shown == of else [f"{shown} of {of} scores shown, and marks are among these"]

    def _rows(
        self, result: RunResult, labels: Sequence[str], measure: Measure, *, lower_is_better: bool
    ) -> list[str]:
        kept = [
            label
            for label in labels
            if not self.only or any(_matches(_names(result, label), pattern) for pattern in self.only)
        ]
        sign = 1 if lower_is_better else -1
        # As printed, so that a sorted table never has an order that its digits do not show.
        values = {
            label: None if (value := measure(label)) is None else sign * float(printed(value))
            for label in kept
        }
        ordered = sorted(kept, key=lambda label: (values[label] is None, values[label] or 0.0))
        # Where nothing puts them in order there are no best ones, and all stay.
        if self.top is not None and len(ordered) > self.top and set(values.values()) != {None}:
            last = values[ordered[self.top - 1]]
            best = {label for label in ordered[: self.top] if values[label] is not None}
            best |= {label for label in ordered if last is not None and values[label] == last}
            best |= {label for label in ordered if is_recommended(result, label)}
            kept, ordered = ([label for label in part if label in best] for part in (kept, ordered))
        if self.sort == NAME:
            return sorted(kept, key=str.casefold)
        return kept if self.sort is None and self.top is None else ordered


def overall_average(result: RunResult) -> ModelAverage | None:
    """The average over all models of a result, if there is one."""
    averages = () if result.joint is None else result.joint.averages
    return next((one for one in averages if list(one.models) == result.models), None)


def printed_rank(place: float) -> str:
    """A mean rank as tables show it."""
    return f"{place:.1f}"


def _rank(result: RunResult, known: Metric) -> Measure:
    places = {} if result.joint is None else result.joint.ranks.get(known.name, {})
    return {label: float(printed_rank(place)) for label, place in places.items()}.get


def _metric_of(sort: str | None) -> Metric | None:
    return next((metric for metric in list_metrics() if metric.name == sort), None)


def _names(result: RunResult, label: str) -> list[str]:
    """A score's label, and its text where it is known."""
    facts = result.detectors.get(label)
    return [label, *([facts.text] if facts is not None and facts.text is not None else [])]


def _matches(names: Iterable[str], pattern: str) -> bool:
    return any(fnmatchcase(name.casefold(), pattern.casefold()) for name in names)


def is_recommended(result: RunResult, label: str) -> bool:
    """Whether it is the score that a guard uses by default, as it is."""
    facts = result.detectors.get(label)
    return facts is not None and facts.text == RECOMMENDED
