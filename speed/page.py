"""The table of the speed suite in Markdown, and the page of the docs that it stands on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lines import Line

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
COLUMNS = ("", "measured", "quartiles", "bound", "tolerance", "")


@dataclass(frozen=True)
class Outcome:
    """What one script gave: its lines, its time, and why it ended early if it did."""

    script: str
    about: str
    seconds: float
    lines: Sequence[Line]
    failure: str | None = None

    @property
    def missed(self) -> int:
        """Bounds that failed; a script that ended early is one more."""
        return sum(one.missed for one in self.lines) + (self.failure is not None)


def table(facts: Mapping[str, str], outcomes: Sequence[Outcome], date: str) -> str:
    """Versions, then one row a line, grouped by script."""
    versions = ", ".join(f"{name} {value}" for name, value in facts.items())
    rows = [row(COLUMNS), "|---|---:|---:|---:|---:|---|"]
    for outcome in outcomes:
        heading = f"**{outcome.about}** `{outcome.script}`, {outcome.seconds:.0f} s"
        rows.append(row((heading, *[""] * 5)))
        rows += [row(cells(one)) for one in outcome.lines]
        if outcome.failure is not None:
            rows.append(row((f"ended early: {outcome.failure}", "", "", "", "", "**MISSED**")))
    return f"{date}: {versions}.\n\n" + "\n".join(rows)


def cells(one: Line) -> tuple[str, ...]:
    return (
        one.name,
        f"{number(one.value)} {one.unit}".rstrip(),
        "" if one.quartiles is None else " to ".join(number(value) for value in one.quartiles),
        one.bound,
        f"{one.tolerance:.0%}" if one.limit is not None and one.tolerance else "",
        f"**{one.verdict}**" if one.missed else one.verdict,
    )


def number(value: float) -> str:
    """About three digits, and no more than three behind the point."""
    size = abs(value)
    places = 0 if size >= 100 or size == 0 else 1 if size >= 10 else 2 if size >= 1 else 3
    return f"{value:,.{places}f}"


def row(parts: Sequence[str]) -> str:
    inside = (" ".join(part.replace("|", r"\|").split()) for part in parts)
    return "| " + " | ".join(inside) + " |"


def put(name: str, text: str, page: Path = PAGE) -> None:
    """Replace what stands between the page's two marks of that name."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    old = page.read_text(encoding="utf-8")
    if old.count(begin) != 1 or old.count(end) != 1 or old.index(begin) > old.index(end):
        raise ValueError(f"{page} must hold the marks {begin} and {end} once, in this order")
    before, rest = old.split(begin)
    page.write_text(f"{before}{begin}\n{text}\n{end}{rest.split(end)[1]}", encoding="utf-8")
