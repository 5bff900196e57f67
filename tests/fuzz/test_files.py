"""Files that are sealed but wrong: valid safetensors with our header and the right checksum, other content.

Nobody writes them by accident; a file that was edited, or written by another program, looks like this.
"""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import Tensor

import made_guards
import theodolite as th
from damage import Damage, apply, damages
from fuzzing import cases, count
from sample_report import make_result
from synthetic import make_problem
from theodolite.cli.inspect import inspect
from theodolite.core.errors import TheodoliteError
from theodolite.core.files import parse_json, read_tensors, sha256, write_tensors
from theodolite.detectors._storage import FORMAT as DETECTOR
from theodolite.features import save_probe
from theodolite.features.head_files import read_head
from theodolite.features.linear_probe import FORMAT as PROBE
from theodolite.features.manifest import Recipe, _checksum
from theodolite.features.store import HEAD_FORMAT, SHARD_FORMAT
from theodolite.features.writer import Rows, StoreWriter
from theodolite.guard import Guard, Provenance
from theodolite.guard.part_files import FORMAT as PART
from theodolite.guard.storage import FORMAT as GUARD
from theodolite.reference.reference import FORMAT as REFERENCE
from theodolite.report.documents import write_files

PROBLEM = make_problem(width=8, classes=3, rows=60)
OPTIONS: dict[str, dict[str, object]] = {
    "ora": {"metric": "mahalanobis", "shaping": "react:80", "centre": "target"},
    "knn": {"fraction": 0.5},
    "nnguide": {"fraction": 0.5},
    "corp": {"components": 16, "shaping": "vra:60,90"},
    "cop": {"shaping": "ras"},
}
# Options that decide how much a reference holds.
OF_REFERENCES: dict[str, dict[str, object]] = {"knn": {"fraction": 0.5}, "corp": {"components": 16}}
NAMES = [f"class {number}" for number in range(made_guards.CLASSES)]
GUARDS: dict[str, dict[str, Any]] = {
    "with names": {"detector": "ora", "class_names": NAMES},
    "of the recommended score": {},
    "without head": {"detector": "knn?k=3", "head": None},
    "of a model": {
        "detector": "energy+react:80",
        "provenance": Provenance("python:a:b", "c" * 64, "plain", "fc"),
    },
}


@cache
def kept() -> TemporaryDirectory[str]:
    return TemporaryDirectory()


def scratch() -> Path:
    """One folder for all cases; a folder each would take longer than the case."""
    return Path(kept().name)


@pytest.fixture(scope="session", autouse=True)
def _forget() -> Iterator[None]:
    yield
    kept().cleanup()


def written(tensors: dict[str, Tensor], description: dict[str, Any]) -> Path | None:
    """The file, sealed anew; None where safetensors cannot hold it."""
    path = scratch() / "wrong"
    try:
        write_tensors(path, {name: tensor.contiguous() for name, tensor in tensors.items()}, description)
    except (TypeError, UnicodeEncodeError):
        return None
    return path


def damaged(good: tuple[dict[str, Tensor], dict[str, Any]], damage: Damage) -> Path | None:
    tensors, description = copy.deepcopy(good)
    apply(damage, tensors, description)
    return written(tensors, description)


def no_nan(*columns: Any) -> bool:
    return not any(bool(torch.isnan(torch.as_tensor(column)).any()) for column in columns)


# ---------------------------------------------------------------------- detectors, heads, guards


@cache
def good_detector(name: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    path = scratch() / "good"
    detector = th.create(name, **OPTIONS.get(name, {}))
    detector.fit(PROBLEM.train, PROBLEM.labels, head=PROBLEM.head).save(path)
    return read_tensors(path, DETECTOR)


@given(st.sampled_from(th.list_detectors()), damages)
@cases(bounded=200, long=4_000)
def test_a_detector_that_is_sealed_but_wrong(name: str, damage: Damage) -> None:
    path = damaged(good_detector(name), damage)
    if path is None:
        return
    try:
        detector = th.load(path)
        scores = detector.score(torch.rand(5, detector.width or 1))
    except TheodoliteError:
        count("files of detectors", name, "refused")
        return
    assert scores.shape == (5,)
    assert no_nan(scores)
    count("files of detectors", name, "scored")


@cache
def good_head() -> tuple[dict[str, Tensor], dict[str, Any]]:
    save_probe(PROBLEM.head, scratch() / "good-head")
    return read_tensors(scratch() / "good-head", PROBE)


@given(damages)
@cases(bounded=75, long=1_000)
def test_a_head_that_is_sealed_but_wrong(damage: Damage) -> None:
    path = damaged(good_head(), damage)
    if path is None:
        return
    try:
        head = read_head(path)
        scores = th.Energy().fit(head=head).score(torch.rand(5, head.width))
    except TheodoliteError:
        count("files of heads", "", "refused")
        return
    assert no_nan(scores)
    count("files of heads", "", "scored")


@cache
def good_guard(kind: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    features, labels = made_guards.clusters(400, 0)
    Guard.fit(features, labels, **{"head": made_guards.head(), **GUARDS[kind]}).save(scratch() / "good-guard")
    return read_tensors(scratch() / "good-guard", GUARD)


@given(st.sampled_from(sorted(GUARDS)), damages)
@cases(bounded=100, long=3_000)
@pytest.mark.filterwarnings("ignore::theodolite.core.errors.TheodoliteWarning")
def test_a_guard_that_is_sealed_but_wrong(kind: str, damage: Damage) -> None:
    path = damaged(good_guard(kind), damage)
    if path is None:
        return
    try:
        guard = Guard.load(path)
        verdicts = guard.verdicts(torch.rand(5, made_guards.WIDTH))
        rows = [guard.class_name(int(label)) for label in verdicts.predicted if label >= 0]
        inspect(str(path))
    except TheodoliteError:
        count("files of guards", kind, "refused")
        return
    assert no_nan(verdicts.score, verdicts.p_value)
    assert all(isinstance(name, str) for name in rows)
    count("files of guards", kind, "judged")


# ---------------------------------------------------------------------- references, parts


@cache
def good_part(detector: str, first_look: bool) -> tuple[dict[str, Tensor], dict[str, Any]]:
    features, labels = made_guards.clusters(200, 0)
    rows, head = scratch() / "rows.safetensors", scratch() / "part-head.safetensors"
    save_file({"features": features, "labels": labels}, rows)
    save_probe(made_guards.head(), head)
    part = th.collect(rows, detectors=[detector], head=head)
    if part.first_look and not first_look:
        part = th.collect(rows, detectors=[detector], head=head, first_look=[part])
    part.save(scratch() / "good-part")
    return read_tensors(scratch() / "good-part", PART)


@given(
    st.sampled_from(
        ("mds", "knn?fraction=0.5", "nci", "ora+react:80", "ora+vra", "corp?components=16", "ora+ras")
    ),
    st.booleans(),
    damages,
)
@cases(bounded=150, long=3_000)
@pytest.mark.filterwarnings("ignore::theodolite.core.errors.TheodoliteWarning")
def test_a_part_that_is_sealed_but_wrong(detector: str, first_look: bool, damage: Damage) -> None:
    path = damaged(good_part(detector, first_look), damage)
    if path is None:
        return
    try:
        inspect(str(path))
        guard = th.fit_parts([path], force=True, incomplete=True).guard
        verdicts = guard.verdicts(torch.rand(5, made_guards.WIDTH))
    except TheodoliteError:
        count("files of parts", detector, "refused")
        return
    assert no_nan(verdicts.score, verdicts.p_value)
    count("files of parts", detector, "judged")


@cache
def good_reference(name: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    detector = th.create(name, **OF_REFERENCES.get(name, {}))
    ids = torch.arange(len(PROBLEM.train))
    detector.collect(PROBLEM.train, PROBLEM.labels, head=PROBLEM.head, ids=ids).save(scratch() / "good-ref")
    return read_tensors(scratch() / "good-ref", REFERENCE)


@given(st.sampled_from(th.list_detectors()), damages)
@cases(bounded=150, long=3_000)
def test_a_reference_that_is_sealed_but_wrong(name: str, damage: Damage) -> None:
    path = damaged(good_reference(name), damage)
    if path is None:
        return
    try:
        inspect(str(path))
        detector = th.create(name, **OF_REFERENCES.get(name, {}))
        scores = detector.fit(th.Reference.load(path)).score(torch.rand(5, detector.width or 1))
    except TheodoliteError:
        count("files of references", name, "refused")
        return
    assert no_nan(scores)
    count("files of references", name, "scored")


# ---------------------------------------------------------------------- results


@cache
def good_result() -> str:
    return json.dumps(make_result().to_json())


@given(damages)
@cases(bounded=50, long=1_000)
def test_a_result_that_is_wrong(damage: Damage) -> None:
    content = json.loads(good_result())
    apply(Damage((), damage.texts), {}, content)
    if content == json.loads(good_result()):
        return
    try:
        again = parse_json(json.dumps(content), "results.json")
        assert isinstance(again, dict)
        write_files(th.RunResult.from_json(again), scratch() / "results")
    except TheodoliteError:
        count("files of results", "", "refused")
        return
    count("files of results", "", "written again")


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
@cases(bounded=100, long=2_000)
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
        count("files of stores", part, "refused")
        return
    assert no_nan(*scores)
    count("files of stores", part, "scored")
