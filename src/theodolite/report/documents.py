"""A result as files that people read: a Markdown document, LaTeX, CSV, and the JSON behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..benchmarks.facts import SubjectFacts
from ..benchmarks.feature_sets import TEST
from ..benchmarks.result import RunResult
from ..core.files import write_bytes, write_json
from .tables import (
    Table,
    View,
    combined_tables,
    csv_text,
    joint_tables,
    latex_document,
    leaderboard_tables,
    long_table,
    markdown,
    metric_tables,
    model_tables,
    paired_long_table,
    paired_tables,
    printed,
)
from .tables.markdown import code, escaped


def write_files(
    result: RunResult, folder: str | Path, name: str = "results", *, view: View | None = None
) -> list[Path]:
    """The result as JSON, CSV, Markdown and LaTeX; returns the paths.

    ``view`` is of the Markdown and the LaTeX: JSON and CSV have everything.

    >>> id_test, fog = np.array([2.0, 3.0, 4.0]), np.array([1.0, 2.5])
    >>> result = th.result_of_scores({"mine": {"id_test": id_test, "fog": fog}}, title="Mine")
    >>> [path.name for path in th.write_files(result, "mine")]
    ['results.json', 'results.csv', 'results.md', 'results.tex']
    """
    if view is not None:
        view.require_fits(result)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / f"{name}.json", result.to_json())
    tables = [*combined_tables(result, view), *metric_tables(result, view), *paired_tables(result, view)]
    texts = {
        f"{name}.csv": csv_text(long_table(result)),
        f"{name}.md": result_document(result, view),
        f"{name}.tex": latex_document(tables),
    }
    if result.paired is not None:
        texts[f"{name}-paired.csv"] = csv_text(paired_long_table(result))
    else:  # one of an earlier run is of other figures
        (folder / f"{name}-paired.csv").unlink(missing_ok=True)
    for file, text in texts.items():
        write_bytes(folder / file, text.encode())
    return [folder / file for file in (f"{name}.json", *texts)]


def result_document(result: RunResult, view: View | None = None) -> str:
    """All tables of a run in Markdown, with the command that made them."""
    lines = [f"# {escaped(result.title)}", "", f"Made by {code(result.command)}.", ""]
    for name, facts in result.subjects.items():
        counts = ", ".join(f"{escaped(part)} {count:,}" for part, count in facts.samples.items())
        accuracy = "" if facts.accuracy is None else f"; ID accuracy {accuracy_text(facts)}"
        size = f"D = {facts.width:,}, C = {facts.classes:,}"
        lines += [f"**{escaped(name)}**: {size}; {counts}{accuracy}.", ""]
        if facts.shifted:
            lines += [f"{spectrum_line(facts)}.", ""]
        if name in result.doubts:
            lines += [f"Measured by force: {escaped(result.doubts[name])}", ""]
    lines += [line for table in joint_tables(result, view) for line in _section(table)]
    if result.joint is not None and result.joint.notes:
        lines += [line for note in result.joint.notes for line in (escaped(note), "")]
    tables = [*model_tables(result, view), *leaderboard_tables(result), *paired_tables(result, view)]
    lines += [line for table in tables for line in _section(table)]
    if result.paired is not None:
        lines += [line for note in result.paired.notes for line in (note, "")]
    for label, said in result.choices.items():
        lines += [f"{escaped(label)}: {escaped(said)}.", ""]
    if result.left_out:
        lines += ["Left out:", "", *(f"- {note}" for note in result.left_out), ""]
    if notes := [*result.notes, *result.cautions]:
        lines += ["Notes:", "", *(f"- {escaped(note)}" for note in notes), ""]
    return "\n".join([*lines, versions_line(result.versions), ""])


def spectrum_line(facts: SubjectFacts) -> str:
    """What the ID data are where shifted ones are among them."""
    parts = ", ".join(f"{escaped(name)} {count:,}" for name, count in facts.shifted.items())
    return f"Full-spectrum: {TEST} counts shifted ID data as ID, namely {parts}"


def _section(table: Table) -> list[str]:
    return [f"## {escaped(table.title)}", "", *markdown(table), "", f"{table.legend}.", ""]


def accuracy_text(facts: SubjectFacts) -> str:
    """The accuracy of a classifier on the held-out ID data, and what is published for it."""
    if facts.accuracy is None:
        return ""
    printed_values = dict.fromkeys(value.printed for value in facts.published_accuracy)
    doubt = "†" if len(printed_values) > 1 else ""
    published = f" ({' or '.join(printed_values)}{doubt} published)" if printed_values else ""
    return f"{printed(facts.accuracy)} %{published}"


def tables_document(title: str, command: str, tables: Sequence[Table], versions: Mapping[str, str]) -> str:
    """Tables of any kind in Markdown; several have headings of their own."""
    lines = [f"# {title}", "", f"Made by `{command}`."]
    for table in tables:
        lines += ["", f"## {table.title}"] if len(tables) > 1 else []
        lines += ["", *markdown(table)]
    return "\n".join([*lines, "", versions_line(versions), ""])


def versions_line(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items()) + "."
