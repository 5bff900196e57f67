"""The run in a handful of numbers."""

from __future__ import annotations

from dataclasses import dataclass

from ...benchmarks.feature_sets import AVERAGE
from ...evaluation import Metric
from ..tables import printed
from .page import Page


@dataclass(frozen=True)
class Headline:
    """A number, what it is, and what it is of."""

    label: str
    value: str
    detail: str


def headlines(page: Page) -> list[Headline]:
    """Samples, accuracy, and the best of every tabled metric; what is not known is left out."""
    found = []
    if page.id_samples is not None:
        found.append(Headline("in-distribution", f"{page.id_samples:,}", page.id_name))
    ood = page.ood_samples
    sets = f"in {len(ood)} set{'' if len(ood) == 1 else 's'}"
    found.append(Headline("out-of-distribution", f"{sum(ood.values()):,}", sets))
    if page.facts is not None and page.facts.accuracy is not None:
        printed_ones = dict.fromkeys(value.printed for value in page.facts.published_accuracy)
        published = f", {' or '.join(printed_ones)} published" if printed_ones else ""
        found.append(
            Headline("classifier", _percent(page.facts.accuracy), f"accuracy on {page.id_name}{published}")
        )
    means = list(page.result.groups(page.subject)) or [AVERAGE]
    return found + [_best(page, metric, mean) for metric in page.tabled for mean in means]


def _best(page: Page, metric: Metric, mean: str) -> Headline:
    values = {name: page.result.cell(page.subject, name, mean, metric.name).value for name in page.detectors}
    best = metric.best(values.values())
    name = next(name for name, value in values.items() if value == best)
    among = f"{name}, best of {len(values)}" if len(values) > 1 else name
    return Headline(f"{mean} {metric.title} {metric.arrow}", _percent(best), among)


def _percent(value: float) -> str:
    return f"{printed(value)} %"
