"""Rows of several layers: the features of each, one behind the other, those in front of the head last.

    layer2:128,layer3:256,fc:512

is what such rows are called: whose columns come in which order, and how many. The text stands where the name
of a single layer stands, in the recipe of a store and in a guard, so that rows of other layers are never
taken for these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from ..core.errors import InputError
from ..reference.head import Head

_BETWEEN, _WIDTH = ",", ":"


@dataclass(frozen=True)
class LayerRows:
    """Which columns of a row belong to which layer; the last ones are the features in front of the head."""

    names: tuple[str, ...]
    widths: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.names) < 2 or len(self.names) != len(self.widths):
            raise InputError(
                f"rows of several layers need two or more, got {', '.join(self.names) or 'none'}"
            )
        doubled = [name for name in self.names if self.names.count(name) > 1]
        if doubled:
            raise InputError(f"layer {doubled[0]!r} is named twice: its features would count twice")
        narrow = [name for name, width in zip(self.names, self.widths, strict=True) if width < 1]
        if narrow:
            raise InputError(f"layer {narrow[0]!r} has no features: its width must be at least 1")

    @classmethod
    def parse(cls, text: str | None) -> LayerRows | None:
        """The rows that a text such as ``a:16,fc:32`` calls; None for the name of a single layer."""
        if text is None or _WIDTH not in text:
            return None
        pairs = [part.rpartition(_WIDTH) for part in text.split(_BETWEEN)]
        if not all(name and width.isdecimal() for name, _, width in pairs):
            raise InputError(f"layers are {text!r}, expected names with their widths: layer2:128,fc:512")
        return cls(tuple(name for name, _, _ in pairs), tuple(int(width) for _, _, width in pairs))

    def __str__(self) -> str:
        return _BETWEEN.join(
            f"{name}{_WIDTH}{width}" for name, width in zip(self.names, self.widths, strict=True)
        )

    @property
    def width(self) -> int:
        return sum(self.widths)

    @cached_property
    def columns(self) -> Mapping[str, slice]:
        """The columns of each layer."""
        stops = torch.tensor(self.widths).cumsum(0).tolist()
        pairs = zip(self.names, self.widths, stops, strict=True)
        return {name: slice(stop - width, stop) for name, width, stop in pairs}

    def split(self, rows: Tensor) -> dict[str, Tensor]:
        """The features (N, D_l) of each layer; views of the rows."""
        return {name: rows[:, columns] for name, columns in self.columns.items()}

    def head_over(self, head: Head) -> Head:
        """The head for whole rows: logits are those of the last layer, the other columns weigh nothing."""
        if head.unit_features:
            raise InputError(
                "the head is a cosine, which divides a row by its length: it cannot be told apart from the "
                "other layers. Several layers need a classifier with a linear head"
            )
        if head.width != self.widths[-1]:
            raise InputError(f"the head expects {head.width} features, but {self} ends in {self.widths[-1]}")
        before = head.weight.new_zeros(head.classes, self.width - head.width)
        return Head(torch.cat([before, head.weight], dim=1), head.bias)

    def head_of_last(self, head: Head) -> Head:
        """The head as `head_over` was given it."""
        return Head(head.weight[:, self.columns[self.names[-1]]].contiguous(), head.bias)


def layer_names(text: str | Sequence[str] | None) -> list[str]:
    """The names in a text, or in several: ``"a,b"``, ``["a", "b"]``, ``"a:16,fc:32"``."""
    texts = [text] if isinstance(text, str) else list(text or [])
    parts = [part.strip() for one in texts for part in one.split(_BETWEEN)]
    names = [part.rpartition(_WIDTH)[0] if _WIDTH in part else part for part in parts]
    if "" in names and names != [""]:
        raise InputError(f"layers are {text!r}: a name between the commas is empty")
    doubled = [name for name in names if names.count(name) > 1]
    if doubled:
        raise InputError(f"layer {doubled[0]!r} is named twice: its features would count twice")
    return [name for name in names if name]


def joined_names(names: Sequence[str] | None) -> str | None:
    """Several names as one text; None for none."""
    return _BETWEEN.join(names) if names else None
