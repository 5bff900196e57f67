"""A guard and its model in memory: only the one it was fitted on, and a way from there to the command."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from command_server import run
from small_models import Tiny, Wide
from theodolite import Capture, Guard, Head, load_model
from theodolite.core.errors import InputError, TheodoliteWarning
from theodolite.features import extract
from theodolite.models.weights import weights_digest

SPEC = "python:small_models:Tiny?mean=0&size=8"
IMAGES = torch.rand(300, 1, 8, 8, generator=torch.Generator().manual_seed(1))
Loader = DataLoader[tuple[Tensor, ...]]


def loader() -> Loader:
    return DataLoader(TensorDataset(IMAGES, torch.arange(300) % 3), batch_size=64)


def guard_of(model: nn.Module) -> Guard:
    capture = Capture(model)
    return Guard.fit(capture.over(loader()), head=capture.head, detector="ora")


def preprocess(picture: Image.Image) -> Tensor:
    """As `?mean=0&size=8` does it for pictures that have that size."""
    grey = np.asarray(picture.convert("L").resize((8, 8), Image.Resampling.BILINEAR), dtype=np.float32)
    return torch.from_numpy(grey / 255)[None]


def same_head_on_noise() -> nn.Module:
    model = Tiny()
    nn.init.normal_(next(model.parameters()))
    return model


def nudged() -> nn.Module:
    model = Tiny()
    with torch.no_grad():
        list(model.parameters())[1][3] += 1e-3
    return model


def test_the_model_that_was_fitted_on_is_accepted() -> None:
    model = Tiny()
    guard = guard_of(model)
    expected = guard.attach(model).verdicts(IMAGES[:9])
    for same in (copy.deepcopy(model), Tiny().train()):
        found = guard.attach(same).verdicts(IMAGES[:9])
        torch.testing.assert_close(found.score, expected.score)
    assert guard.origin is not None
    assert (guard.origin.weights, guard.origin.layer) == (weights_digest(model), "fc")


@pytest.mark.parametrize("other", [same_head_on_noise, nudged, Wide, lambda: nn.Sequential(nn.Flatten())])
def test_another_model_is_refused(tmp_path: Path, other: type[nn.Module]) -> None:
    guard = guard_of(Tiny())
    guard.save(tmp_path / "guard.safetensors")
    for one in (guard, Guard.load(tmp_path / "guard.safetensors")):
        with pytest.raises(InputError, match=r"weights of this \w+ are not those .* fitted on.*or fit again"):
            one.attach(other())
        assert one.model is None


def test_changed_weights_are_refused() -> None:
    model = Tiny()
    guard = guard_of(model)
    with torch.no_grad():
        model.fc.bias.add_(1)
    with pytest.raises(InputError, match="are not those"):
        guard.attach(model)


def test_a_head_that_changes_after_it_was_attached_is_noticed() -> None:
    """In every batch, by the classes it predicts: the first batch is not the only one that is looked at."""
    model = Tiny()
    guard = guard_of(model).attach(model)
    guard.verdicts(IMAGES[:9])
    for rows in (IMAGES[:1], IMAGES[:200]):
        guard.verdicts(rows)
    with torch.no_grad():
        model.get_parameter("fc.weight").mul_(1.01)
    with pytest.raises(InputError, match="no longer the guard's"):
        guard.verdicts(IMAGES[:9])


def test_verdicts_on_images_use_the_logits_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Tiny()
    guard = guard_of(model).attach(model)
    features = guard._features(IMAGES[:9], finite=True)
    expected = guard.verdicts(features)
    products: list[int] = []
    plain = Head.logits

    def counted(self: Head, rows: Tensor) -> Tensor:
        products.append(len(rows))
        return plain(self, rows)

    monkeypatch.setattr(Head, "logits", counted)
    found = guard.verdicts(IMAGES[:9])
    assert products == [], "the model has multiplied already"
    for column, right in zip(found, expected, strict=True):
        torch.testing.assert_close(column, right, rtol=1e-5, atol=0)


def test_a_guard_of_bare_features_says_what_it_cannot_know() -> None:
    """The head is all it can compare, and it does with the first batch."""
    capture = Capture(Tiny())
    features, _ = capture(IMAGES)
    guard = Guard.fit(features, torch.arange(300) % 3, head=capture.head, detector="ora")
    with pytest.warns(TheodoliteWarning, match="fitted on features alone and cannot know"):
        guard.attach(Tiny())
    assert len(guard.verdicts(IMAGES[:5]).score) == 5
    other = Tiny()
    with torch.no_grad():
        other.fc.weight.add_(0.1)
    for model in (other, Wide()):
        with pytest.warns(TheodoliteWarning, match="cannot know"):
            guard.attach(model)
        for _ in range(2):  # it stays refused
            with pytest.raises(InputError, match=r"the model is not the guard's.*fit again"):
                guard.verdicts(IMAGES[:5])


def test_the_model_that_came_with_the_features_is_remembered() -> None:
    capture = Capture(Tiny())
    features, _ = capture(IMAGES)
    guard = Guard.fit(features, head=capture.head, detector="energy", model=capture.model)
    assert guard.attach(Tiny()).model is not capture.model
    with pytest.raises(InputError, match="are not those"):
        guard.attach(same_head_on_noise())


def test_calibration_goes_through_the_same_model() -> None:
    one, other = Capture(Tiny()), Capture(same_head_on_noise())
    with pytest.raises(InputError, match="another model than the data to fit on"):
        Guard.fit(one.over(loader()), head=one.head, calibration=other.over(loader()), detector="energy")


def test_loaded_models_and_stores_are_compared_too(tmp_path: Path) -> None:
    guard = guard_of(Tiny())
    assert guard.attach(load_model(SPEC)).loaded is not None
    torch.save({name: tensor + 1 for name, tensor in Tiny().state_dict().items()}, tmp_path / "other.pt")
    with pytest.raises(InputError, match="are not those"):
        guard.attach(load_model(SPEC, weights=tmp_path / "other.pt"))
    np.savez(tmp_path / "a.npz", images=np.zeros((40, 8, 8), dtype=np.uint8))
    store = extract(tmp_path / "a.npz", SPEC, weights=tmp_path / "other.pt", output=tmp_path / "other")
    with pytest.raises(InputError, match="with other weights than those of Tiny"):
        list(guard.score_paths(store.path))


def pictures(folder: Path, count: int = 6) -> Path:
    folder.mkdir()
    rng = np.random.default_rng(0)
    for index in range(count):
        Image.fromarray(rng.integers(0, 256, (8, 8), dtype=np.uint8)).save(folder / f"{index}.png")
    return folder


def test_with_its_preprocessing_it_judges_pictures_and_folders(tmp_path: Path) -> None:
    folder, model = pictures(tmp_path / "new"), Tiny()
    guard = guard_of(model).attach(model, preprocess=preprocess)
    files = sorted(folder.iterdir())
    opened = [Image.open(file) for file in files]
    prepared = torch.stack([preprocess(picture) for picture in opened])
    expected = guard.verdicts(prepared).score
    torch.testing.assert_close(guard.verdicts(opened).score, expected)
    rows = guard.score_folder(folder)
    assert [row.score for row in rows] == pytest.approx(torch.as_tensor(expected).tolist(), rel=1e-5)
    with pytest.raises(InputError, match=r"\(channels, height, width\) tensor"):
        guard.attach(model, preprocess=lambda _: torch.zeros(3))


def test_with_its_spec_a_command_finds_it(tmp_path: Path) -> None:
    folder, model = pictures(tmp_path / "new"), Tiny()
    guard = guard_of(model).attach(model, preprocess=preprocess, spec=SPEC)
    assert guard.provenance is not None
    assert (guard.provenance.model, guard.provenance.layer) == (load_model(SPEC).spec, "fc")
    guard.save(tmp_path / "guard.safetensors")
    expected = guard.score_folder(folder)
    done = run("score", "--model", SPEC, tmp_path / "guard.safetensors", folder, "-o", tmp_path / "out.jsonl")
    assert done.code == 0, done.err
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 6
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = Guard.load(tmp_path / "guard.safetensors").attach(model)
    torch.testing.assert_close(
        torch.as_tensor(again.verdicts(IMAGES[:4]).score), torch.as_tensor(guard.verdicts(IMAGES[:4]).score)
    )
    assert [row.path for row in expected] == sorted(str(file) for file in folder.iterdir())


def test_a_spec_of_something_else_is_refused(tmp_path: Path) -> None:
    model = Tiny()
    guard = guard_of(model)
    torch.save({name: tensor + 1 for name, tensor in Tiny().state_dict().items()}, tmp_path / "other.pt")
    with pytest.raises(InputError, match="gives other weights than the model in memory"):
        guard.attach(model, spec=SPEC, weights=tmp_path / "other.pt")
    with pytest.raises(InputError, match="prepares pictures otherwise"):
        guard.attach(model, spec=SPEC, preprocess=lambda picture: preprocess(picture) - 0.5)
    assert guard.provenance is None
    with pytest.raises(InputError, match=r"are for a plain nn\.Module"):
        guard.attach(load_model(SPEC), spec=SPEC)
