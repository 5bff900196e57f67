"""A loaded model, and what belongs to it: how samples are prepared for it, and what it is known by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import torch
from torch import nn

from ..core.batches import Inputs, stacked
from ..core.errors import InputError, ModelError
from ..data.sample import PICTURES
from .preprocess import Pixels
from .weights import weights_digest

# From a picture to a tensor; of a model that takes something else, from that to what a batch is made of.
Preprocess: TypeAlias = Callable[[Any], Any]
Collate: TypeAlias = Callable[[Sequence[Any]], Inputs]
# Of a first look at a model of pictures.
_IMAGES = 2


@dataclass(frozen=True)
class LoadedModel:
    """A classifier in eval mode, and what belongs to it.

    ``pixels`` is the preprocessing in numbers, where it has them: options of the spec change them one by one.
    ``former_ids`` are those by which earlier versions knew the same preprocessing.

    A model that ``takes`` something else than pictures has no ``input_shape``, but ``examples`` of it, of
    different lengths where it has any: a first look at the model needs them. What ``preprocess`` makes of
    samples becomes a batch by ``collate``, or is stacked.

    >>> loaded = th.load_model("net:lenet5?num_classes=4", pretrained=False)
    >>> loaded.input_shape, loaded.takes
    ((1, 28, 28), 'pictures')
    """

    spec: str
    model: nn.Module
    preprocess: Preprocess
    preprocess_id: str
    input_shape: tuple[int, ...] = ()
    layer: str | None = None
    class_names: tuple[str, ...] | None = None
    pixels: Pixels | None = None
    former_ids: tuple[str, ...] = ()
    takes: str = PICTURES
    collate: Collate | None = None
    examples: tuple[object, ...] = ()

    @cached_property
    def digest(self) -> str:
        """sha256 of the weights: two models with one digest are one."""
        return weights_digest(self.model)

    def batch(self, contents: Sequence[object]) -> Inputs:
        """Samples as the model takes them: prepared one by one, then together."""
        return self.together([self.preprocess(content) for content in contents])

    @property
    def together(self) -> Collate:
        """What makes a batch of prepared samples."""
        return self.collate or stacked

    def first_look(self) -> Inputs:
        """A batch to look at the model with: the examples, or two images of noise."""
        if self.examples:
            return self.batch(self.examples)
        if self.takes != PICTURES:
            raise ModelError(
                f"{self.spec} takes {self.takes}, and has no examples of them: LoadedModel(…, examples=(…,)) "
                f"of two or more, which a first look at the model is made with"
            )
        return torch.rand(_IMAGES, *self.input_shape, generator=torch.Generator().manual_seed(0))

    def require_pictures(self, what: str) -> None:
        """Refuse a model that takes no pictures, for what can do with pictures only."""
        if self.takes != PICTURES:
            raise InputError(f"{what} takes pictures, but the model {self.spec} takes {self.takes}")

    def require_content(self, holds: str, what: str) -> None:
        """Refuse data that holds something else than the model takes."""
        if self.takes != holds:
            raise InputError(f"{what} holds {holds}, but the model {self.spec} takes {self.takes}")
