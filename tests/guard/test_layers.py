"""Guards of several layers: each scored, combined, saved, exported; and never mixed up with those of one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from labelled import labels_of
from small_models import TinyConv
from theodolite import Capture, Guard, Layered, extract, fit_guard, load_exported
from theodolite.core.errors import InputError
from theodolite.features import ExtractionSettings
from theodolite.guard import collect
from theodolite.models import load_model

MODEL = "python:small_models:TinyConv?mean=0&size=8"
SEVERAL = ExtractionSettings(layer="stem,block")
ROWS = "stem:6,block:10,fc:10"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("layers")
    rng = np.random.default_rng(0)
    for name, count, top in (("fit", 240, 256), ("new", 30, 256), ("dark", 30, 60)):
        images = rng.integers(0, top, (count, 8, 8), dtype=np.uint8)
        np.savez(place / f"{name}.npz", images=images, labels=labels_of(images))
    return place


@pytest.fixture(autouse=True)
def _own_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THEODOLITE_CACHE", str(folder / "cache"))


def images_of(folder: Path, name: str) -> Tensor:
    return torch.from_numpy(np.load(folder / f"{name}.npz")["images"])[:, None].float() / 255


def layered_guard(folder: Path, detector: str = "knn?k=5") -> Guard:
    return fit_guard(folder / "fit.npz", MODEL, detector=detector, settings=SEVERAL, force=True).guard


@pytest.mark.parametrize("detector", ["knn?k=5", "layered?detector=knn?k=5&combine=p-values"])
def test_every_layer_is_scored_and_classes_are_the_models(
    folder: Path, detector: str, tmp_path: Path
) -> None:
    guard = layered_guard(folder, detector)
    assert isinstance(guard.detector, Layered)
    assert guard.detector.layers == ROWS
    assert guard.title.startswith("knn?k=5 on 3 layers")
    images = torch.cat([images_of(folder, "new"), images_of(folder, "dark")])
    guard.save(tmp_path / "guard.safetensors")
    again = Guard.load(tmp_path / "guard.safetensors").attach(load_model(MODEL))
    verdicts = again.verdicts(images)
    capture = Capture(TinyConv(), ["stem", "block"])
    features, logits = capture(images)
    expected = guard.detector.score(features)
    torch.testing.assert_close(torch.as_tensor(verdicts.score), expected, rtol=1e-4, atol=1e-5)
    assert torch.equal(torch.as_tensor(verdicts.predicted), logits.argmax(dim=1))
    assert bool(torch.as_tensor(verdicts.is_ood)[30:].all()), "dark pictures are far in the first layer"
    rows = [
        row for name in ("new", "dark") for row in again.score_folder(folder / f"{name}.npz", model=MODEL)
    ]
    np.testing.assert_allclose([row.score or 0.0 for row in rows], expected.numpy(), rtol=1e-3, atol=1e-5)
    store = extract(folder / "new.npz", MODEL, settings=SEVERAL)
    stored = [row.score or 0.0 for batch in again.score_paths(store.path) for row in batch]
    np.testing.assert_allclose(stored, expected[:30].numpy(), rtol=1e-3, atol=1e-5)
    (told, *_) = again.explain(images[:1])
    assert told.geometry is not None
    assert told.geometry.triangle is None
    with pytest.raises(InputError, match="bank is for guards of one layer"):
        again.explain(images[:1], bank=store)


def test_layers_and_one_layer_are_not_mixed(folder: Path) -> None:
    guard = layered_guard(folder)
    plain, several = extract(folder / "new.npz", MODEL), extract(folder / "new.npz", MODEL, settings=SEVERAL)
    other = extract(folder / "new.npz", MODEL, settings=ExtractionSettings(layer="block,fc"))
    for store in (plain, other):
        with pytest.raises(InputError, match="with other weights, layer"):
            list(guard.score_paths(store.path))
    single = fit_guard(folder / "fit.npz", MODEL, detector="knn?k=5", force=True).guard
    with pytest.raises(InputError, match="with other weights, layer"):
        list(single.score_paths(several.path))
    with pytest.raises(InputError, match="different models or preprocessing"):
        fit_guard(several.path, calibration=plain.path, detector="knn", force=True)
    with pytest.raises(InputError, match="a threshold belongs to"):
        Guard.fit(several, head=several.head, detector="knn", calibration=plain)
    with pytest.raises(InputError, match="Layered is for the layers a:3,b:4"):
        Guard.fit(several, head=several.head, detector=Layered(layers="a:3,b:4"))
    with pytest.raises(InputError, match="does not know whose columns"):
        Guard.fit(torch.rand(90, 26), detector="layered")


def test_a_score_that_needs_a_head_is_refused_before_anything_is_extracted(folder: Path) -> None:
    kept, settings = sorted((folder / "cache").glob("*")), ExtractionSettings(layer="stem,fc")
    for detector in ("ora", None):
        with pytest.raises(InputError, match="needs a head, which only the last layer has"):
            fit_guard(folder / "fit.npz", MODEL, detector=detector, settings=settings)
    assert sorted((folder / "cache").glob("*")) == kept
    with pytest.raises(InputError, match="not on parts"):
        collect(folder / "fit.npz", MODEL, detectors=["knn"], settings=SEVERAL)


def test_a_loader_and_a_state_dict(folder: Path) -> None:
    model = TinyConv().eval()
    capture = Capture(model, ["stem", "block"])
    fit = capture.over([images_of(folder, "fit")[:160]])
    held_out = capture.over([images_of(folder, "fit")[160:]])
    guard = Guard.fit(fit, head=capture.head, detector="knn?k=5", calibration=held_out)
    assert guard.origin is not None
    assert guard.origin.layer == ROWS
    images = images_of(folder, "new")
    expected = torch.as_tensor(guard.attach(model).verdicts(images).score)
    twin = Guard.fit(fit, head=capture.head, detector="knn?k=5", calibration=held_out)
    twin.load_state_dict({k: v for k, v in guard.state_dict().items() if not k.startswith("model.")})
    assert torch.equal(torch.as_tensor(twin.attach(model).verdicts(images).score), expected)
    plain = Capture(model)
    single = Guard.fit(plain.over([images_of(folder, "fit")]), head=plain.head, detector="knn?k=5")
    with pytest.raises(InputError, match="width 26"):
        single.verdicts(capture(images)[0])


@pytest.mark.usefixtures("operators_once")
def test_the_graph_of_an_exported_guard_hears_the_layers(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="pip install 'theodolite[onnx]'")
    guard = layered_guard(folder, "mds")
    exported = guard.export(tmp_path / "guard.onnx", model=MODEL)
    assert exported.record.takes == "images"
    images = images_of(folder, "new")
    found = load_exported(tmp_path / "guard.onnx").verdicts(images)
    np.testing.assert_allclose(
        np.asarray(found.score), np.asarray(guard.verdicts(images).score), rtol=1e-4, atol=1e-5
    )
