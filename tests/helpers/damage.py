"""Damage to what a file holds: tensors of another shape, type or value, other entries of its description."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

JSON: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.sampled_from((0, 1, -1, 8, 2**31, 2**63, 10**30, 0.5, 1e300, float("inf"), float("nan"))),
        st.sampled_from(("", "ora", "knn", "react:80", "nonsense", "theodolite-guard/1", "\x00", "é")),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(("a", "k", "detector")), inner, max_size=2),
    ),
    max_leaves=4,
)
# Changes to an entry besides another value: it is left out, or something of the same type stands there.
DROP, NUDGE = "drop", "nudge"
CHANGES = (
    "leave out", "flatten", "transpose", "one row less", "one column less", "no rows", "another axis",
    "scalar", "int64", "float16", "float64", "bool", "nan", "inf", "huge", "zeros", "negative", "rename",
    "add",
)  # fmt: skip


@dataclass(frozen=True)
class Damage:
    """Changes to the tensors by their place among the names, and to the description by a path of choices."""

    tensors: tuple[tuple[int, str], ...]
    texts: tuple[tuple[tuple[int, ...], Any], ...]


damages = st.builds(
    Damage,
    tensors=st.lists(st.tuples(st.integers(0, 15), st.sampled_from(CHANGES)), max_size=2).map(tuple),
    texts=st.lists(
        st.tuples(
            st.lists(st.integers(0, 23), min_size=1, max_size=4).map(tuple),
            st.one_of(st.sampled_from((DROP, NUDGE)), JSON),
        ),
        max_size=2,
    ).map(tuple),
).filter(lambda damage: bool(damage.tensors or damage.texts))


def changed(tensor: Tensor, change: str) -> Tensor:
    """A tensor after one change; the tensor itself where the change does not apply to it."""
    if change in ("int64", "float16", "float64", "bool"):
        return tensor.to(getattr(torch, change))
    if change in ("zeros", "negative"):
        return torch.full_like(tensor, 0 if change == "zeros" else -1)
    if change in ("nan", "inf", "huge"):
        if not tensor.is_floating_point():
            return torch.full_like(tensor, 100 if tensor.dtype == torch.uint8 else 10**9)
        largest = torch.finfo(tensor.dtype).max
        return torch.full_like(tensor, {"nan": torch.nan, "inf": torch.inf, "huge": largest}[change])
    shapes: dict[str, Callable[[], Tensor]] = {
        "flatten": lambda: tensor.reshape(-1),
        "transpose": lambda: tensor.T if tensor.ndim == 2 else tensor,
        "one row less": lambda: tensor[1:] if tensor.ndim else tensor,
        "one column less": lambda: tensor[..., 1:] if tensor.ndim else tensor,
        "no rows": lambda: tensor[:0] if tensor.ndim else tensor,
        "another axis": lambda: tensor[None],
        "scalar": lambda: tensor.sum(),
    }
    return shapes[change]()


def apply(damage: Damage, tensors: dict[str, Tensor], description: dict[str, Any]) -> None:
    for place, change in damage.tensors:
        name = sorted(tensors)[place % len(tensors)] if tensors else ""
        if change == "add" or not tensors:
            tensors[f"{name}.more"] = torch.zeros(3)
        elif change == "leave out":
            del tensors[name]
        elif change == "rename":
            tensors[f"{name}x"] = tensors.pop(name)
        else:
            tensors[name] = changed(tensors[name], change)
    for path, value in damage.texts:
        put(description, path, value)


def put(where: Any, path: tuple[int, ...], value: Any) -> None:
    """Change the entry that the choices lead to; the format, which decides who reads the file, stays."""
    for depth, choice in enumerate(path):
        keys = [key for key in where if key != "format"] if isinstance(where, dict) else [*range(len(where))]
        if not keys:
            return
        key = keys[choice % len(keys)]
        if depth == len(path) - 1 or not isinstance(where[key], dict | list) or not where[key]:
            if value == DROP and isinstance(where, dict):
                del where[key]
            else:
                where[key] = nudged(where[key]) if value == NUDGE else copy.deepcopy(value)
            return
        where = where[key]


def nudged(value: Any) -> Any:
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return -value if value else value + 1
    if isinstance(value, list):
        return [*value, *value]
    if isinstance(value, dict):
        return {f"{key}x": entry for key, entry in value.items()}
    return f"{value}x"
