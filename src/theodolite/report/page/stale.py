"""Pages of an earlier run in the folder of a new one.

Every page names all pages of its run, itself among them. A file that does not name itself is a copy that
somebody kept under another name, or no page of ours: neither is touched.
"""

from __future__ import annotations

import html
import re
from pathlib import Path

_NAMES = re.compile(r'<meta name="theodolite-pages" content="([^"]*)">')
# The names stand in the head, behind the policy of the page, which is short.
_HEAD = 65_536


def earlier_pages(folder: Path) -> list[Path]:
    """The pages in a folder that a run has written there."""
    return [path for path in sorted(folder.glob("report*.html")) if path.name in _named(path)]


def _named(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD).decode("utf-8", errors="replace")
    except OSError:
        return []
    found = _NAMES.search(head)
    return [] if found is None else html.unescape(found[1]).split("/")
