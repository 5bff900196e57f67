"""Docstrings as Markdown: formulas stay as they are typed, options become a list, examples become code."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Iterator

_LITERAL = re.compile(r"``(.+?)``")


def to_markdown(text: str, options: Collection[str] = (), *, titled: bool = False) -> str:
    """The whole docstring, paragraph by paragraph; without its first one where that is a title elsewhere.

    Where a sentence begins with the name of one of the ``options`` and a colon, it is an item of a list.
    """
    blocks = re.split(r"\n\s*\n", inspect.cleandoc(text))
    return "\n\n".join(_block(block, options) for block in blocks[int(titled) :])


def summary(text: str | None) -> str:
    """The first paragraph of a docstring, in one line."""
    first = inspect.cleandoc(text or "").split("\n\n", 1)[0]
    return prose(" ".join(first.split()))


def prose(text: str) -> str:
    """Literals in the way of Markdown; signs that mean something to it elsewhere, as signs."""
    parts = re.split(r"(`[^`]+`)", _LITERAL.sub(r"`\1`", text))
    return "".join(part if part.startswith("`") else _escaped(part) for part in parts)


def _block(block: str, options: Collection[str]) -> str:
    lines = block.splitlines()
    if lines[0].lstrip().startswith(">>>"):
        return "```pycon\n" + inspect.cleandoc(block) + "\n```"
    if all(line.startswith("    ") for line in lines):
        return "```text\n" + inspect.cleandoc(block) + "\n```"
    return "\n".join(_items(" ".join(line.strip() for line in lines), options))


def _items(text: str, options: Collection[str]) -> Iterator[str]:
    """A paragraph; from the first option on, a list."""
    if not options:
        yield prose(text)
        return
    name = "(?:" + "|".join(re.escape(option) for option in options) + ")"
    pieces = re.split(rf"(?:^|(?<=\. ))({name}(?:, {name})*): ", text)
    if pieces[0].strip():
        yield prose(pieces[0].strip())
    if pieces[1:]:
        yield ""
    for names, said in zip(pieces[1::2], pieces[2::2], strict=True):
        yield f"- {', '.join(f'`{each}`' for each in names.split(', '))}: {prose(said.strip())}"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("*", "\\*")
