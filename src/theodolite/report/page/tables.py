"""The results as HTML tables: a row a detector, a column an OOD set, measured beside published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from .data import ReportData

AVERAGE = "average"


@dataclass(frozen=True)
class MetricView:
    """A metric in words."""

    name: str
    title: str
    lower_is_better: bool
    meaning: str

    @property
    def arrow(self) -> str:
        return "↓" if self.lower_is_better else "↑"


METRIC_VIEWS = (
    MetricView("fpr95", "FPR95", True, "share of OOD accepted when 95 % of ID is"),
    MetricView(
        "auroc", "AUROC", False, "chance that an ID sample scores above an OOD sample, ties counting half"
    ),
    MetricView("aupr_in", "AUPR-in", False, "area under precision over recall, ID positive"),
    MetricView("aupr_out", "AUPR-out", False, "area under precision over recall, OOD positive"),
    MetricView(
        "fpr95_ood_positive", "FPR95, OOD positive", True, "share of ID rejected when 95 % of OOD is rejected"
    ),
)


def metric_tabs() -> str:
    """The buttons that choose a table."""
    return "".join(
        f'<button type="button" role="tab" id="tab-{view.name}" aria-controls="table-{view.name}" '
        f'aria-selected="{"true" if view is METRIC_VIEWS[0] else "false"}">'
        f'{view.title} <span aria-hidden="true">{view.arrow}</span></button>'
        for view in METRIC_VIEWS
    )


def metric_tables(data: ReportData) -> str:
    return "\n".join(_table(data, view) for view in METRIC_VIEWS)


def marks(printed: Sequence[str], lower_is_better: bool) -> list[str]:
    """ "best", "second" or "" for each value as printed, so that printed ties are ties."""
    levels = sorted({float(text) for text in printed}, reverse=not lower_is_better)
    if len(printed) < 2:
        return ["" for _ in printed]
    names = dict(zip(levels, ("best", "second"), strict=False))
    return [names.get(float(text), "") for text in printed]


def value_of(data: ReportData, detector: str, column: str, metric: str) -> float:
    if column == AVERAGE:
        return data.evaluation.average(detector, metric)
    return float(getattr(data.evaluation.metrics[detector][column], metric))


def _table(data: ReportData, view: MetricView) -> str:
    detectors = list(data.evaluation.metrics)
    sets = data.evaluation.ood_names
    columns = [*sets, AVERAGE] if len(sets) > 1 else sets
    shown = {
        column: [data.percent(value_of(data, detector, column, view.name)) for detector in detectors]
        for column in columns
    }
    marked = {column: marks(values, view.lower_is_better) for column, values in shown.items()}
    compared = {c for c in columns if any((d, c, view.name) in data.published for d in detectors)}
    # The first click sorts the best to the top; names from A to Z.
    direction = "ascending" if view.lower_is_better else "descending"
    heads = [_head("detector", "ascending"), *(_head(column, direction) for column in columns)]
    rows = [
        f'<tr><th scope="row">{escape(detector)}</th>'
        + "".join(
            _cell(
                shown[column][place],
                marked[column][place],
                (_beside(data, detector, column, view.name) if column in compared else "")
                + _interval(data, (detector, column, view.name)),
            )
            for column in columns
        )
        + "</tr>"
        for place, detector in enumerate(detectors)
    ]
    reading = "Measured, and small beside it as published. " if compared else ""
    if any(metric == view.name for _, _, metric in data.doubtful):
        reading += "† where the paper contradicts itself or leaves doubt. "
    if any(metric == view.name for _, _, metric in data.intervals):
        reading += "Below it [bootstrap interval]. "
    return (
        f'<div class="table" role="tabpanel" id="table-{view.name}" aria-labelledby="tab-{view.name}">'
        f'<div class="scroll" tabindex="0"><table><caption>{view.title} in %</caption>'
        f"<thead><tr>{''.join(heads)}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
        f'<p class="note">{view.title} {view.arrow} in %: {view.meaning}. {reading}'
        "Best <b>bold</b>, second <u>underlined</u>.</p></div>"
    )


def _head(name: str, direction: str) -> str:
    return (
        f'<th scope="col" data-first="{direction}"><button type="button">{escape(name)}'
        '<span class="order" aria-hidden="true"></span></button></th>'
    )


def _beside(data: ReportData, detector: str, column: str, metric: str) -> str:
    """The published number; an empty place where there is none keeps the measured ones under each other."""
    key = (detector, column, metric)
    published, mark = data.published.get(key), "†" if key in data.doubtful else ""
    shown = "" if published is None else f"{published:.{data.digits}f}{mark}"
    return f' <small title="published">{shown}</small>'


def _interval(data: ReportData, key: tuple[str, str, str]) -> str:
    """On a line of its own below the measured value."""
    if key not in data.intervals:
        return ""
    low, high = (f"{bound:.{data.digits}f}" for bound in data.intervals[key])
    return f'<br><small title="bootstrap interval">[{low}, {high}]</small>'


def _cell(printed: str, mark: str, beside: str) -> str:
    tag = {"best": "b", "second": "u"}.get(mark, "span")
    return f'<td data-value="{printed}"><{tag} class="measured">{printed}</{tag}>{beside}</td>'
