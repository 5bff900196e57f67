"""Which command makes each table of figures: what a page says near a table, and whether it exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from theodolite.paper import experiments, items

_HEADING = re.compile(r"^#{1,6} ")
_DECIMAL = re.compile(r"\d\.\d")
# What holds numbers that were not measured: code, addresses, versions.
_ASIDE = re.compile(r"`[^`]*`|\]\([^)]*\)|arXiv:\S+|\d+\.\d+\.\d+")
# A table with so many cells of figures is a table of figures; in such a cell a decimal number stands almost
# alone, with so few letters beside it that they are a name or a unit.
_FIGURES = 3
_LETTERS = 4
_SPANS = re.compile(r"`([^`]+)`")
# Commands in blocks of code, indented or fenced.
_CODE = re.compile(r"^(?: {4}|\$ )([^`|\n]+)$", re.MULTILINE)
_RESULTS = re.compile(r"\]\((?:\.\./)?results/([a-z0-9-]+)\.md")


@dataclass(frozen=True)
class FigureTable:
    """A table of figures in a page, and the text between the headings that it stands in."""

    page: str
    line: int
    around: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def figure_tables(page: str, text: str) -> Iterator[FigureTable]:
    """The tables of figures of a Markdown text."""
    for start, section in _sections(text):
        lines = section.splitlines()
        for number, line in enumerate(lines):
            begins = line.startswith("|") and not (number and lines[number - 1].startswith("|"))
            if begins and _figures(lines[number:]) >= _FIGURES:
                yield FigureTable(page, start + number, section)


def sources(table: FigureTable, repository: Path) -> list[str]:
    """What makes the table, of what its section names: commands, scripts and pages of results that exist."""
    spans = [" ".join(span.split()) for span in _SPANS.findall(table.around) + _CODE.findall(table.around)]
    named = [span for span in spans if makes_figures(span, repository)]
    pages = [name for name in _RESULTS.findall(table.around) if (repository / f"results/{name}.md").is_file()]
    return named + [f"results/{name}.md" for name in pages]


def makes_figures(command: str, repository: Path) -> bool:
    """Whether a text is a command of the repository that measures something, and is there."""
    words = command.split()
    if words[:2] == ["theodolite", "reproduce"]:
        return len(words) > 2 and words[2] in {"all", *experiments(), *items()}
    if words[:2] == ["theodolite", "bench"]:
        return len(words) > 2
    if words[:1] == ["make"]:
        return len(words) > 1 and f"\n{words[1]}:" in (repository / "Makefile").read_text("utf-8")
    scripts = [word for word in words if word.startswith(("speed/", "tools/", "tests/"))]
    return bool(scripts) and all((repository / script.partition("::")[0]).exists() for script in scripts)


def _sections(text: str) -> Iterator[tuple[int, str]]:
    """Runs of lines that begin with a heading, with the number of their first line; code has no headings."""
    start, run, fenced = 1, list[str](), False
    for number, line in enumerate(text.splitlines(), start=1):
        fenced ^= line.startswith("```")
        if _HEADING.match(line) and not fenced and run:
            yield start, "\n".join(run)
            start, run = number, []
        run.append(line)
    yield start, "\n".join(run)


def _figures(lines: list[str]) -> int:
    """Cells of figures in the table that begins with the first line."""
    count = 0
    for line in lines:
        if not line.startswith("|"):
            break
        count += sum(_is_figure(cell) for cell in line.split("|"))
    return count


def _is_figure(cell: str) -> bool:
    shown = _ASIDE.sub("", cell)
    letters, digits = (sum(test(sign) for sign in shown) for test in (str.isalpha, str.isdigit))
    return bool(_DECIMAL.search(shown)) and letters <= digits + _LETTERS
