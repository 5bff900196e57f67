"""The way to the screen: names of files, models and classes are text, never markup or commands to a terminal.

A path may hold ``[/b]``, and a name the sequences that move the cursor, rename the window or colour whatever
follows. All that is printed passes through here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

# Controls of a terminal (C0 but for tab and newline, DEL, C1), and what turns the direction of writing.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_LINES = re.compile("[\t\n\u2028\u2029]")
_INSTEAD = "\N{REPLACEMENT CHARACTER}"


def clean(text: str) -> str:
    """A text on one line, without anything that a terminal would obey."""
    return _LINES.sub(_INSTEAD, _CONTROL.sub(_INSTEAD, text))


def screen(*, stderr: bool = False) -> Console:
    """The terminal, or the file or pipe in its place."""
    return _Screen(stderr=stderr, markup=False, emoji=False, highlight=False)


def say(console: Console, text: str, style: str = "", *, title: str = "") -> None:
    """A line, however long: it breaks where the terminal does. The style is the title's, if there is one."""
    parts = ((clean(title), style), clean(text)) if title else ((clean(text), style),)
    console.print(Text.assemble(*parts), soft_wrap=True)


class _Screen(Console):
    """A console on which text is text, in tables and progress bars as well."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            # Controls have no width: without them everything stays where it was laid out.
            yield Segment(text if control else _CONTROL.sub("", text), style, control)
