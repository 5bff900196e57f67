"""Files that are sealed but wrong: valid safetensors with our header and the right checksum, other content.

Nobody writes them by accident; a file that was edited, or written by another program, looks like this.
"""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import made_guards
import theodolite as th
from fuzzing import cases
from synthetic import make_problem
from theodolite.core.errors import TheodoliteError
from theodolite.core.files import read_tensors, sha256, write_tensors
from theodolite.detectors._storage import FORMAT as DETECTOR
from theodolite.features.manifest import Recipe, _checksum
from theodolite.features.store import HEAD_FORMAT, SHARD_FORMAT
from theodolite.features.writer import Rows, StoreWriter
from theodolite.guard import Guard
from theodolite.guard.storage import FORMAT as GUARD

PROBLEM = make_problem(width=8, classes=3, rows=60)
OPTIONS: dict[str, dict[str, object]] = {
    "ora": {"metric": "mahalanobis", "shaping": "react:80", "centre": "target"},
    "knn": {"fraction": 0.5},
    "nnguide": {"fraction": 0.5},
}
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
            st.lists(st.integers(0, 7), min_size=1, max_size=3).map(tuple), st.one_of(st.just("drop"), JSON)
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
            if value == "drop" and isinstance(where, dict):
                del where[key]
            else:
                where[key] = copy.deepcopy(value)
            return
        where = where[key]


@cache
def kept() -> TemporaryDirectory[str]:
    return TemporaryDirectory()


def scratch() -> Path:
    """One folder for all cases; a folder each would take longer than the case."""
    return Path(kept().name)


@pytest.fixture(scope="module", autouse=True)
def _forget() -> Iterator[None]:
    yield
    kept().cleanup()


@cache
def good_detector(name: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    path = scratch() / "good"
    detector = th.create(name, **OPTIONS.get(name, {}))
    detector.fit(PROBLEM.train, PROBLEM.labels, head=PROBLEM.head).save(path)
    return read_tensors(path, DETECTOR)


@cache
def good_guard() -> tuple[dict[str, Tensor], dict[str, Any]]:
    path = scratch() / "good-guard"
    made_guards.fitted(400, class_names=[f"class {n}" for n in range(made_guards.CLASSES)]).save(path)
    return read_tensors(path, GUARD)


def written(tensors: dict[str, Tensor], description: dict[str, Any]) -> Path | None:
    """The file, sealed anew; None where safetensors cannot hold it."""
    path = scratch() / "wrong"
    try:
        write_tensors(path, {name: tensor.contiguous() for name, tensor in tensors.items()}, description)
    except (TypeError, UnicodeEncodeError):
        return None
    return path


@given(st.sampled_from(th.list_detectors()), damages)
@cases(bounded=600, long=3_500)
def test_a_detector_that_is_sealed_but_wrong(name: str, damage: Damage) -> None:
    tensors, description = copy.deepcopy(good_detector(name))
    apply(damage, tensors, description)
    path = written(tensors, description)
    if path is None:
        return
    try:
        detector = th.load(path)
        scores = detector.score(torch.rand(5, detector.width or 1))
    except TheodoliteError:
        return
    assert scores.shape == (5,)
    assert not bool(torch.isnan(scores).any())


@given(damages)
@cases(bounded=300, long=2_000)
def test_a_guard_that_is_sealed_but_wrong(damage: Damage) -> None:
    tensors, description = copy.deepcopy(good_guard())
    apply(damage, tensors, description)
    path = written(tensors, description)
    if path is None:
        return
    try:
        verdicts = Guard.load(path).verdicts(torch.rand(5, made_guards.WIDTH))
    except TheodoliteError:
        return
    assert not bool(torch.isnan(torch.as_tensor(verdicts.score)).any())
    assert not bool(torch.isnan(torch.as_tensor(verdicts.p_value)).any())


# ---------------------------------------------------------------------- stores


@cache
def good_store() -> Path:
    folder = scratch() / "good-store"
    recipe = Recipe("toy", "a" * 64, "plain", "fc", "b" * 64, samples=60)
    writer = StoreWriter.open(folder, recipe, PROBLEM.head, source="toy", shard_rows=25)
    for index in writer.missing():
        samples = writer.samples(index)
        part = slice(samples.start, samples.stop)
        names = [f"{row}.png" for row in range(samples.start, samples.stop)]
        writer.write(index, Rows([PROBLEM.train[part]], [int(c) for c in PROBLEM.labels[part]], names))
    return folder


@given(st.sampled_from(("manifest", "shard", "head")), damages)
@cases(bounded=300, long=2_000)
def test_a_store_that_is_sealed_but_wrong(part: str, damage: Damage) -> None:
    folder = scratch() / "wrong-store"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(good_store(), folder)
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    if part == "manifest":
        apply(Damage((), damage.texts), {}, manifest)
    else:
        name = "head.safetensors" if part == "head" else "shard-00001.safetensors"
        tensors, description = read_tensors(
            folder / name, HEAD_FORMAT if part == "head" else SHARD_FORMAT, sealed=False
        )
        tensors = {key: tensor.clone() for key, tensor in tensors.items()}
        apply(damage, tensors, description)
        path = written(tensors, description)
        if path is None:
            return
        path.replace(folder / name)
        if part == "head":
            manifest["head"] = sha256(folder / name)
        else:
            manifest["shards"][1]["sha256"] = sha256(folder / name)
    manifest.pop("checksum", None)
    try:
        text = json.dumps({**manifest, "checksum": _checksum(manifest)})
    except UnicodeEncodeError:
        return
    (folder / "manifest.json").write_text(text, encoding="utf-8")
    try:
        store = th.FeatureStore(folder)
        ora = th.ORA().fit(store, head=store.head)
        scores = [ora.score(PROBLEM.test), th.KNN(k=3, store=folder).fit().score(PROBLEM.test)]
    except TheodoliteError:
        return
    assert not any(bool(torch.isnan(part).any()) for part in scores)
