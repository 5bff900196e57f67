"""What the pages of README and docs have in code blocks: Python, and `theodolite` on the command line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PYTHON, COMMAND = "python", "command"
_FENCE = re.compile(r"^( *)(```+) *(\w*)")
# In these a line that begins with the command is one.
_SHELLS = ("", "console", "sh", "shell", "bash", "text")


@dataclass(frozen=True)
class Block:
    """A block of Python, or one command; ``line`` is where it stands."""

    page: str
    line: int
    kind: str
    text: str

    @property
    def words(self) -> list[str]:
        """The words of a command after its own name, without a comment."""
        return shlex.split(self.text, comments=True)[1:]

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def pages(root: Path = ROOT) -> list[str]:
    found = ["README.md", *(str(path.relative_to(root)) for path in (root / "docs").rglob("*.md"))]
    return sorted(found)


def blocks_of(page: str, root: Path = ROOT) -> list[Block]:
    """The blocks of a page in order."""
    lines = (root / page).read_text(encoding="utf-8").splitlines()
    return [*_blocks(page, lines)]


def _blocks(page: str, lines: list[str]) -> Iterator[Block]:
    number = 0
    while number < len(lines):
        fence = _FENCE.match(lines[number])
        if fence is not None:
            indent, ticks, language = fence.groups()
            end = number + 1
            while lines[end].strip() != ticks:
                end += 1
            body = [line.removeprefix(indent) for line in lines[number + 1 : end]]
            if language == PYTHON:
                yield Block(page, number + 2, PYTHON, "\n".join(body) + "\n")
            elif language in _SHELLS:
                yield from _commands(page, number + 2, body)
            number = end + 1
        elif lines[number].startswith("    "):
            end = number
            while end < len(lines) and lines[end].startswith("    "):
                end += 1
            yield from _commands(page, number + 1, [line[4:] for line in lines[number:end]])
            number = end
        else:
            number += 1


def _commands(page: str, first: int, body: list[str]) -> Iterator[Block]:
    """The commands among lines; one that ends in a backslash goes on, and a pipe joins several."""
    number = 0
    while number < len(body):
        start, text = number, body[number].removeprefix("$ ")
        while text.endswith("\\") and number + 1 < len(body):
            number += 1
            text = text[:-1] + body[number].removeprefix("> ").strip()
        number += 1
        for part in text.split(" | "):
            if part.startswith("theodolite "):
                yield Block(page, first + start, COMMAND, part)
