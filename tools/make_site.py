"""`make docs`: the documentation site into site/, and where to look at it."""

from __future__ import annotations

import sys
from pathlib import Path

from docsite.build import REPOSITORY, BuildError, all_pages, build
from docsite.pages import DeadLinkError


def main() -> int:
    """Exit code 1, and the reason, where a warning or a dead link stops it."""
    output = REPOSITORY / "site"
    try:
        build(*all_pages(), output, REPOSITORY / "build" / "docs-site")
    except (BuildError, DeadLinkError) as error:
        print(error, file=sys.stderr)
        return 1
    pages = sum(1 for _ in Path(output).rglob("*.html"))
    print(f"{pages} pages: open {output / 'index.html'}, or {sys.executable} -m http.server -d {output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
