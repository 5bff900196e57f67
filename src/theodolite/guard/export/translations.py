"""Operations of PyTorch that ONNX lacks, or that onnxruntime lacks in float64, composed of others."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import torch

Value: TypeAlias = Any  # of a graph: onnxscript, whose it is, need not be installed
# The smallest that has an antialiased resize; PyTorch's own translations are written for it.
OPSET = 18

# Each halving of an angle brings its tangent t, at most 1, below half of itself; then t² < 0.01, and so many
# terms of the series leave less than the rounding of float64.
_HALVINGS, _TERMS = 3, 9
_INT64, _DOUBLE = 7, 11


def translations() -> dict[Any, Callable[..., Value]]:
    """The table for `torch.onnx.export`."""
    aten = torch.ops.aten
    return {
        aten.searchsorted.Tensor: _searchsorted,
        aten.atan2.default: _atan2,
        aten.log1p.default: _log1p,
        aten._upsample_bilinear2d_aa.default: _resize("linear"),
        aten._upsample_bicubic2d_aa.default: _resize("cubic"),
    }


def _searchsorted(
    sorted_sequence: Value,
    values: Value,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Value | None = None,
) -> Value:
    """A binary search, unrolled: how many entries are at most each value. Exact in every precision."""
    if not right or out_int32 or side is not None or sorter is not None:
        raise NotImplementedError("searchsorted is translated for right=True alone")
    op, count = _operations(), int(sorted_sequence.shape[0])
    found = op.Cast(op.Less(values, values), to=_INT64)  # zeros
    for power in reversed(range(count.bit_length())):
        further = op.Add(found, 1 << power)
        entry = op.Gather(sorted_sequence, op.Min(op.Sub(further, 1), count - 1))
        goes = op.And(op.LessOrEqual(entry, values), op.LessOrEqual(further, count))
        found = op.Where(goes, further, found)
    return found


def _atan2(y: Value, x: Value) -> Value:
    """In float64: onnxruntime has an arctangent for float32 alone.

    Of the smaller side over the larger, by atan t = 2·atan(t / (1 + √(1 + t²))) and then the series at 0.
    """
    op = _operations()
    up, along = op.Cast(y, to=_DOUBLE), op.Cast(x, to=_DOUBLE)
    steep = op.Greater(op.Abs(up), op.Abs(along))
    small = op.Where(steep, op.Abs(along), op.Abs(up))
    large = op.Where(steep, op.Abs(up), op.Abs(along))
    one, nothing = _double(1.0), _double(0.0)
    tangent = op.Div(small, op.Where(op.Equal(large, nothing), one, large))
    for _ in range(_HALVINGS):
        tangent = op.Div(tangent, op.Add(one, op.Sqrt(op.Add(one, op.Mul(tangent, tangent)))))
    square, series = op.Mul(tangent, tangent), nothing
    for term in reversed(range(_TERMS)):
        series = op.Sub(_double(1 / (2 * term + 1)), op.Mul(square, series))
    angle = op.Mul(op.Mul(tangent, series), _double(2.0**_HALVINGS))
    angle = op.Where(steep, op.Sub(_double(math.pi / 2), angle), angle)
    angle = op.Where(op.Less(along, nothing), op.Sub(_double(math.pi), angle), angle)
    return op.CastLike(op.Where(op.Less(up, nothing), op.Neg(angle), angle), y)


def _log1p(x: Value) -> Value:
    """log(1 + x) to the last digits of small x, where 1 + x has lost them.

    By Kahan: with u the rounded 1 + x, log(u)·x/(u − 1) makes good for the rounding. It is worked in float64.
    """
    op, one = _operations(), _double(1.0)
    given = op.Cast(x, to=_DOUBLE)
    whole = op.Add(one, given)
    apart = op.Sub(whole, one)
    lost = op.Equal(apart, _double(0.0))
    found = op.Mul(op.Log(whole), op.Div(given, op.Where(lost, one, apart)))
    # Beyond float64, and at −1, the quotient would be none; the logarithm of what was rounded is right there.
    edge = op.Or(op.IsInf(whole), op.LessOrEqual(whole, _double(0.0)))
    return op.CastLike(op.Where(lost, given, op.Where(edge, op.Log(whole), found)), x)


def _resize(mode: str) -> Callable[..., Value]:
    """As Pillow: the filter grows with the reduction, and is cut and weighed anew at the edges."""

    def resized(planes: Value, output_size: Value, *_: Value, **__: Value) -> Value:
        op = _operations()
        if isinstance(output_size, list | tuple):
            sides = [op.Reshape(op.Cast(side, to=_INT64), [1]) for side in output_size]
            output_size = op.Concat(*sides, axis=0)
        how = {"mode": mode, "antialias": 1, "cubic_coeff_a": -0.5, "exclude_outside": 1}
        return op.Resize(planes, None, None, output_size, axes=[2, 3], **how)

    return resized


def _operations() -> Any:
    from onnxscript import opset18

    return opset18


def _double(value: float) -> Value:
    from onnx import TensorProto, helper

    return _operations().Constant(value=helper.make_tensor("value", TensorProto.DOUBLE, [], [value]))
