"""One call builds the site: pages into a folder of their own, then Zensical, whose warnings are errors."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from .api_pages import api_entries, api_pages
from .example_pages import example_entries, example_pages
from .pages import filled, gather, write
from .result_pages import committed, reproduction_tables, result_entries, results_index
from .score_pages import papers_table, score_entries, score_pages, with_links
from .settings import Entry, configuration, navigation

REPOSITORY = Path(__file__).parents[2]
_COPIED = ("images", "assets")
# The theme fetches what its search needs on file:// from a server; docs/assets has one of our own.
_FETCHED = '<script src="https://unpkg.com/iframe-worker/shim" type="text/javascript"></script>'
_OWN = "assets/file-search.js"
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class BuildError(RuntimeError):
    """The site was not built, and why."""


def all_pages(repository: Path = REPOSITORY) -> tuple[dict[str, str], list[Entry]]:
    """Every page of the site as Markdown, by its place, and the order they are listed in."""
    results = repository / "results"
    pages = gather(repository)
    tables = committed(pages)
    examples = example_pages(repository)
    pages |= {**score_pages(results), **api_pages(), **examples, "results/index.md": results_index(tables)}
    pages["scores.md"] = with_links(pages["scores.md"])
    pages["reproduction.md"] = filled(pages["reproduction.md"], reproduction_tables(results))
    pages["bibliography.md"] = filled(pages["bibliography.md"], papers_table())
    nav = navigation(score_entries(), result_entries(tables), example_entries(examples), api_entries())
    return pages, nav


def build(pages: Mapping[str, str], nav: Sequence[Entry], output: Path, work: Path) -> str:
    """The site of `all_pages` into ``output``, and what its builder said; ``work`` holds what it reads."""
    shutil.rmtree(work, ignore_errors=True)
    write(pages, work / "docs")
    for folder in _COPIED:
        shutil.copytree(REPOSITORY / "docs" / folder, work / "docs" / folder)
    # JSON is YAML.
    (work / "mkdocs.yml").write_text(json.dumps(configuration(nav), indent=2), encoding="utf-8")
    said = _run(work)
    _without_network(work / "site")
    shutil.rmtree(output, ignore_errors=True)
    shutil.copytree(work / "site", output)
    return said


def _run(work: Path) -> str:
    command = [
        sys.executable,
        "-m",
        "zensical",
        "build",
        "--clean",
        "--strict",
        "--config-file",
        "mkdocs.yml",
    ]
    # The builder reads Markdown; what the caller's folders hold is none of its business.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True)
    said = _COLOURS.sub("", done.stdout + done.stderr)
    if done.returncode != 0:
        raise BuildError(f"the builder refused the pages in {work}:\n{said}")
    return said


def _without_network(site: Path) -> None:
    """Every page with our own script in the place of the fetched one."""
    for page in site.rglob("*.html"):
        text = page.read_text("utf-8")
        if _FETCHED not in text:
            raise BuildError(
                f"{page} no longer asks for {_FETCHED}: look at what a new theme does about file://"
            )
        up = "../" * (len(page.relative_to(site).parts) - 1)
        page.write_text(text.replace(_FETCHED, f'<script src="{up}{_OWN}"></script>'), encoding="utf-8")
