"""A result as files that people read: a Markdown document, LaTeX, CSV, and the JSON behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..benchmarks.feature_sets import TEST
from ..benchmarks.result import RunResult, SubjectFacts
from ..core.files import write_bytes, write_json
from .tables import Table, csv_text, latex, leaderboard_tables, long_table, markdown, metric_tables, printed
from .tables.markdown import code, escaped


def write_files(result: RunResult, folder: str | Path, name: str = "results") -> list[Path]:
    """The result as JSON, CSV, Markdown and LaTeX; returns the paths."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / f"{name}.json", result.to_json())
    texts = {
        "csv": csv_text(long_table(result)),
        "md": result_document(result),
        "tex": "\n".join(latex(table) for table in metric_tables(result)),
    }
    for suffix, text in texts.items():
        write_bytes(folder / f"{name}.{suffix}", text.encode())
    return [folder / f"{name}.{suffix}" for suffix in ("json", *texts)]


def result_document(result: RunResult) -> str:
    """All tables of a run in Markdown, with the command that made them."""
    lines = [f"# {escaped(result.title)}", "", f"Made by {code(result.command)}.", ""]
    for name, facts in result.subjects.items():
        counts = ", ".join(f"{escaped(part)} {count:,}" for part, count in facts.samples.items())
        accuracy = "" if facts.accuracy is None else f"; ID accuracy {printed(facts.accuracy)} %"
        size = f"D = {facts.width:,}, C = {facts.classes:,}"
        lines += [f"**{escaped(name)}**: {size}; {counts}{accuracy}.", ""]
        if facts.shifted:
            lines += [f"{spectrum_line(facts)}.", ""]
        if name in result.doubts:
            lines += [f"Measured by force: {escaped(result.doubts[name])}", ""]
    for table in (*metric_tables(result), *leaderboard_tables(result)):
        lines += [f"## {escaped(table.title)}", "", *markdown(table), "", f"{table.legend}.", ""]
    told = {label: facts.chosen_on for label, facts in result.detectors.items() if facts.chosen_on}
    lines += [line for label, said in told.items() for line in (f"{escaped(label)}: {escaped(said)}.", "")]
    if result.left_out:
        lines += ["Left out:", "", *(f"- {note}" for note in result.left_out), ""]
    if result.notes:
        lines += ["Notes:", "", *(f"- {escaped(note)}" for note in result.notes), ""]
    return "\n".join([*lines, versions_line(result.versions), ""])


def spectrum_line(facts: SubjectFacts) -> str:
    """What the ID data are where shifted ones are among them."""
    parts = ", ".join(f"{escaped(name)} {count:,}" for name, count in facts.shifted.items())
    return f"Full-spectrum: {TEST} counts shifted ID data as ID, namely {parts}"


def tables_document(title: str, command: str, tables: Sequence[Table], versions: Mapping[str, str]) -> str:
    """Tables of any kind in Markdown; several have headings of their own."""
    lines = [f"# {title}", "", f"Made by `{command}`."]
    for table in tables:
        lines += ["", f"## {table.title}"] if len(tables) > 1 else []
        lines += ["", *markdown(table)]
    return "\n".join([*lines, "", versions_line(versions), ""])


def versions_line(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items()) + "."
