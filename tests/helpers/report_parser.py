"""A page as a browser would find it."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any

_VOID = {"meta", "link", "img", "br", "input"}


class ParsedPage(HTMLParser):
    """Tables as rows of cells, each its texts and the tags ``<b>`` and ``<u>``; every reference; all text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: dict[str, list[list[list[str]]]] = {}
        self.references: list[str] = []
        self.scripts: list[str] = []
        self.styles: list[str] = []
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.policy = ""
        self._open: list[str] = []
        self._cell: list[str] | None = None
        self._table = ""
        self.feed(text)
        self.close()
        assert self._open == [], "every element is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.tags.append(tag)
        if tag not in _VOID:
            self._open.append(tag)
        self.references += [values[name] or "" for name in ("src", "href") if name in values]
        if values.get("http-equiv") == "Content-Security-Policy":
            self.policy = values["content"] or ""
        if tag == "script":
            self.scripts.append("")
        elif tag == "div" and values.get("class") == "table":
            self._table = (values["id"] or "").removeprefix("table-")
            self.tables[self._table] = []
        elif tag == "tr":
            self.tables[self._table].append([])
        elif tag in ("td", "th"):
            self._cell = []
            self.tables[self._table][-1].append(self._cell)
        elif self._cell is not None and tag in ("b", "u"):
            self._cell.append(f"<{tag}>")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Of a drawing: it opens nothing."""
        assert tag not in ("script", "img"), attrs
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag
        if tag in ("td", "th"):
            self._cell = None

    def handle_data(self, text: str) -> None:
        within = self._open[-1] if self._open else ""
        if within == "script":
            self.scripts[-1] += text
        elif within == "style":
            self.styles.append(text)
        elif text.strip():
            self.texts.append(" ".join(text.split()))
            if self._cell is not None:
                self._cell.append(text.strip())

    @property
    def scores(self) -> dict[str, Any]:
        """What the script draws from."""
        found: dict[str, Any] = json.loads(self.scripts[0])
        return found
