"""What shapings have in common: options, their text, what is learnt and how a view of it is called."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from ...core.arrays import ArrayLike
from ...core.errors import InputError, NotFittedError
from ...core.graphs import fixed, recording
from ...reference.head import Head
from ...reference.looks import Look
from ...reference.reference import Batches, batches
from .._options import CheckedOptions, option_names


class Shaping(CheckedOptions, nn.Module):
    """A row-wise map of features. One that learns from ID data is a `Learner`."""

    name: ClassVar[str]
    title: ClassVar[str]

    def options(self) -> dict[str, float]:
        names = option_names(type(self).__init__)
        return {name: getattr(self, name) for name in names}

    @property
    def learns(self) -> bool:
        return False

    @property
    def ready(self) -> bool:
        """Whether it has learnt what it has to learn."""
        return True

    @property
    def spec(self) -> str:
        """As text, the way `parse_shaping` reads it."""
        numbers = ",".join(map(_digits, self.options().values()))
        return f"{self.name}:{numbers}" if numbers else self.name

    @property
    def view_key(self) -> str:
        """Names exactly what is done to features."""
        return self.spec

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={_digits(value)}" for name, value in self.options().items())


class Learner(Shaping):
    """A shaping that learns from a look at ID features, before statistics of shaped ones are taken.

    What it learns is in buffers named in ``learnt``, which are None until then. ``of_unit_rows`` says whether
    `fit` saw the features of a cosine head; None where they were those of the detector that it belongs to.
    """

    looks: ClassVar[type[Look]]
    learnt: ClassVar[tuple[str, ...]]

    def __init__(self) -> None:
        super().__init__()
        self.of_unit_rows: bool | None = None
        for name in self.learnt:
            self.register_buffer(name, None)

    def learn(self, look: Any, again: Callable[[], Iterable[Tensor]] | None) -> None:
        """Learn from a look of the kind ``looks``, or exactly where the data can be read ``again``."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it learns")

    def fit(self, features: ArrayLike | Batches, *, head: Head | None = None) -> Self:
        """Learn from ID features (N, D) alone, an array or batches of them, for fits in parts (`collect`).

        A cosine ``head`` must be given, since it divides features by their length before they are shaped.
        """

        def prepared(*, finite: bool = False) -> Iterator[Tensor]:
            for rows, _, _ in batches(features, None, None, head, finite=finite):
                yield rows if head is None else head.prepare(rows)

        look, count = self.looks(), 0
        for rows in prepared(finite=True):
            look.update(rows)
            count += len(rows)
        if not count:
            raise InputError(f"features are empty: {self.title} has nothing to learn its {self._named} from")
        self.learn(look, prepared if isinstance(features, Tensor | np.ndarray) else None)
        self.of_unit_rows = head is not None and head.unit_features
        return self

    def require_learnt_with(self, head: Head | None) -> None:
        """Refuse a head whose features are not what was learnt from."""
        unit_rows = head is not None and head.unit_features
        if self.ready and self.of_unit_rows is not None and self.of_unit_rows != unit_rows:
            lengths = ("of any length", "of length 1, those of a cosine head")
            raise InputError(
                f"{self.title} has learnt its {self._named} from features {lengths[self.of_unit_rows]}, and "
                f"is to shape features {lengths[unit_rows]}: learn it with the same head, fit(features, "
                f"head=head)"
            )

    @property
    def _named(self) -> str:
        return " and ".join(self.learnt)

    @property
    def learns(self) -> bool:
        return True

    @property
    def ready(self) -> bool:
        return all(getattr(self, name) is not None for name in self.learnt)

    @property
    def view_key(self) -> str:
        """With a digest of what was learnt, to the digits of float32."""
        if not self.ready:
            return self.spec
        seen = [getattr(self, name).to("cpu", torch.float32).numpy().tobytes() for name in self.learnt]
        return f"{self.spec} of {hashlib.sha256(b''.join(seen)).hexdigest()[:16]}"

    def _learnt(self, name: str, features: Tensor | None = None) -> Tensor:
        """What was learnt by that name; it must be as wide as the features, where those are given."""
        found: Tensor | None = getattr(self, name)
        if found is None:
            options = ", ".join(f"{option}={_digits(value)}" for option, value in self.options().items())
            raise NotFittedError(
                f"{self.title} has not learnt its {name} yet: fit the detector it belongs to. For a fit in "
                f"parts, learn it first: {type(self).__name__}({options}).fit(batches)"
            )
        if features is not None and not recording() and found.shape != features.shape[1:]:
            raise InputError(
                f"{self.title} has learnt a {name} of shape {tuple(found.shape)}, but features have width "
                f"{features.shape[1]}"
            )
        return found


class OfPercentile(Shaping):
    """A shaping with one option, a percentile of the activations of a row."""

    def __init__(self, *, percentile: float) -> None:
        super().__init__()
        self.percentile = checked_percentile("percentile", percentile)

    def _kept(self, features: Tensor) -> int:
        """How many of the activations of a row survive: n − round(n·p/100), at least one."""
        width = fixed(features.shape[1])
        return max(1, width - round(width * self.percentile / 100))


def checked_percentile(name: str, value: float) -> float:
    if not 0 <= value <= 100:
        raise InputError(f"{name} must lie in 0..100, got {value}")
    return value


# exp(s1/s2) beyond this exponent says only that the kept activations sum to almost nothing.
_LARGEST_EXPONENT = 60.0


def growth(features: Tensor, kept: Tensor) -> Tensor:
    """exp(s1/s2) a row; 1 for a row without activations."""
    before, after = features.sum(dim=1, keepdim=True), kept.sum(dim=1, keepdim=True)
    ratio = torch.where(after != 0, before / after, torch.zeros_like(after))
    return ratio.clamp(-_LARGEST_EXPONENT, _LARGEST_EXPONENT).exp()


def _digits(value: float) -> str:
    """A number in few digits where these say it all, else in as many as it takes."""
    short = f"{value:g}"
    return short if float(short) == value else repr(value)
