"""Fuzzing: how many cases, and arrays of every kind, from one number each.

A bounded profile runs with all tests; ``THEODOLITE_FUZZ=long`` (`make fuzz`) is for a machine that has time.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from torch import Tensor

LONG = os.environ.get("THEODOLITE_FUZZ") == "long"
Test = TypeVar("Test", bound=Callable[..., Any])


def cases(bounded: int, long: int) -> Callable[[Test], Test]:
    """A test on so many cases in the bounded and in the long profile; the bounded ones never change."""
    profile = settings(
        max_examples=long if LONG else bounded,
        deadline=None,
        derandomize=not LONG,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
    )
    return profile  # noqa: RET504


# How many cases came to which end: (group, kind within it, end) -> cases. A failure is no end.
TALLY: Counter[tuple[str, str, str]] = Counter()


def count(group: str, kind: str, end: str) -> None:
    """Count a case that held, so that the figures that are told are those of what was run."""
    TALLY[group, kind, end] += 1


def tally_lines() -> list[str]:
    """A line a group: cases, how they ended, and of how many kinds they were, with the rarest."""
    lines = []
    for group in dict.fromkeys(group for group, _, _ in TALLY):
        ends: Counter[str] = Counter()
        kinds: Counter[str] = Counter()
        for (where, kind, end), held in TALLY.items():
            if where == group:
                ends[end] += held
                kinds[kind] += held
        ended = ", ".join(f"{held:,} {end}" for end, held in ends.most_common())
        rarest, fewest = min(kinds.items(), key=lambda pair: pair[1])
        of_kinds = f"; {len(kinds)} kinds, the rarest {rarest} with {fewest:,}" if len(kinds) > 1 else ""
        lines.append(f"{group}: {ends.total():,} cases ({ended}){of_kinds}")
    return [*lines, f"together: {TALLY.total():,} cases"]


# ---------------------------------------------------------------------- arrays

FLOATS = ("float16", "bfloat16", "float32", "float64", "longdouble")
OTHERS = ("int8", "uint8", "int64", "uint64", "bool", "complex64", "clongdouble", "object", "U3")
LAYOUTS = (
    "plain", "columns first", "backwards", "every other row", "every other column", "swapped bytes",
    "read only", "repeated", "masked", "matrix", "torch", "torch view", "torch with a gradient",
)  # fmt: skip
VALUES = (
    "normal", "rectified", "constant columns", "duplicated rows", "one row for all", "zeros",
    "a row of zeros", "offset", "far offset", "one outlier", "integers", "tiny differences", "a line",
    "mixed scales",
)  # fmt: skip
_LARGEST = {"float16": 6e4, "bfloat16": 3e38, "float32": 3e38}
SCALES = (1.0, 1e-3, 1e3, 1e-20, 1e20, 1e-30, 1e30, 1e-42, 3e38, 1e-160, 1e160, 1e-310, 1e308)


@dataclass(frozen=True)
class ArrayPlan:
    """An array, described: what numbers, how large, of what type, laid out how."""

    values: str
    scale: float
    dtype: str
    layout: str
    broken: float | None
    seed: int

    def make(self, rows: int, width: int) -> Any:
        with np.errstate(over="ignore"):
            numbers = _numbers(self.values, rows, width, np.random.default_rng(self.seed)) * self.scale
        numbers = numbers.clip(-_LARGEST.get(self.dtype, 1e308), _LARGEST.get(self.dtype, 1e308))
        if self.broken is not None and numbers.size:
            numbers.flat[self.seed % numbers.size] = self.broken
        return _laid_out(numbers, self.dtype, self.layout)


def array_plans(*, ordinary: float = 0.95) -> st.SearchStrategy[ArrayPlan]:
    """Mostly arrays that could be meant, the rest anything."""
    meant = st.builds(
        ArrayPlan,
        values=st.sampled_from(VALUES),
        scale=st.sampled_from(SCALES),
        dtype=st.sampled_from(FLOATS),
        layout=st.sampled_from([layout for layout in LAYOUTS if layout != "masked"]),
        broken=st.none(),
        seed=st.integers(0, 2**16),
    )
    anything = st.builds(
        ArrayPlan,
        values=st.sampled_from(VALUES),
        scale=st.sampled_from(SCALES),
        dtype=st.sampled_from(FLOATS + OTHERS),
        layout=st.sampled_from(LAYOUTS),
        broken=st.sampled_from((None, np.nan, np.inf, -np.inf)),
        seed=st.integers(0, 2**16),
    )
    return st.integers(0, 99).flatmap(lambda draw: meant if draw < 100 * ordinary else anything)


def _numbers(kind: str, rows: int, width: int, rng: np.random.Generator) -> Any:
    noise = rng.standard_normal((rows, width))
    if kind == "rectified":
        return np.maximum(noise, 0)
    if kind == "constant columns":
        noise[:, ::2] = 3.0
    elif kind == "duplicated rows":
        noise = noise[rng.integers(0, max(1, rows // 3), rows)] if rows else noise
    elif kind == "one row for all" and rows:
        noise[:] = noise[0]
    elif kind == "zeros":
        noise[:] = 0
    elif kind == "a row of zeros" and rows:
        noise[rng.integers(rows)] = 0
    elif kind == "offset":
        noise += 1e3 * rng.standard_normal(width)
    elif kind == "far offset":
        noise += 1e6
    elif kind == "one outlier" and rows:
        noise[rng.integers(rows)] *= 1e8
    elif kind == "integers":
        noise = np.round(3 * noise)
    elif kind == "tiny differences":
        noise = 1 + 1e-7 * noise
    elif kind == "a line":
        noise = noise[:, :1] * np.ones(width)
    elif kind == "mixed scales":
        noise *= 10.0 ** rng.integers(-20, 20, width)
    return noise


def _laid_out(numbers: Any, dtype: str, layout: str) -> Any:
    if dtype == "bfloat16":
        return _as_torch(torch.from_numpy(np.ascontiguousarray(numbers)).to(torch.bfloat16), layout)
    with np.errstate(all="ignore"):
        array = _of_type(numbers, dtype)
    if layout.startswith("torch"):
        if array.dtype.kind in "OU" or array.dtype.itemsize > 8 * (1 + (array.dtype.kind == "c")):
            return array
        return _as_torch(torch.from_numpy(np.ascontiguousarray(array)), layout)
    if layout == "columns first":
        return np.asfortranarray(array)
    if layout == "backwards":
        return array[::-1, ::-1]
    if layout == "every other row":
        return np.repeat(array, 2, axis=0)[::2]
    if layout == "every other column":
        return np.repeat(array, 2, axis=1)[:, ::2]
    if layout == "swapped bytes" and array.dtype.kind in "fiu":
        return array.astype(array.dtype.newbyteorder(">"))
    if layout == "read only":
        array.flags.writeable = False
    if layout == "repeated" and len(array):
        return np.broadcast_to(array[0], array.shape)
    if layout == "masked":
        return np.ma.masked_array(array, mask=np.arange(array.size).reshape(array.shape) == 1)
    if layout == "matrix" and array.dtype.kind in "fiu":
        return np.asarray(array).view(np.recarray) if array.size else array
    return array


def _of_type(numbers: Any, dtype: str) -> Any:
    if dtype in ("object", "U3"):
        return numbers.astype(dtype)
    kind = np.dtype(dtype)
    if kind.kind in "iu":
        return np.nan_to_num(numbers, nan=1, posinf=5, neginf=-5).clip(-100, 100).astype(kind)
    return numbers.astype(kind)


def _as_torch(tensor: Tensor, layout: str) -> Tensor:
    if layout == "torch view":
        return tensor.T.contiguous().T
    if layout == "torch with a gradient" and tensor.is_floating_point():
        return tensor.clone().requires_grad_(True)
    return tensor
