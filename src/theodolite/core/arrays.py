"""The border between the user's arrays and our tensors: conversion, validation, and the way back."""

from __future__ import annotations

import math
from typing import TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .errors import InputError
from .graphs import fixed, recording

Array: TypeAlias = npt.NDArray[np.generic]
ArrayLike: TypeAlias = Tensor | Array
FloatArray: TypeAlias = npt.NDArray[np.floating]
AnyArray = TypeVar("AnyArray", bound=Tensor | Array)

_MAX_ROWS_NAMED = 5
# Entries below which one slow operation takes less time than nine fast ones.
_MANY = 2**16
# float32 counts columns exactly up to here.
_COUNTED = 2**24
_TABLES = ("pandas", "polars", "pyarrow")


def as_tensor(values: ArrayLike, name: str) -> Tensor:
    """A tensor over the same memory where possible."""
    if isinstance(values, Tensor):
        if values.layout is not torch.strided or values.is_meta:
            kind = "one without numbers (meta)" if values.is_meta else f"layout {values.layout}"
            raise InputError(f"{name} must be an ordinary tensor, got {kind}: pass {name}.to_dense()")
        return values.detach()
    if isinstance(values, np.ndarray):
        require_unmasked(values, name)
        if not (np.issubdtype(values.dtype, np.number) or values.dtype == np.bool_):
            raise InputError(f"{name} must be numeric, got an array of dtype {values.dtype}")
        if values.dtype.kind in "fc" and values.dtype.itemsize > 8 * (1 + (values.dtype.kind == "c")):
            values = values.astype(np.float64 if values.dtype.kind == "f" else np.complex128)
        if not values.dtype.isnative:
            values = values.astype(values.dtype.newbyteorder("="))
        if not values.flags.writeable or any(stride < 0 for stride in values.strides):
            values = values.copy()
        return torch.from_numpy(np.ascontiguousarray(values))
    raise InputError(
        _table(values, name)
        or f"{name} must be a NumPy array or a torch tensor, got {type(values).__name__}. Nested lists "
        f"become an array by numpy.asarray"
    )


def require_unmasked(values: Array, name: str) -> None:
    """Raise if an array has masked entries: what lies under a mask is no number of its owner's."""
    if np.ma.is_masked(values):
        count = int(np.ma.getmaskarray(values).sum())
        raise InputError(
            f"{name} hold {count} masked entries: leave those rows out, or put numbers in their place "
            f"with {name}.filled(…)"
        )


def require_no_table(values: object, name: str) -> None:
    """Raise if the values are a table: which of its columns are meant, only its owner knows."""
    problem = _table(values, name)
    if problem is not None:
        raise InputError(problem)


def _table(values: object, name: str) -> str | None:
    library = type(values).__module__.split(".")[0]
    if library not in _TABLES:
        return None
    return (
        f"{name} is a {type(values).__name__} of {library}: pass the numbers of its columns as an array, "
        f"{name}.to_numpy(), for features of dtype float32"
    )


def as_float(values: Tensor) -> Tensor:
    """float64 stays, everything narrower becomes float32: half precision never overflows silently."""
    return values if values.dtype == torch.float64 else values.to(torch.float32)


def rows_between(values: Tensor, start: int, stop: int) -> Tensor:
    """Rows ``start`` to ``stop``; the tensor itself where these are all, for a view takes its time."""
    return values if start == 0 and stop >= len(values) else values[start:stop]


def like(result: Tensor, template: AnyArray) -> AnyArray:
    """Hand a result back the way the input came: NumPy for NumPy, the same device for torch."""
    back = result.to(template.device) if isinstance(template, Tensor) else result.cpu().numpy()
    return cast(AnyArray, back)


def as_matrix(values: ArrayLike, name: str, width: int | None, expected: str) -> Tensor:
    """A non-empty (N, width) tensor; its values are checked by `require_finite`, tile by tile."""
    matrix = as_tensor(values, name)
    if matrix.ndim != 2:
        raise InputError(f"{name} must have shape (N, {width or 'D'}), got {tuple(matrix.shape)}")
    if not recording() and matrix.shape[0] == 0:
        raise InputError(f"{name} is empty: shape {tuple(matrix.shape)}, expected at least one row")
    require_floats(matrix, name)
    if fixed(matrix.shape[1]) == 0:
        raise InputError(f"{name} have no columns: shape {tuple(matrix.shape)}")
    if width is not None and fixed(matrix.shape[1]) != width:
        raise InputError(f"{name} have width {fixed(matrix.shape[1])}, but {expected}")
    return matrix


def require_floats(values: Tensor, name: str) -> None:
    """Raise if the numbers are not floating-point ones of any width.

    Integers are refused rather than converted: what comes as integers is mostly something else, a picture,
    labels, or numbers that were quantised and lack their scale.
    """
    if values.is_complex() or values.dtype == torch.bool:
        raise InputError(f"{name} must be real numbers, got dtype {values.dtype}")
    if not values.is_floating_point():
        raise InputError(
            f"{name} must be floating-point numbers, got dtype {values.dtype}: if these integers are the "
            f"{name}, convert them, {name}.astype('float32') in NumPy, {name}.float() in torch"
        )


def require_finite(values: Tensor, name: str, first_row: int = 0) -> None:
    """Raise if any entry is NaN or infinite, naming the rows.

    One sum is enough to clear a tile: NaN and infinity survive a sum. Only a sum that is not finite
    (which an overflow of legal numbers can also cause) is followed by the entry-wise look.
    """
    if math.isfinite(float(values.sum())):
        return
    bad = (~torch.isfinite(values)).reshape(len(values), -1).any(dim=1).nonzero().flatten()
    if len(bad) == 0:
        return
    raise InputError(f"{name} hold NaN or infinity in {rows_named(bad + first_row)}")


def row_maxima(values: Tensor) -> tuple[Tensor, Tensor]:
    """The largest entry of each row as (N, 1), and its column (N,), the first of equal ones.

    On a CPU a plain maximum runs at the speed of memory, one that keeps track of the column at a tenth of it:
    with many entries the column is the first that holds the maximum. A row with NaN has any column.
    """
    columns = fixed(values.shape[1])
    if recording() or values.numel() < _MANY or columns > _COUNTED or values.device.type != "cpu":
        largest, places = values.max(dim=1, keepdim=True)
        return largest, places[:, 0]
    largest = values.amax(dim=1, keepdim=True)
    falling = torch.arange(columns, 0, -1, dtype=values.dtype)
    found = torch.eq(values, largest, out=torch.empty_like(values)).mul_(falling).amax(dim=1)
    return largest, (columns - found).long().clamp_max_(columns - 1)


def rows_named(rows: Tensor) -> str:
    """Row numbers in words: ``row 3``, ``rows 3, 17, 18, 19, 20 and 4 more``."""
    named = ", ".join(str(int(row)) for row in rows[:_MAX_ROWS_NAMED])
    more = f" and {len(rows) - _MAX_ROWS_NAMED} more" if len(rows) > _MAX_ROWS_NAMED else ""
    return f"row{'s' if len(rows) > 1 else ''} {named}{more}"


def as_labels(values: ArrayLike, rows: int, classes: int) -> Tensor:
    """Integer labels in 0..classes-1, one a row."""
    labels = as_tensor(values, "labels")
    if labels.shape != (rows,):
        raise InputError(f"labels must have shape ({rows},) like the features, got {tuple(labels.shape)}")
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise InputError(f"labels must be integers, got dtype {labels.dtype}")
    labels = labels.to(torch.int64)
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= classes:
        raise InputError(f"labels must lie in 0..{classes - 1}, got values from {low} to {high}")
    return labels


def as_scores(values: ArrayLike, name: str) -> FloatArray:
    """A finite, non-empty float64 vector of scores."""
    scores = as_tensor(values, name).cpu().to(torch.float64).numpy()
    if scores.ndim != 1 or scores.size == 0:
        raise InputError(f"{name} must be a non-empty vector, got shape {scores.shape}")
    if np.isnan(scores).any():
        raise InputError(f"{name} hold NaN at index {int(np.isnan(scores).argmax())}")
    return scores
