"""The documentation site: built with warnings as errors, whole, offline; its figures come from commands."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import theodolite as th
from docsite.api_pages import public_names
from docsite.build import REPOSITORY, all_pages, build
from docsite.docstrings import to_markdown
from docsite.figures_of_tables import FigureTable, figure_tables, makes_figures, sources
from docsite.pages import DeadLinkError, filled, gather, moved_links, titled_links
from docsite.result_pages import committed
from docsite.score_pages import all_records, page_of
from docsite.settings import Entry
from docsite.standing import standings, tables
from synthetic import make_problem

LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}


class Html(HTMLParser):
    """What a page links to, loads, and can be linked at."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors |= {value for name in ("id", "name") if (value := given.get(name))}
        if tag == "a" and given.get("href"):
            self.links.append(str(given["href"]))
        if given.get(LOADED.get(tag, "")) and given.get("rel") not in ("canonical", "prev", "next"):
            self.loads.append(str(given[LOADED[tag]]))


@pytest.fixture(scope="module")
def whole() -> tuple[dict[str, str], list[Entry]]:
    return all_pages()


@pytest.fixture(scope="module")
def pages(whole: tuple[dict[str, str], list[Entry]]) -> dict[str, str]:
    return whole[0]


@pytest.fixture(scope="module")
def site(whole: tuple[dict[str, str], list[Entry]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("zensical", reason="pip install 'theodolite[docs]'")
    folder = tmp_path_factory.mktemp("docs")
    said = build(*whole, folder / "site", folder / "work")  # strict: a warning is an error
    assert "warning" not in said.lower()
    return folder / "site"


@pytest.fixture(scope="module")
def html(site: Path) -> dict[Path, Html]:
    return {page: Html(page.read_text("utf-8")) for page in site.rglob("*.html")}


def test_every_link_leads_somewhere(html: dict[Path, Html]) -> None:
    dead = []
    for page, parsed in html.items():
        for link in {*parsed.links, *parsed.loads}:
            split = urlsplit(link)
            if split.scheme or page.name == "404.html":
                continue
            target = (page.parent / unquote(split.path)).resolve() if split.path else page
            target = target / "index.html" if target.is_dir() else target
            anchor = unquote(split.fragment)
            missing = anchor and anchor not in (html[target].anchors if target in html else ())
            if not target.is_file() or missing:
                dead.append(f"{page.name}: {link}")
    assert not dead


def test_nothing_is_fetched(site: Path, html: dict[Path, Html]) -> None:
    for page, parsed in html.items():
        assert not [load for load in parsed.loads if urlsplit(load).scheme not in ("", "data")], page
    for style in site.rglob("*.css"):
        assert not re.findall(r"(?:url\(|@import)\s*['\"]?(https?:[^)'\"]+)", style.read_text("utf-8")), style


def test_every_page_is_in_the_navigation_and_the_search(
    whole: tuple[dict[str, str], list[Entry]], site: Path
) -> None:
    found, nav = whole
    listed: set[str] = set()
    waiting = list(nav)
    while waiting:
        _, below = waiting.pop()
        if isinstance(below, str):
            listed.add(below)
        else:
            waiting += below
    assert listed == set(found)
    index = json.loads((site / "search.json").read_text("utf-8"))
    known = {item["location"].partition("#")[0] for item in index["items"]}
    assert {name.removesuffix(".md") + ".html" for name in found} == known
    # Opened as a file, a page has the same index as a script.
    script = (site / "search.js").read_text("utf-8")
    assert json.loads(script.partition("=")[2].strip().rstrip(";")) == index


def test_every_score_has_a_page_that_says_all(pages: dict[str, str]) -> None:
    for record in all_records():
        page = pages[page_of(record.name)]
        assert page.startswith(f"# {record.title}\n")
        for part in ("```text\n", "**Where it fails:**", "**Cost for N rows", "## What it needs", "## Paper"):
            assert part in page, f"{record.name} lacks {part}"
        assert f"[`{record.name}`]({page_of(record.name)})" in pages["scores.md"]
    assert len(all_records()) == len({page_of(record.name) for record in all_records()})


def test_the_figures_of_a_score_are_those_of_the_committed_table(pages: dict[str, str]) -> None:
    """Held to the Markdown that the run itself wrote."""
    places = standings(tables(REPOSITORY / "results"))
    assert set(places) == set(th.list_detectors())
    (svhn,) = (each for each in places["ora"] if (each.model, each.ood) == ("cifar10-densenet", "svhn"))
    rows = re.findall(
        r"^\| ([^|]+) \| ([^|]+) \| [^|]+ \| [^|]+ \|$", pages["results/cifar10-densenet.md"], re.M
    )
    figures = [
        (name, float(re.sub(r"[^\d.]", "", value)))
        for name, value in rows[1 : rows.index(("score", "svhn"), 1)]
    ]
    fpr95 = dict(figures)
    assert svhn.fpr95 == pytest.approx(fpr95["ORA"], abs=0.005)
    assert svhn.scores == len(fpr95)
    assert svhn.place == 1 + sum(value < fpr95["ORA"] for value in fpr95.values())
    assert f"| cifar10-densenet | svhn | {fpr95['ORA']:.2f} |" in pages["scores/ora.md"]


@pytest.mark.parametrize("name", th.list_detectors())
def test_the_lines_on_the_page_of_a_score_run(pages: dict[str, str], name: str) -> None:
    problem = make_problem()
    names: dict[str, object] = {
        "train_features": problem.train,
        "train_labels": problem.labels,
        "new_features": problem.test,
        "head": problem.head,
    }
    (code,) = re.findall(r"```python\n(.*?)```", pages[page_of(name)], re.DOTALL)
    exec(code, names)
    assert len(names["scores"]) == len(problem.test)  # type: ignore[arg-type]


def test_every_public_name_is_in_the_reference(pages: dict[str, str]) -> None:
    names = public_names()
    wanted = set(th.__all__) - {"__version__"}  # type: ignore[attr-defined]
    assert sorted(name for entries in names.values() for name in entries) == sorted(wanted)
    for home, entries in names.items():
        page = pages[f"api/{home.replace('.', '-')}.md"]
        for name in entries:
            assert f"## {name} {{ #{name.lower()} }}" in page
            assert f"[`{name}`](" in pages["api/index.md"]
    assert "### Guard.verdicts " in pages["api/guard.md"]
    assert "th.KNN(" in pages["api/scores.md"]


def test_every_table_of_results_names_a_command_that_exists() -> None:
    found = committed(gather(REPOSITORY))
    assert len(found) == len(list((REPOSITORY / "results").glob("*.md"))) > 30
    for table in found:
        assert makes_figures(table.command, REPOSITORY), f"{table.name}: {table.command}"


def test_every_table_of_figures_in_the_pages_names_what_made_it(pages: dict[str, str]) -> None:
    written = {name: text for name, text in pages.items() if not name.startswith("results/")}
    found = [table for name, text in written.items() for table in figure_tables(name, text)]
    assert len(found) > 50
    assert not [str(table) for table in found if not sources(table, REPOSITORY)]


def test_a_table_without_a_command_is_found() -> None:
    rows = "| a | 1.25 |\n|---|---|\n| b | 2.50 |\n| c | 3.75 |\n"
    (table,) = figure_tables("page.md", f"# Page\n\n`theodolite reproduce mnist`\n\n## Section\n\n{rows}")
    assert (table.line, sources(table, REPOSITORY)) == (7, [])
    assert sources(FigureTable("p", 1, "By `theodolite reproduce mnist`."), REPOSITORY)
    assert not sources(FigureTable("p", 1, "By `theodolite reproduce nothing`, `make nothing`."), REPOSITORY)
    assert sources(FigureTable("p", 1, "    make bench ONLY=ora"), REPOSITORY) == ["make bench ONLY=ora"]
    options = "| `k=0.5` | a share (0.25) |\n|---|---|\n| version | 1.2.3 |\n| arXiv:1234.5678 | |\n"
    assert not list(figure_tables("page.md", options))


def test_links_between_files_become_links_between_pages() -> None:
    assert moved_links("docs/guard.md", "[a](../results/x.md#y) [b](data.md) [c](https://d.e)") == (
        "[a](results/x.md#y) [b](data.md) [c](https://d.e)\n"
    )
    assert moved_links("CONTRIBUTING.md", "[a](docs/guard.md)\n```\n[b](nowhere)\n```") == (
        "[a](guard.md)\n```\n[b](nowhere)\n```\n"
    )
    with pytest.raises(DeadLinkError, match=r"docs/guard\.md links to \.\./src/x\.py"):
        moved_links("docs/guard.md", "[a](../src/x.py)")
    with pytest.raises(ValueError, match="has no line"):
        filled("# Page\n", "made")


def test_links_named_after_files_bear_titles() -> None:
    pages = {"data.md": "# Data\n", "results/x.md": "# Figures of x\n"}
    assert titled_links("guard.md", "[data.md](data.md#a) [docs/data.md](data.md)", pages) == (
        "[Data](data.md#a) [Data](data.md)\n"
    )
    kept = "[`x.md`](results/x.md) [the data](data.md) [old.md](https://d.e/old.md)"
    assert titled_links("guard.md", kept, pages) == f"{kept}\n"
    assert titled_links("results/x.md", "[data.md](../data.md)", pages) == "[Data](../data.md)\n"
    code = "```\n[data.md](data.md)\n```\n"
    assert titled_links("guard.md", code, pages) == code
    assert titled_links("a.md", "[b.md](b.md)", {"b.md": "# x | y [z]\n"}) == "[x \\| y \\[z\\]](b.md)\n"


def test_docstrings_become_markdown() -> None:
    said = """Title of it.

        s(z) = a*b < c

    k: how ``many``. seed: of a < b.

    >>> 1 + 1
    2
    """
    assert to_markdown(said, ["k", "seed"], titled=True) == (
        "```text\ns(z) = a*b < c\n```\n\n\n- `k`: how `many`.\n- `seed`: of a &lt; b.\n\n"
        "```pycon\n>>> 1 + 1\n2\n```"
    )
