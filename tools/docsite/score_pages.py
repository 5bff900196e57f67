"""A page a score: formula and intuition from its docstring, needs from its record, figures from results/."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import theodolite as th
from theodolite.detectors import RECOMMENDED, Record, detector_record

from .docstrings import to_markdown
from .settings import Entry
from .standing import Standing, standings, tables

# By what a fit must collect: the first line that holds for a score is its family.
FAMILIES = (
    "Of words and layers",
    "Of neighbours",
    "Of the covariance",
    "Of class means and answers",
    "Of the centre",
    "Of the head alone",
)


def all_records() -> list[Record]:
    """Every registered score, by title."""
    names = [
        *th.list_detectors(),
        *th.list_detectors(of_layers=True),
        *th.list_detectors(of_words=True),
    ]
    return sorted((detector_record(name) for name in names), key=lambda record: record.title.lower())


def page_of(name: str) -> str:
    """The file of a score's page: a plus is no letter of an address."""
    return f"scores/{name.replace('+', '-plus')}.md"


def score_pages(results: Path) -> dict[str, str]:
    """The pages of all scores; the figures are those of the committed tables."""
    places = standings(tables(results))
    return {page_of(record.name): score_page(record, places.get(record.name, [])) for record in all_records()}


def with_links(page: str) -> str:
    """A page whose tables begin with names of scores, each a link to its own page."""
    known = {record.name for record in all_records()}

    def link(match: re.Match[str]) -> str:
        return f"[{match[0]}]({page_of(match[1])})" if match[1] in known else match[0]

    def row(match: re.Match[str]) -> str:
        return re.sub(r"`([^`]+)`", link, match[0])

    return re.sub(r"^\| `[^|]+\|", row, page, flags=re.MULTILINE)


def score_entries() -> list[Entry]:
    """The pages in the navigation, a heading a family."""
    members: dict[str, list[Entry]] = {family: [] for family in FAMILIES}
    for record in all_records():
        members[family_of(record)].append((record.title, page_of(record.name)))
    return [(family, entries) for family, entries in members.items() if entries]


def family_of(record: Record) -> str:
    """By what a fit collects."""
    needs = record.detector().needs
    holds = (
        record.detector.of_layers or record.detector.of_words,
        bool(needs.bank or needs.bank_share) and not (needs.scatter or needs.correct_means),
        needs.scatter,
        needs.by_class or needs.answers,
        needs.mean,
        True,
    )
    return FAMILIES[holds.index(True)]


def score_page(record: Record, places: Sequence[Standing]) -> str:
    """One score: what it is, what it needs, how to call it, where it stands, where it comes from."""
    said = inspect.getdoc(sys.modules[record.detector.__module__]) or ""
    parts = [
        f"# {record.title}",
        _heading(record, said),
        _body(said),
        "## What it needs",
        _needs(record),
        "## Options",
        _options(record),
        "## Use it",
        _use(record),
        "## On our tables",
        _standings(record, places),
        "## Paper",
        _paper(record),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _heading(record: Record, said: str) -> str:
    told = " ".join(said.partition("\n\n")[0].split())
    _, _, title = told.partition(": ")
    title = title or told
    names = ", ".join(f"`{name}`" for name in (record.name, *record.aliases))
    chosen = "the default of `theodolite fit`: [how it was chosen](../metric.md)"
    mark = f"\n\n**The recommended score**, and {chosen}."
    return f"{title[0].upper()}{title[1:]}\n\nBy name: {names}." + mark * (record.name == RECOMMENDED)


def _body(said: str) -> str:
    """Formula, intuition, where it fails, cost; names of other pages become links."""
    text = to_markdown(said, titled=True)
    text = re.sub(r"^(Where it fails|Cost for N rows[^:]*):", r"**\1:**", text, flags=re.MULTILINE)
    return re.sub(r"(?<![\w/`])([a-z-]+\.md)\b", r"[\1](../\1)", text)


def _needs(record: Record) -> str:
    kind = record.detector
    needs = kind().needs
    lines = [f"- A fit collects: {', '.join(needs.names()) or 'nothing, the head is enough'}."]
    if kind.of_layers:
        where = "[Several layers](../model-scores.md#several-layers)"
        lines = [f"- {where} of a model; a fit collects what its score does."]
    if kind.of_words:
        lines = ["- Names of the classes, and [words that are none](../scores.md#cosine-heads)."]
    if needs.labels:
        lines.append("- Labels of the rows to fit on.")
    if kind.of_layers:
        return "\n".join(lines)
    if not (kind.uses_logits or kind.reads_head):
        lines.append("- No head: it works on embeddings of any encoder.")
    else:
        lines.append("- The head, the classifier's last linear layer.")
    if record.on_features.mark:
        lines.append(
            f"- The model and its inputs. Where only features are at hand it is called {record.title} "
            f"({record.on_features.mark}): [scores that ask more of the model](../model-scores.md)."
        )
    return "\n".join(lines)


def _options(record: Record) -> str:
    parameters = inspect.signature(record.detector).parameters.values()
    names = [each.name for each in parameters]
    rows = [
        f"| `{each.name}` | `{_plain_type(each.annotation)}` | `{_default(each.default)}` |"
        for each in parameters
    ]
    table = "\n".join(["| option | type | default |", "|---|---|---|", *rows])
    return f"{to_markdown(record.detector.__doc__ or '', names)}\n\n{table}"


def _plain_type(annotation: object) -> str:
    """As it is written in the code, within a cell of a table."""
    return str(annotation).replace("|", "or")


def _default(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def _use(record: Record) -> str:
    name, kind = record.name, record.detector
    fit = "theodolite fit --model MODEL --data train/ --calibration-data val/"
    if kind.of_words:
        asked, more = (
            "--classes names.txt --negatives words.txt",
            "[CLIP and SigLIP](../models.md#clip-and-siglip)",
        )
        return f"{_console(f'{fit} {asked} -o guard.safetensors')}\n\nMore: {more}."
    if kind.of_layers:
        asked, more = "--layer layer2 --layer layer3", "[several layers](../model-scores.md#several-layers)"
        return f"{_console(f'{fit} {asked} -o guard.safetensors')}\n\nMore: {more}."
    shell = _console(
        f"{fit} --detector {name} -o guard.safetensors", f"theodolite bench features:FOLDER --detector {name}"
    )
    code = [
        "import theodolite as th",
        "",
        f'detector = th.create("{name}").fit(train_features, train_labels, head=head)',
        "scores = detector.score(new_features)  # higher = more in-distribution",
    ]
    return "\n".join([shell, "", "```python", *code, "```"])


def _console(*commands: str) -> str:
    return "\n".join(["```console", *(f"$ {command}" for command in commands), "```"])


def _standings(record: Record, places: Sequence[Standing]) -> str:
    if not places:
        return (
            "It stands in no committed table: it asks for something that stored features do not have "
            f"({'words' if record.detector.of_words else 'several layers'})."
        )
    ranked = sorted(places, key=lambda each: (each.place / each.scores, each.fpr95))
    best, worst = ranked[0], ranked[-1]
    rows = [
        f"| {each.model} | {each.ood} | {each.fpr95:.2f} | {each.auroc:.2f} | {each.place} of {each.scores} "
        f"| [{each.page}](../results/{each.page}.md) |"
        for each in places
    ]
    commands = ", ".join(f"`{command}`" for command in dict.fromkeys(each.command for each in places))
    mark = f" Its rows are those of {record.title} ({record.on_features.mark})." * bool(
        record.on_features.mark
    )
    return "\n".join(
        [
            f"Its best place in these tables is on {best.ood} under {best.model}: place {best.place} of "
            f"{best.scores} by FPR95 ({best.fpr95:.2f} %), its lowest on {worst.ood} under {worst.model}: "
            f"place {worst.place} of {worst.scores} ({worst.fpr95:.2f} %).",
            "",
            "FPR95 (share of OOD accepted when 95 % of ID is) and AUROC in %, lowest FPR95 first; the place "
            f"is among all scores of that table, with their defaults.{mark}",
            "",
            "| network | OOD | FPR95 ↓ | AUROC ↑ | place | table |",
            "|---|---|---:|---:|---:|---|",
            *rows,
            "",
            f"Made by {commands}.",
        ]
    )


def _paper(record: Record) -> str:
    if is_own(record):
        return f"None: it is theodolite's own, see [{_home(record)}](../{_home(record)})."
    return f"{linked(record.paper)} ({record.year}). All papers: [bibliography](../bibliography.md)."


def is_own(record: Record) -> bool:
    """Whether a score comes from no paper."""
    return record.name == RECOMMENDED or record.detector.of_layers


def _home(record: Record) -> str:
    return "model-scores.md" if record.detector.of_layers else "metric.md"


def linked(paper: str) -> str:
    """A reference whose arXiv number is a link."""
    return re.sub(r"arXiv:(\d{4}\.\d{4,5})", r"[arXiv:\1](https://arxiv.org/abs/\1)", paper)


def papers_table() -> str:
    """Every paper that a score comes from, by year."""
    papers: dict[tuple[int, str], list[str]] = {}
    for record in all_records():
        if not is_own(record):
            link = f"[{record.title}]({page_of(record.name)})"
            papers.setdefault((record.year, record.paper), []).append(link)
    rows = [
        f"| {year} | {linked(paper)} | {', '.join(scores)} |"
        for (year, paper), scores in sorted(papers.items())
    ]
    return "\n".join(["| year | paper | scores |", "|---|---|---|", *rows]) + "\n"
