"""The head: the last linear layer, and with it every decision boundary of the classifier."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Self, TypeAlias

import torch
from torch import Tensor, nn

from ..core.arrays import ArrayLike, as_float, as_tensor, require_finite, require_floats
from ..core.errors import InputError
from ..core.graphs import recording

Move: TypeAlias = Callable[[Tensor], Tensor]
# What the description of a head in a file calls the names of its classes.
CLASS_NAMES = "class_names"


def keeping_precision(move: Move) -> Move:
    """A move of tensors, to a device or another precision, that does the former only."""

    def moved(tensor: Tensor) -> Tensor:
        result = move(tensor)
        return result if result.dtype == tensor.dtype else tensor.to(result.device)

    return moved


class Head(nn.Module):
    """logits = features @ weight.T + bias, for weight (C, D) and bias (C,).

    With ``unit_features`` the features are divided by their norm first: the cosine head of CLIP.

    >>> head = th.Head(np.eye(2), np.array([0.0, 1.0]))  # or th.Head.from_linear(model.fc)
    >>> head.classes, head.width
    (2, 2)
    >>> head(torch.tensor([[3.0, 1.0]]))
    tensor([[3., 2.]])
    """

    weight: Tensor
    bias: Tensor

    def __init__(
        self, weight: ArrayLike, bias: ArrayLike | None = None, *, unit_features: bool = False
    ) -> None:
        super().__init__()
        rows = as_tensor(weight, "weight")
        require_floats(rows, "weight")
        if rows.ndim != 2 or rows.shape[1] == 0:
            raise InputError(f"weight must have shape (C, D), got {tuple(rows.shape)}")
        if rows.shape[0] < 2:
            raise InputError(
                f"weight has {rows.shape[0]} row: a decision boundary needs at least two classes"
            )
        weight = as_float(rows).clone()
        require_finite(weight, "weight")
        if bias is None:
            bias = weight.new_zeros(len(weight))
        offsets = as_tensor(bias, "bias")
        require_floats(offsets, "bias")
        if offsets.shape != (len(weight),):
            raise InputError(f"bias must have shape ({len(weight)},), got {tuple(offsets.shape)}")
        bias = offsets.to(weight).clone()
        require_finite(bias, "bias")
        self.register_buffer("weight", weight)
        self.register_buffer("bias", bias)
        self.unit_features = unit_features

    @classmethod
    def from_linear(cls, layer: nn.Linear) -> Head:
        """The head of a trained model, from its last `nn.Linear`."""
        if not isinstance(layer, nn.Linear):
            raise InputError(
                f"layer must be an nn.Linear, got {type(layer).__name__}: pass the model's last linear "
                f"layer, or let Capture(model) find it"
            )
        return cls(layer.weight, layer.bias)

    @classmethod
    def cosine(cls, text_embeddings: ArrayLike) -> Head:
        """Zero-shot head: unit rows, no bias, features normalised before the product."""
        rows = as_tensor(text_embeddings, "text_embeddings")
        require_floats(rows, "text_embeddings")
        rows = as_float(rows)
        if rows.ndim != 2:
            raise InputError(f"text_embeddings must have shape (C, D), got {tuple(rows.shape)}")
        require_finite(rows, "text_embeddings")
        empty = (rows == 0).all(dim=1).nonzero().flatten()
        if len(empty):
            raise InputError(f"text_embeddings row {int(empty[0])} is all zero and has no direction")
        return cls(unit_rows(rows.double()).to(rows.dtype), unit_features=True)

    @property
    def classes(self) -> int:
        return self.weight.shape[0]

    @property
    def width(self) -> int:
        return self.weight.shape[1]

    def _apply(self, fn: Move, recurse: bool = True) -> Self:
        """Move to another device; logits are computed in the features' precision, whatever the head's."""
        super()._apply(keeping_precision(fn), recurse)  # type: ignore[no-untyped-call]
        return self

    def twin(self) -> Head:
        """Another head over the same tensors: moving one leaves the other where it is."""
        twin = copy.copy(self)
        twin._buffers = dict(self._buffers)
        return twin

    def equals(self, other: Head) -> bool:
        """Whether both compute the same logits from the same numbers."""
        return (
            self.unit_features == other.unit_features
            and torch.equal(self.weight, other.weight.to(self.weight.device))
            and torch.equal(self.bias, other.bias.to(self.bias.device))
        )

    def prepare(self, features: Tensor) -> Tensor:
        """The features as the linear map sees them: unit rows for a cosine head, else unchanged."""
        return unit_rows(features) if self.unit_features else features

    def logits(self, prepared: Tensor) -> Tensor:
        """Logits of prepared features, in the features' precision."""
        weight, bias = self.weight.to(prepared), self.bias.to(prepared)
        return torch.addmm(bias, prepared, weight.T)

    def forward(self, features: Tensor) -> Tensor:
        return self.logits(self.prepare(features))

    def extra_repr(self) -> str:
        cosine = ", unit_features=True" if self.unit_features else ""
        return f"classes={self.classes}, width={self.width}{cosine}"


def unit_rows(features: Tensor) -> Tensor:
    """Rows divided by their norm; an all-zero row stays zero.

    The norm is summed in float64, where squares of large or tiny float32 numbers neither overflow nor vanish.
    Rows whose norm is no normal number of their own precision are divided by their largest entry first.
    """
    limits = torch.finfo(features.dtype)
    lengths, extreme = _lengths(features)
    if recording() or bool(extreme.any()):
        peaks = features.abs().amax(dim=1, keepdim=True)
        features = torch.where(extreme & (peaks > 0), features / peaks, features)
        again = torch.linalg.vector_norm(features, dim=1, keepdim=True, dtype=torch.float64)
        lengths = torch.where(extreme, again, lengths)
    return features.div(lengths.to(features.dtype).clamp_min(limits.tiny))


def row_lengths(features: Tensor) -> Tensor | None:
    """What `unit_rows` divides rows by (n, 1); None where a row is zero, or its length no normal number."""
    lengths, extreme = _lengths(features)
    return None if bool(extreme.any()) else lengths.to(features.dtype)


def _lengths(features: Tensor) -> tuple[Tensor, Tensor]:
    """Norms (n, 1) in float64, and which of them are no normal numbers of the rows' own precision."""
    limits = torch.finfo(features.dtype)
    lengths = torch.linalg.vector_norm(features, dim=1, keepdim=True, dtype=torch.float64)
    return lengths, ~((lengths >= limits.tiny) & (lengths <= limits.max))
