"""The figures of the paper by name: what each shows, what it needs, and the function that draws it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from matplotlib.figure import Figure

from .experiments import Context, Need

Drawn: TypeAlias = Mapping[str, Figure]
Draw: TypeAlias = Callable[[Context], Drawn]


@dataclass(frozen=True)
class PaperFigure:
    """``draw`` gives figures by the name of their file; ``stand_ins`` are experiments with its numbers."""

    name: str
    title: str
    needs: tuple[Need, ...]
    draw: Draw
    stand_ins: tuple[str, ...] = ()

    def drawable(self, root: Path | None) -> bool:
        return not any(need.missing(root) for need in self.needs)


_figures: dict[str, PaperFigure] = {}


def paper_figure(
    name: str, title: str, *needs: Need, stand_ins: tuple[str, ...] = ()
) -> Callable[[Draw], Draw]:
    """Function decorator: enter a figure."""

    def enter(draw: Draw) -> Draw:
        _figures[name] = PaperFigure(name, title, needs, draw, stand_ins)
        return draw

    return enter


def paper_figures() -> dict[str, PaperFigure]:
    """All figures, by name."""
    return dict(_figures)
