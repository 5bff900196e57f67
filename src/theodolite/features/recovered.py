"""The head of a classifier, recovered from features and the logits that are stored beside them.

    minimise ‖[F 1] [W b]ᵀ − L‖    over weight W and bias b, by a QR decomposition in float64

It is the head only if it gives every stored logit up to the rounding of the stored precision, and only if no
other one does: features that hardly vary in some direction leave the weights along it open. How far is the
standard error of the solution, σ √tr((FᵀF)⁻¹), which may be 1 % of the weights at the most. Where rows as
they are do not give the logits, rows of unit length are tried: then it is a cosine head.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..core.errors import InputError
from ..reference.head import Head, unit_rows
from .agreement import explain_head
from .arrays import FeatureArray
from .layers import Call

# Rows that are solved for: so many, or so many times the unknowns of a class, or all; and so many to spare.
_ROWS, _ENOUGH, _SPARE = 16_384, 4, 32
_OPEN = 0.01
_STEP = 1024
_REMEDY = "Give the head itself, weight and bias (--head FILE, or head.safetensors in the folder)"


class _Pair(NamedTuple):
    features: Tensor
    logits: Tensor


def recovered_head(arrays: Sequence[FeatureArray]) -> Head | None:
    """The head of features in files that hold logits as well; None where none does.

    Refused if the logits are no linear map of the features, or of more than one.
    """
    known = [array for array in arrays if array.logits is not None]
    if not known:
        return None
    rows = _some(known)
    where, width = ", ".join(str(array.path) for array in known), known[0].width
    needed = width + 1 + _SPARE
    if len(rows.features) < needed:
        raise InputError(
            f"{where}: {len(rows.features):,} rows with logits do not decide a head on {width} features, "
            f"{needed:,} are needed. {_REMEDY}"
        )
    for unit_features in (False, True):
        head, doubt = _solved(rows, unit_features=unit_features)
        if all(_gives(head, pair) for pair in _pairs(known)):
            if doubt is not None:
                raise InputError(f"{where}: the head cannot be recovered: {doubt}. {_REMEDY}")
            return head
    raise InputError(
        f"{where}: the logits are not weight · feature + bias for any weight and bias, nor so of features of "
        f"unit length: they are of another layer or model than the features, or a softmax, a norm or an "
        f"activation lies between. {_REMEDY}, or leave the logits out"
    )


def require_logits_of(head: Head, arrays: Sequence[FeatureArray]) -> None:
    """Refuse a head that does not give the logits which are stored beside the features."""
    for array in arrays:
        for pair in _pairs([array]):
            if not _gives(head, pair):
                raise InputError(
                    f"{array.path} holds logits that are not what the head of {head.classes} classes gives "
                    f"for its features: the head belongs to another model or layer, or the logits do. "
                    f"Remedy: give the head that made them, or leave out the head or the logits"
                )


def _solved(rows: _Pair, *, unit_features: bool) -> tuple[Head, str | None]:
    """The least-squares head, and why it is not the only one where it is not."""
    features, logits = rows.features.double(), rows.logits.double()
    features = unit_rows(features) if unit_features else features
    design = torch.cat([features, torch.ones(len(features), 1, dtype=torch.float64)], dim=1)
    scale = torch.linalg.vector_norm(design, dim=0)
    scaled = design / torch.where(scale > 0, scale, 1.0)
    orthogonal, triangle = torch.linalg.qr(scaled)
    sizes = torch.linalg.svdvals(triangle)
    rank = int((sizes > sizes[0] * len(design) * torch.finfo(torch.float64).eps).sum())
    if rank < design.shape[1]:
        weights = torch.linalg.lstsq(design, logits, driver="gelsd").solution.T
        dead = int((scale == 0).sum())
        zero = f" ({dead} of them are zero in every row)" if dead else ""
        return _head(weights, unit_features), (
            f"the features{zero}, with a constant, have rank {rank}, not {design.shape[1]}, so that several "
            f"heads give these logits"
        )
    solution = torch.linalg.solve_triangular(triangle, orthogonal.T @ logits, upper=True)
    variance = (logits - scaled @ solution).square().sum(dim=0) / (len(design) - design.shape[1])
    inverse = torch.linalg.solve_triangular(triangle, torch.eye(len(triangle)).double(), upper=True)
    error = (variance.sum() * (inverse / scale[:, None])[:-1].square().sum()).sqrt()
    weights = (solution / scale[:, None]).T
    share = float(error / weights[:, :-1].norm())
    if share <= _OPEN:
        return _head(weights, unit_features), None
    return _head(weights, unit_features), (
        f"the features hardly vary in some directions, and the weights are known to {100 * share:.0f} % of "
        f"their size only at the precision of the file, so that several heads give these logits"
    )


def _head(weights: Tensor, unit_features: bool) -> Head:
    return Head(weights[:, :-1].float(), weights[:, -1].float(), unit_features=unit_features)


def _gives(head: Head, pair: _Pair) -> bool:
    """Whether a head gives the logits, up to the rounding of the precision they are stored in."""
    if pair.features.shape[1] != head.width or pair.logits.shape[1] != head.classes:
        return False
    return explain_head(head, Call(pair.features, pair.logits), pair.logits, "the head") is None


def _pairs(arrays: Sequence[FeatureArray]) -> Iterator[_Pair]:
    for array in arrays:
        if array.logits is not None:
            for features, logits in zip(array.read(_STEP), array.logits(_STEP), strict=True):
                yield _Pair(features, logits)


def _some(arrays: Sequence[FeatureArray]) -> _Pair:
    """Rows from the whole of the data, as many as are enough."""
    width, total = arrays[0].width, sum(map(len, arrays))
    step = max(1, total // max(_ROWS, _ENOUGH * (width + 1 + _SPARE)))
    kept, seen = list[_Pair](), 0
    for pair in _pairs(arrays):
        chosen = torch.arange((-seen) % step, len(pair.features), step)
        seen += len(pair.features)
        kept.append(_Pair(pair.features[chosen], pair.logits[chosen]))
    return _Pair(*(torch.cat(column) for column in zip(*kept, strict=True)))
