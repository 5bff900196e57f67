"""Operations of PyTorch that ONNX lacks, or that onnxruntime lacks in float64, composed of others."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import torch

Value: TypeAlias = Any  # of onnxscript, which has no types to import where it is not installed
# The smallest that has an antialiased resize; PyTorch's own translations are written for it.
OPSET = 18

# Each halving of an angle brings its tangent t, at most 1, below half of itself; then t² < 0.01, and so many
# terms of the series leave less than the rounding of float64.
_HALVINGS, _TERMS = 3, 9
_INT64, _DOUBLE = 7, 11
_RESIZE = {"_upsample_bilinear2d_aa": "linear", "_upsample_bicubic2d_aa": "cubic"}


def translations() -> dict[Any, Callable[..., Value]]:
    """The table for `torch.onnx.export`."""
    from onnxscript import opset18

    op: Any = opset18  # its types are of values, and what is put together here is a graph

    aten = torch.ops.aten

    def searchsorted(
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
        count = int(sorted_sequence.shape[0])
        found = op.Mul(op.Cast(op.IsNaN(op.Cast(values, to=_DOUBLE)), to=_INT64), 0)
        for power in reversed(range(count.bit_length())):
            further = op.Add(found, 1 << power)
            entry = op.Gather(sorted_sequence, op.Min(op.Sub(further, 1), count - 1))
            goes = op.And(op.LessOrEqual(entry, values), op.LessOrEqual(further, count))
            found = op.Where(goes, further, found)
        return found

    def atan2(y: Value, x: Value) -> Value:
        """In float64: onnxruntime has an arctangent for float32 alone."""
        up, along = op.Cast(y, to=_DOUBLE), op.Cast(x, to=_DOUBLE)
        steep = op.Greater(op.Abs(up), op.Abs(along))
        small = op.Where(steep, op.Abs(along), op.Abs(up))
        large = op.Where(steep, op.Abs(up), op.Abs(along))
        one, nothing = _double(op, 1.0), _double(op, 0.0)
        tangent = op.Div(small, op.Where(op.Equal(large, nothing), one, large))
        for _ in range(_HALVINGS):
            tangent = op.Div(tangent, op.Add(one, op.Sqrt(op.Add(one, op.Mul(tangent, tangent)))))
        square, series = op.Mul(tangent, tangent), nothing
        for term in reversed(range(_TERMS)):
            series = op.Sub(_double(op, 1 / (2 * term + 1)), op.Mul(square, series))
        angle = op.Mul(op.Mul(tangent, series), _double(op, 2.0**_HALVINGS))
        angle = op.Where(steep, op.Sub(_double(op, math.pi / 2), angle), angle)
        angle = op.Where(op.Less(along, nothing), op.Sub(_double(op, math.pi), angle), angle)
        return op.CastLike(op.Where(op.Less(up, nothing), op.Neg(angle), angle), y)

    def resize(mode: str) -> Callable[..., Value]:
        def translated(planes: Value, output_size: Value, *_: Value, **__: Value) -> Value:
            """As Pillow: the filter grows with the reduction, and is cut and weighed anew at the edges."""
            if isinstance(output_size, list | tuple):
                sides = [op.Reshape(op.Cast(side, to=_INT64), [1]) for side in output_size]
                output_size = op.Concat(*sides, axis=0)
            return op.Resize(
                planes,
                None,
                None,
                output_size,
                axes=[2, 3],
                mode=mode,
                antialias=1,
                cubic_coeff_a=-0.5,
                exclude_outside=1,
            )

        return translated

    return {
        aten.searchsorted.Tensor: searchsorted,
        aten.atan2.default: atan2,
        **{getattr(aten, name).default: resize(mode) for name, mode in _RESIZE.items()},
    }


def _double(op: Any, value: float) -> Value:
    return op.Constant(value=_scalar(value))


def _scalar(value: float) -> Any:
    from onnx import TensorProto, helper

    return helper.make_tensor("value", TensorProto.DOUBLE, [], [value])
