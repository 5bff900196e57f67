"""Put the page together: template, style and script from `assets/`, everything else from the data."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from ..._version import __version__
from .data import ReportData, SampleCard
from .samples import sample_grid
from .scores import embedded, script_json, thinned_note
from .tables import AVERAGE, METRIC_VIEWS, metric_tables, metric_tabs, value_of


def write_report(data: ReportData, path: Path) -> Path:
    """Write the report as one self-contained HTML file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render(data), encoding="utf-8")
    return path


def render(data: ReportData) -> str:
    """The page as text. The browser is told to run and to load nothing but what is in it."""
    style, script = _asset("report.css"), _asset("page.js") + _asset("explorer.js")
    names, sets = list(data.evaluation.metrics), data.evaluation.ood_names
    return Template(_asset("report.html")).substitute(
        policy=f"default-src 'none'; img-src data:; style-src '{_digest(style)}'; "
        f"script-src '{_digest(script)}'; base-uri 'none'; form-action 'none'",
        title=escape(data.title),
        summary="".join(f"<p>{escape(line)}</p>" for line in data.summary),
        facts=_facts(data),
        tabs=metric_tabs(),
        tables=metric_tables(data),
        detectors=_options(names, data.shown_first),
        sets=_options(sets, sets[0]),
        thinned=f'<p class="note">{escape(note)}</p>' if (note := thinned_note(data)) else "",
        samples=_samples(data),
        provenance=_provenance(data),
        version=escape(__version__),
        style=style,
        scores=script_json(embedded(data)),
        script=script,
    )


def _asset(name: str) -> str:
    return files("theodolite.report").joinpath("assets", name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}"


def _facts(data: ReportData) -> str:
    """The run in a handful of numbers."""
    first = next(iter(data.evaluation.metrics))
    ood = data.evaluation.ood_scores[first]
    samples = sum(len(scores) for scores in ood.values())
    plural = "" if len(ood) == 1 else "s"
    facts = [
        ("in-distribution", f"{len(data.evaluation.id_scores[first]):,}", data.id_name),
        ("out-of-distribution", f"{samples:,}", f"in {len(ood)} set{plural}"),
    ]
    if data.accuracy is not None:
        facts.append(("classifier", f"{data.percent(data.accuracy)} %", f"accuracy on {data.id_name}"))
    for view in METRIC_VIEWS[:2]:
        values = {name: value_of(data, name, AVERAGE, view.name) for name in data.evaluation.metrics}
        best = (min if view.lower_is_better else max)(values, key=lambda name: values[name])
        among = f"{best}, best of {len(values)}" if len(values) > 1 else best
        facts.append((f"average {view.title} {view.arrow}", f"{data.percent(values[best])} %", among))
    return "".join(
        f"<div><dt>{escape(label)}</dt><dd><span>{escape(value)}</span> {escape(detail)}</dd></div>"
        for label, value, detail in facts
    )


def _options(names: Sequence[str], chosen: str) -> str:
    return "".join(
        f"<option{' selected' if name == chosen else ''}>{escape(name)}</option>" for name in names
    )


def _samples(data: ReportData) -> str:
    by = escape(data.shown_first)
    suspicious = f"In-distribution, and yet {by} scores them lowest."
    deceptive = f"Out-of-distribution, and yet {by} scores them highest."
    return _sample_section("suspicious", "Most suspicious ID", suspicious, data.suspicious_id) + (
        _sample_section("deceptive", "Most deceptive OOD", deceptive, data.deceptive_ood)
    )


def _sample_section(name: str, title: str, text: str, cards: Sequence[SampleCard]) -> str:
    if not cards:
        return ""
    return f'<section id="{name}"><h2>{title}</h2><p class="lead">{text}</p>{sample_grid(cards)}</section>'


def _provenance(data: ReportData) -> str:
    command = f"<pre><code>{escape(data.command)}</code></pre>" if data.command else ""
    return (
        command + _definitions("Provenance", data.provenance) + _definitions("Environment", data.environment)
    )


def _definitions(title: str, entries: Mapping[str, str]) -> str:
    if not entries:
        return ""
    rows = "".join(f"<div><dt>{escape(k)}</dt><dd>{escape(str(v))}</dd></div>" for k, v in entries.items())
    return f'<h3>{title}</h3><dl class="entries">{rows}</dl>'
