"""What one page shows: a result, seen from one of its models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...benchmarks.facts import SubjectFacts
from ...benchmarks.feature_sets import TEST
from ...benchmarks.result import RunResult
from ...core.errors import InputError, did_you_mean
from ...evaluation import Evaluation, Metric
from ..tables import View

ID_NAME = "held-out ID data"


@dataclass(frozen=True, kw_only=True)
class Page:
    """The page of one model, or of the ensemble; every number on it is a cell of the result.

    id_name: the ID data in words.
    summary, provenance: what stands before the result's own samples, omissions and digests.
    sort: the order of rows, as in `View`; that of the run if None.
    beside: the names of all pages of the same run, this one among them.
    """

    result: RunResult
    subject: str
    id_name: str = ID_NAME
    summary: Sequence[str] = ()
    provenance: Mapping[str, str] = field(default_factory=dict)
    sort: str | None = None
    beside: Sequence[str] = ()

    def __post_init__(self) -> None:
        names = self.result.subject_names
        if self.subject not in names:
            raise InputError(
                f"the result has no model {self.subject!r}{did_you_mean(self.subject, names)} "
                f"It has: {', '.join(names) or 'none'}"
            )
        self.view.require_fits(self.result)

    @property
    def view(self) -> View:
        return View(sort=self.sort)

    @property
    def title(self) -> str:
        """The run's, with the model's name where there are several."""
        several = len({*self.result.subjects, *self.result.subject_names}) > 1
        return f"{self.result.title}: {self.subject}" if several else self.result.title

    @property
    def facts(self) -> SubjectFacts | None:
        """None for an ensemble, and for scores of unknown origin."""
        return self.result.subjects.get(self.subject)

    @property
    def evaluation(self) -> Evaluation | None:
        """The scores; None where the result was read from a file."""
        return self.result.evaluations.get(self.subject)

    @property
    def detectors(self) -> list[str]:
        return self.result.detector_names(self.subject)

    @property
    def ood_names(self) -> list[str]:
        return self.result.ood_names(self.subject)

    @property
    def metrics(self) -> list[Metric]:
        return self.result.metrics(self.subject)

    @property
    def tabled(self) -> list[Metric]:
        """The metrics that stand for a run where there is room for a few only."""
        return [metric for metric in self.metrics if metric.tabled]

    @property
    def shown_first(self) -> str:
        """The detector that chose the samples worth a look, or the first."""
        chosen, names = self.result.highlight, self.detectors
        return chosen if chosen in names else names[0]

    @property
    def id_samples(self) -> int | None:
        if self.evaluation is not None:
            return len(self.evaluation.id_scores[self.shown_first])
        return None if self.facts is None else self.facts.samples.get(TEST)

    @property
    def ood_samples(self) -> dict[str, int]:
        cells = (
            self.result.cell(self.subject, self.shown_first, ood, self.metrics[0].name)
            for ood in self.ood_names
        )
        return {cell.ood: cell.samples or 0 for cell in cells}

    @property
    def notes(self) -> list[str]:
        """The lines below the title.

        The summary, the samples of each set, doubts about the head, what scores were chosen on, what was
        left out and why, and what to know before it is believed.
        """
        lines = list(self.summary)
        if self.facts is not None and self.facts.samples:
            lines.append(", ".join(f"{name} {count:,}" for name, count in self.facts.samples.items()))
        if self.facts is not None and self.facts.shifted:
            parts = ", ".join(f"{name} {count:,}" for name, count in self.facts.shifted.items())
            lines.append(f"Full-spectrum: {TEST} counts shifted ID data as ID, namely {parts}.")
        # Behind repeats and an ensemble are several models.
        alone = (self.subject,) if self.facts is not None else tuple(self.result.subjects)
        behind = self.result.repeats.get(self.subject, alone)
        doubts = self.result.doubts
        lines += [f"measured by force: {doubts[name]}" for name in behind if name in doubts]
        chosen = self.result.choices
        lines += [f"{label}: {chosen[label]}." for label in self.detectors if label in chosen]
        refused = self.result.refused.get(self.subject, {})
        lines += [f"{label} is left out: {reason}" for label, reason in refused.items()]
        missing = {} if self.facts is None else self.facts.missing
        lines += [] if self.result.paired is None else self.result.paired.notes
        lines += [f"{ood} is missing: {reason}" for ood, reason in missing.items()]
        cautions = self.result.cautions_of(behind)
        return lines + [f"Note: {line}" for line in (*self.result.notes, *cautions)]

    @property
    def origin(self) -> dict[str, str]:
        """The provenance, then the digests of the features that were judged."""
        digests = {} if self.facts is None else self.facts.digests
        return {**self.provenance, **{f"sha256 of {name}": digest for name, digest in digests.items()}}
