"""Scores that ask more of the model: the nudge of ODIN in fits, verdicts and files, and never half of it."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from labelled import labels_of
from nudging import nudged_straight, odin_straight
from small_models import TinyConv
from theodolite import ODIN, BatchGuard, Capture, Energy, Guard, extract, fit_guard, fit_parts
from theodolite.core.errors import CaptureError, ExportError, InputError
from theodolite.features import ExtractionSettings, FeatureStore, Running
from theodolite.guard import collect
from theodolite.models import load_model

MODEL = "python:small_models:TinyConv?mean=0&size=8"
# At T = 1000 scores differ in their last digits only: what is compared is at a temperature where they differ.
SPEC, WARM = "odin?noise=0.02&temperature=2", {"temperature": 2.0, "noise": 0.02}
ASKED = "odin?noise=0.02&temperature=2.0"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures to fit on and new ones, grey noise of 8×8."""
    place = tmp_path_factory.mktemp("nudged")
    rng = np.random.default_rng(0)
    for name, count in (("fit", 160), ("new", 24)):
        images = rng.integers(0, 256, (count, 8, 8), dtype=np.uint8)
        np.savez(place / f"{name}.npz", images=images, labels=labels_of(images))
    return place


@pytest.fixture(autouse=True)
def _own_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THEODOLITE_CACHE", str(folder / "cache"))


def images_of(folder: Path, name: str) -> Tensor:
    return torch.from_numpy(np.load(folder / f"{name}.npz")["images"])[:, None].float() / 255


def warm() -> ODIN:
    return ODIN(temperature=2.0, noise=0.02)


def score(guard: Guard, images: Tensor) -> Tensor:
    return torch.as_tensor(guard.verdicts(images).score)


def nudging_guard(folder: Path) -> Guard:
    return fit_guard(folder / "fit.npz", MODEL, detector=SPEC, force=True).guard


def test_verdicts_are_odins_by_its_definition(folder: Path) -> None:
    """Fitted, calibrated and scored through the commands' own functions, in batches of several sizes."""
    guard, images = nudging_guard(folder), images_of(folder, "new")
    expected = odin_straight(TinyConv(), images, **WARM).numpy()
    plain = odin_straight(TinyConv(), images, temperature=2.0, noise=0.0).numpy()
    assert np.abs(expected - plain).min() > 1e-4, "the nudge must show"
    for size in (5, 64):
        batches = guard.score_paths(folder / "new.npz", model=MODEL, running=Running(batch_size=size))
        found = [row.score or 0.0 for rows in batches for row in rows]
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    np.testing.assert_allclose(np.asarray(guard.verdicts(images).score), expected, rtol=1e-5)
    held_out = np.sort(odin_straight(TinyConv(), images_of(folder, "fit"), **WARM).numpy())
    for score in guard.calibration.scores:
        assert np.abs(held_out - score).min() < 1e-6, "calibrated on nudged inputs too"


def test_the_capture_is_the_definition_in_every_mode(folder: Path) -> None:
    """Within no_grad and inference mode, in training mode, and with gradients that somebody else wants."""
    images = images_of(folder, "new")
    model = TinyConv().train()
    model.fc.bias.grad = torch.ones(3)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    expected = nudged_straight(model, images, **WARM)
    with torch.no_grad():
        exact = copy.deepcopy(model).double().eval()
        rows = exact.block(exact.stem(expected)).mean(dim=(2, 3))
    for context in (torch.enable_grad(), torch.no_grad(), torch.inference_mode()):
        with context:
            features, _ = Capture(model, score=warm())(images)
        torch.testing.assert_close(features.double(), rows, rtol=1e-4, atol=1e-5)
    assert model.training
    assert torch.equal(model.fc.bias.grad, torch.ones(3))
    assert all(value.grad is None for name, value in model.named_parameters() if name != "fc.bias")
    assert all(value.requires_grad for value in model.parameters())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_autocast_nudges_and_keeps_its_features_apart(folder: Path) -> None:
    settings = ExtractionSettings(score=warm(), running=Running(autocast=True))
    half = extract(folder / "new.npz", MODEL, settings=settings)
    whole = extract(folder / "new.npz", MODEL, settings=replace(settings, running=Running()))
    assert half.key != whole.key
    one, other = (torch.cat([rows for rows, _, _ in store]) for store in (half, whole))
    assert 0 < float((one - other).abs().max()) < 0.05


def test_features_are_kept_under_what_was_asked(folder: Path) -> None:
    keys = {}
    for name, score in (("plain", None), ("energy", Energy()), ("none", ODIN(noise=0)), ("nudged", ODIN())):
        keys[name] = extract(folder / "new.npz", MODEL, settings=ExtractionSettings(score=score)).key
    keys["further"] = extract(folder / "new.npz", MODEL, settings=ExtractionSettings(score=warm())).key
    assert keys["plain"] == keys["energy"] == keys["none"]
    assert len({keys["plain"], keys["nudged"], keys["further"]}) == 3
    settings, plain = ExtractionSettings(score=ODIN()), extract(folder / "new.npz", MODEL)
    with pytest.raises(InputError, match="model_score of inputs as they are, not odin"):
        extract(folder / "new.npz", MODEL, output=plain.path, settings=settings)


def test_a_nudged_guard_is_never_used_without_it(folder: Path, tmp_path: Path) -> None:
    guard, images = nudging_guard(folder), images_of(folder, "new")
    guard.save(tmp_path / "guard.safetensors")
    again = Guard.load(tmp_path / "guard.safetensors")
    assert again.provenance is not None
    assert again.model_score == again.provenance.model_score == ASKED
    assert again.title == "ODIN"
    loaded = load_model(MODEL)
    plain, _ = Capture(loaded.model)(images)
    with pytest.raises(InputError, match="do not say of which inputs"):
        again.verdicts(plain)
    with pytest.raises(InputError, match="do not say of which inputs"):
        torch.export.export(again, (plain,), strict=False)
    with pytest.raises(InputError, match="do not say of which inputs"):
        again.explain(plain)
    with pytest.raises(InputError, match="do not say of which inputs"):
        BatchGuard(again)({"features": plain.numpy()})
    np.save(tmp_path / "features.npy", plain.numpy())
    with pytest.raises(InputError, match="does not say of which inputs"):
        list(again.score_paths(tmp_path / "features.npy"))
    with pytest.raises(
        InputError, match="of inputs as they are, but the guard was calibrated on inputs as odin"
    ):
        list(again.score_paths(extract(folder / "new.npz", MODEL).path))
    for takes in ("features", "images"):
        with pytest.raises(ExportError, match="a graph has no backward pass"):
            again.export(tmp_path / "guard.onnx", takes=takes, model=MODEL)
    expected = score(guard.attach(loaded), images)
    assert torch.equal(score(again.attach(loaded), images), expected)
    assert [one.score for one in again.explain(images)] == pytest.approx(expected.tolist())
    nudged = extract(folder / "new.npz", MODEL, settings=ExtractionSettings(score=warm()))
    found = [row.score or 0.0 for rows in again.score_paths(nudged.path) for row in rows]
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-5)


def test_a_guard_without_the_nudge_is_never_used_with_it(folder: Path, tmp_path: Path) -> None:
    store, images = extract(folder / "fit.npz", MODEL, output=tmp_path / "store"), images_of(folder, "new")
    fitted = fit_guard(store.path, detector="odin", force=True)
    guard = fitted.guard
    assert guard.title == "ODIN (ε=0)"
    assert guard.detector.options()["noise"] == 0
    assert any("its nudge is left out" in note for note in fitted.notes)
    expected = odin_straight(TinyConv(), images, temperature=1000.0, noise=0.0).numpy()
    np.testing.assert_allclose(
        np.asarray(guard.attach(load_model(MODEL)).verdicts(images).score), expected, rtol=1e-6
    )
    nudged = extract(folder / "new.npz", MODEL, settings=ExtractionSettings(score=ODIN()))
    with pytest.raises(InputError, match="but the guard was calibrated on inputs as they are"):
        list(guard.score_paths(nudged.path))
    # A step of one's own, which features cannot take, is not quietly another score.
    for detector in (ODIN(noise=0.01), "odin?noise=0.01"):
        with pytest.raises(InputError, match=r"odin\?noise=0.01.* asks more of the model.*odin\?noise=0$"):
            fit_guard(store.path, detector=detector, force=True)
    with pytest.raises(InputError, match="Energy scores those of inputs as they are"):
        fit_guard(nudged.path, detector="energy", force=True)
    with pytest.raises(InputError, match="a threshold belongs to"):
        Guard.fit(nudged, head=nudged.head, detector=ODIN(), calibration=store)


def test_an_old_guard_of_odin_keeps_its_verdicts(folder: Path, tmp_path: Path) -> None:
    """Before there was a nudge a file had its ε, and nothing was nudged: so it stays."""
    guard = fit_guard(extract(folder / "fit.npz", MODEL).path, detector="odin?noise=0", force=True).guard
    old = Guard.of_own(
        ODIN().fit(head=guard.head), guard.calibration, guard.head, provenance=guard.provenance
    )
    old.save(tmp_path / "old.safetensors")
    again = Guard.load(tmp_path / "old.safetensors").attach(load_model(MODEL))
    assert again.title == "ODIN (ε=0)"
    images = images_of(folder, "new")
    assert torch.equal(score(again, images), score(guard.attach(load_model(MODEL)), images))


def test_a_file_that_contradicts_itself_is_refused(folder: Path) -> None:
    guard = nudging_guard(folder)
    for other in (ODIN(temperature=2.0, noise=0.01), Energy()):
        with pytest.raises(InputError, match="was calibrated on inputs as odin"):
            Guard(other.fit(head=guard.head), guard.calibration, provenance=guard.provenance)


def test_a_model_in_memory(folder: Path, tmp_path: Path) -> None:
    """Fitted on a loader, with the nudge; attached with its spec, it is found by commands."""
    model, detector = TinyConv().eval(), warm()
    loader, others = [images_of(folder, "fit")[:100]], [images_of(folder, "fit")[100:]]
    capture = Capture(model, score=detector)
    fit, held_out = capture.over(loader), capture.over(others)
    guard = Guard.fit(fit, head=capture.head, detector=detector, calibration=held_out)
    assert guard.origin is not None
    assert guard.origin.model_score == ASKED
    with pytest.raises(InputError, match="a threshold belongs to"):
        Guard.fit(fit, head=capture.head, detector=detector, calibration=Capture(model).over(others))
    with pytest.raises(InputError, match="a threshold belongs to"):
        Guard.fit(fit, head=capture.head, detector=detector, calibration=torch.rand(50, 10))
    guard.attach(model)
    expected = odin_straight(model, images_of(folder, "new"), **WARM).numpy()
    np.testing.assert_allclose(
        np.asarray(guard.verdicts(images_of(folder, "new")).score), expected, rtol=1e-5
    )
    guard.attach(model, spec=MODEL)
    assert guard.provenance is not None
    assert guard.provenance.model_score == ASKED
    guard.save(tmp_path / "guard.safetensors")
    rows = Guard.load(tmp_path / "guard.safetensors").score_folder(folder / "new.npz", model=MODEL)
    np.testing.assert_allclose([row.score or 0.0 for row in rows], expected, rtol=1e-5)


def test_state_dict_and_a_file_without_head(folder: Path, tmp_path: Path) -> None:
    guard = nudging_guard(folder)
    guard.save(tmp_path / "bare.safetensors", with_head=False)
    bare = Guard.load(tmp_path / "bare.safetensors", model=MODEL)
    images = images_of(folder, "new")
    twin = copy.deepcopy(guard)
    twin.load_state_dict(guard.state_dict())
    expected = score(guard.attach(load_model(MODEL)), images)
    assert torch.equal(score(bare, images), expected)
    assert torch.equal(score(twin.attach(load_model(MODEL)), images), expected)


def test_parts_give_the_guard_of_the_whole(folder: Path) -> None:
    parts = [
        collect(folder / "fit.npz", MODEL, detectors=[SPEC], settings=ExtractionSettings(part=f"{number}/2"))
        for number in (1, 2)
    ]
    guard = fit_parts(parts, force=True).guard
    assert guard.model_score == ASKED
    whole = nudging_guard(folder)
    np.testing.assert_allclose(np.asarray(guard.calibration.scores), np.asarray(whole.calibration.scores))
    with pytest.raises(InputError, match="collect them apart"):
        collect(folder / "fit.npz", MODEL, detectors=[SPEC, "energy"])
    with pytest.raises(InputError, match="Energy scores those of inputs as they are"):
        fit_parts(parts, detector="energy", force=True)


def test_pictures_one_by_one_and_in_batches_of_an_engine(folder: Path) -> None:
    guard = nudging_guard(folder).attach(load_model(MODEL))
    raw = np.load(folder / "new.npz")["images"]
    expected = np.asarray(guard.verdicts(images_of(folder, "new")).score)
    pictures = [Image.fromarray(one) for one in raw]
    np.testing.assert_allclose(np.asarray(guard.verdicts(pictures).score), expected, rtol=1e-6)
    columns = BatchGuard(guard, column="pictures", batch_size=7)({"pictures": pictures})
    np.testing.assert_allclose(np.asarray(columns["score"], float), expected, rtol=1e-6)


def test_the_service_judges_pictures_and_takes_no_features(folder: Path) -> None:
    pytest.importorskip("fastapi", reason="pip install 'theodolite[serve]'")
    from theodolite.serve.judging_guard import JudgingGuard

    guard = nudging_guard(folder)
    judging = JudgingGuard(guard, model=MODEL)
    assert judging.takes_pictures
    assert not judging.takes_features
    judging.warm()
    images = images_of(folder, "new")
    expected = odin_straight(TinyConv(), images, **WARM).numpy()
    for explain in (False, True):
        found = [one.score for one in judging.judge(images, explain=explain)]
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    capture = Capture(TinyConv(), score=ODIN())
    rows = capture.over([images_of(folder, "fit")])
    lost = Guard.fit(rows, head=capture.head, detector=ODIN())
    with pytest.raises(InputError, match="does not say how its model is loaded"):
        JudgingGuard(lost)


class Frozen(TinyConv):
    """Lets no gradient through."""

    def forward(self, images: Tensor) -> Tensor:
        with torch.no_grad():
            return super().forward(images)


class Told(TinyConv):
    """Returns a record, as models of transformers do."""

    def forward(self, images: Tensor) -> dict[str, Tensor]:  # type: ignore[override]
        return {"logits": super().forward(images)}


def test_models_that_let_no_gradient_through_and_those_that_return_records() -> None:
    images = torch.rand(4, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    with pytest.raises(CaptureError, match="no gradient of the model's output reaches its inputs"):
        Capture(Frozen(), score=ODIN())(images)
    with pytest.raises(CaptureError, match="only floating-point inputs have gradients"):
        ODIN().prepare(nn.Linear(3, 2), torch.ones(2, 3, dtype=torch.int64))
    expected, _ = Capture(TinyConv(), score=ODIN())(images)
    found, _ = Capture(Told(), score=ODIN())(images)
    assert torch.equal(found, expected)


def test_half_precision_nudges_as_whole(folder: Path) -> None:
    """At T = 1000 gradients of a bfloat16 softmax would be lost; the step is taken all the same."""
    images = images_of(folder, "new")
    model = TinyConv().to(torch.bfloat16)
    step = ODIN(noise=0.5).prepare(model, images.bfloat16()).float() - images.bfloat16().float()
    whole = ODIN(noise=0.5).prepare(TinyConv(), images) - images
    assert float((step.sign() == whole.sign()).float().mean()) > 0.9
    assert bool((step != 0).any(dim=(1, 2, 3)).all())


def test_a_store_knows_that_it_is_nudged(folder: Path) -> None:
    store = extract(folder / "new.npz", MODEL, settings=ExtractionSettings(score=warm()))
    assert FeatureStore(store.path).manifest.recipe.model_score == ASKED
