"""The pages of the site as text, before anything is built: those that are written and those that are made."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from pathlib import Path

# Pages from outside of docs/, and where they stand in the site.
ELSEWHERE = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "LICENSES-DATA.md": "licences.md",
    "LICENSE": "licence.md",
    "README.md": "index.md",
    "results": "results/index.md",
    "examples": "examples/index.md",
}
# In a written page, the place of what `make docs` makes of the code.
MARKER = "<!-- made by `make docs` -->"
_GATHERED = ("CONTRIBUTING.md", "CHANGELOG.md", "LICENSES-DATA.md")
_FENCE = re.compile(r"^(```|~~~)")
_LINK = re.compile(r"(?<=\]\()(?P<target>[^)\s]+)(?=\))")
_REMOTE = re.compile(r"^[a-z]+:")
_FILE_LINK = re.compile(r"\[(?:[\w-]+/)*[\w-]+\.md\]\((?P<target>(?P<path>[^)#\s]+)[^)\s]*)\)")
# What would end a link, or a cell of a table.
_SIGNS = re.compile(r"[\[\]|]")
_TITLE = re.compile(r"^# (?P<title>.+)$", re.MULTILINE)


class DeadLinkError(ValueError):
    """A page links to something that the site does not have."""


def gather(repository: Path) -> dict[str, str]:
    """Every page that somebody wrote, in docs/, results/ and beside them, by its place in the site.

    Links are between files of the repository, as they work there; here they become links between pages.
    """
    sources = {path.relative_to(repository).as_posix(): path for path in sorted(repository.glob("docs/*.md"))}
    sources |= {f"results/{path.name}": path for path in sorted(repository.glob("results/*.md"))}
    sources |= {name: repository / name for name in _GATHERED}
    pages = {place(name): moved_links(name, path.read_text("utf-8")) for name, path in sources.items()}
    pages["licence.md"] = (
        f"# Licence\n\n```text\n{(repository / 'LICENSE').read_text('utf-8').strip()}\n```\n"
    )
    return {name: titled_links(name, text, pages) for name, text in pages.items()}


def place(path: str) -> str:
    """Where a file of the repository stands in the site."""
    if path in ELSEWHERE:
        return ELSEWHERE[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if path.startswith("examples/") and path.endswith((".py", ".ipynb")):
        return f"{path.rpartition('.')[0]}.md"
    if path.startswith("results/") and path.endswith(".md"):
        return path
    raise DeadLinkError(f"{path} has no page in the site")


def moved_links(source: str, text: str) -> str:
    """The text of a file of the repository with its links as they are in the site."""
    here = posixpath.dirname(place(source))

    def moved(match: re.Match[str]) -> str:
        target = match["target"]
        path, _, anchor = target.partition("#")
        if not path or _REMOTE.match(target):
            return target
        meant = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        try:
            found = posixpath.relpath(place(meant), here or ".")
        except DeadLinkError as error:
            raise DeadLinkError(f"{source} links to {target}: {error}") from error
        return f"{found}#{anchor}" if anchor else found

    return _outside_code(text, lambda line: _LINK.sub(moved, line))


def _outside_code(text: str, changed: Callable[[str], str]) -> str:
    """The text with its lines changed, but for those of fenced code."""
    lines, fenced = [], False
    for line in text.splitlines():
        fenced ^= bool(_FENCE.match(line))
        lines.append(line if fenced else changed(line))
    return "\n".join(lines) + "\n"


def titled_links(name: str, text: str, pages: Mapping[str, str]) -> str:
    """A page whose links to other pages bear their titles where they bore the names of files.

    Names in backticks are meant as names: those of the files of results.
    """

    def titled(match: re.Match[str]) -> str:
        meant = posixpath.normpath(posixpath.join(posixpath.dirname(name), match["path"]))
        found = _TITLE.search(pages.get(meant, ""))
        if found is None:
            return match[0]
        title = _SIGNS.sub(r"\\\g<0>", found["title"])
        return f"[{title}]({match['target']})"

    return _outside_code(text, lambda line: _FILE_LINK.sub(titled, line))


def write(pages: Mapping[str, str], folder: Path) -> None:
    """Every page to its file below ``folder``."""
    for name, text in pages.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def filled(page: str, made: str) -> str:
    """A written page with what is made of the code in the place that waits for it."""
    before, marker, after = page.partition(MARKER)
    if not marker:
        raise ValueError(f"the page that begins with {page[:40]!r} has no line {MARKER}")
    return f"{before}{made.strip()}{after}"
