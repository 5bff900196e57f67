"""The figures of the paper by name: what each shows, what it needs, and the function that draws it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from matplotlib.figure import Figure

from ..benchmarks.subject import Subject
from .experiments import Context, Need
from .presence import Pair, paper_subject, runs

Drawn: TypeAlias = Mapping[str, Figure]
Draw: TypeAlias = Callable[[Context, Sequence[Subject]], Drawn]
AtHand: TypeAlias = Callable[[Context], Sequence[Subject]]


@dataclass(frozen=True)
class PaperFigure:
    """A figure of the paper: ``pairs`` are what the paper drew it from, all of them together.

    Where they are not here, it is drawn from the subjects ``at_hand``, which need ``needs``. ``draw`` gives
    figures by the name of their file; ``stand_ins`` are experiments with their numbers.
    """

    name: str
    title: str
    needs: tuple[Need, ...]
    at_hand: AtHand
    draw: Draw
    pairs: tuple[Pair, ...] = ()
    stand_ins: tuple[str, ...] = ()

    def drawable(self, root: Path | None) -> bool:
        return self.as_published(root) or not any(need.missing(root) for need in self.needs)

    def as_published(self, root: Path | None) -> bool:
        """Whether all that the paper drew it from is here."""
        return bool(self.pairs) and all(runs(pair, root) for pair in self.pairs)

    def drawn(self, context: Context) -> tuple[Drawn, str]:
        """The figures, and in words what they were drawn from."""
        if self.as_published(context.root):
            subjects: Sequence[Subject] = [paper_subject(pair, context) for pair in self.pairs]
            source = "the paper's own networks and data"
        else:
            subjects = self.at_hand(context)
            source = "data at hand, not the paper's" if self.pairs else "data at hand"
        return self.draw(context, subjects), f"{', '.join(one.name for one in subjects)} ({source})"


_figures: dict[str, PaperFigure] = {}


def paper_figure(
    name: str,
    title: str,
    *needs: Need,
    at_hand: AtHand,
    pairs: tuple[Pair, ...] = (),
    stand_ins: tuple[str, ...] = (),
) -> Callable[[Draw], Draw]:
    """Function decorator: enter a figure."""

    def enter(draw: Draw) -> Draw:
        _figures[name] = PaperFigure(name, title, needs, at_hand, draw, pairs, stand_ins)
        return draw

    return enter


def paper_figures() -> dict[str, PaperFigure]:
    """All figures, by name."""
    return dict(_figures)
