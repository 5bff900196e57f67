"""A head from features and logits: the one that made them, or a reason why it cannot be known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from made_folders import make_folder
from theodolite import Head, fit_guard
from theodolite.benchmarks import BenchSettings, bench
from theodolite.benchmarks.feature_folder import from_folder
from theodolite.core.errors import InputError
from theodolite.features.arrays import open_array
from theodolite.features.head_files import read_head
from theodolite.features.recovered import recovered_head

RNG = torch.Generator().manual_seed(0)
WIDTH, CLASSES = 40, 7
FEATURES = torch.relu(torch.randn(3000, WIDTH, generator=RNG) + 0.3) * (1 + torch.rand(WIDTH, generator=RNG))
HEAD = Head(torch.randn(CLASSES, WIDTH, generator=RNG), torch.randn(CLASSES, generator=RNG))
DEAD, TWICE = FEATURES * (torch.arange(WIDTH) != 3), FEATURES[:, [*range(39), 0]]
COSINE = Head.cosine(torch.randn(CLASSES, WIDTH, generator=RNG))


def stored(path: Path, features: Tensor, logits: Tensor) -> Path:
    save_file({"features": features.contiguous(), "logits": logits.contiguous()}, path)
    return path


def found(path: Path) -> Head:
    head = recovered_head([open_array(path)])
    assert head is not None
    return head


@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 1e-5), (torch.float16, 5e-3)])
@pytest.mark.parametrize("head", [HEAD, COSINE])
def test_the_head_that_made_the_logits_comes_back(
    tmp_path: Path, dtype: torch.dtype, error: float, head: Head
) -> None:
    """The logits are of the features before they were rounded, as a model gives them."""
    logits = head(FEATURES)
    made = found(stored(tmp_path / "f.safetensors", FEATURES.to(dtype), logits.to(dtype)))
    assert made.unit_features == head.unit_features
    assert float((made.weight - head.weight).norm() / head.weight.norm()) < error
    assert float((made.bias - head.bias).norm()) < 4 * error * float(head.weight.norm())


def test_npy_and_npz_hold_logits_too(tmp_path: Path) -> None:
    features, logits = FEATURES.numpy(), HEAD(FEATURES).numpy()
    np.savez(tmp_path / "f.npz", features=features, logits=logits)
    np.save(tmp_path / "g.npy", features)
    np.save(tmp_path / "g_logits.npy", logits)
    for name in ("f.npz", "g.npy"):
        assert torch.allclose(found(tmp_path / name).weight, HEAD.weight, atol=1e-4)
    np.savez(tmp_path / "f.npz", features=features, logits=logits[:-1])
    with pytest.raises(InputError, match="logits have shape"):
        open_array(tmp_path / "f.npz")


@pytest.mark.parametrize(
    ("features", "logits", "told"),
    [
        (FEATURES, torch.softmax(HEAD(FEATURES), 1), "are not weight · feature"),
        (FEATURES, HEAD(FEATURES.roll(1, 0)), "are not weight · feature"),  # rows in another order
        (FEATURES, HEAD(torch.relu(FEATURES - 1)), "are not weight · feature"),  # another layer
        (DEAD, HEAD(DEAD), "1 of them are zero"),
        (TWICE, HEAD(TWICE), "have rank 40, not 41"),
        (FEATURES[:60], HEAD(FEATURES[:60]), "73 are needed"),
    ],
)
def test_what_is_no_head_or_not_the_only_one_is_refused(
    tmp_path: Path, features: Tensor, logits: Tensor, told: str
) -> None:
    with pytest.raises(InputError, match=told) as error:
        found(stored(tmp_path / "f.safetensors", features, logits))
    assert "--head FILE" in str(error.value)


def test_directions_in_which_features_hardly_vary_leave_the_head_open(tmp_path: Path) -> None:
    """Half precision hides the weights of a feature that differs from another by its rounding."""
    features = FEATURES.clone()
    features[:, 1] = features[:, 0] * (1 + 1e-4 * torch.randn(len(features), generator=RNG))
    path = stored(tmp_path / "f.safetensors", features.half(), HEAD(features).half())
    with pytest.raises(InputError, match="hardly vary in some directions"):
        found(path)
    exact = found(
        stored(
            tmp_path / "g.safetensors",
            features.double(),
            Head(HEAD.weight.double(), HEAD.bias.double())(features.double()),
        )
    )
    assert torch.allclose(exact.weight, HEAD.weight, atol=1e-3)


def test_a_folder_without_a_head_but_with_logits(tmp_path: Path) -> None:
    """The benchmark is that of the head which made them; a head beside logits of another one is refused."""
    folder = make_folder(tmp_path / "f")
    head = read_head(folder / "head.safetensors")
    settings = BenchSettings(cache=tmp_path / "cache")
    expected = bench(f"features:{folder}", detectors=["energy", "ora"], settings=settings)
    for path in folder.glob("*.safetensors"):
        tensors = load_file(path)
        if "features" in tensors:
            save_file({**tensors, "logits": head(tensors["features"].float())}, path)
    assert from_folder(folder).head.equals(head)
    (folder / "head.safetensors").rename(tmp_path / "head.safetensors")
    assert torch.allclose(from_folder(folder).head.weight, head.weight, atol=1e-5)
    made = bench(f"features:{folder}", detectors=["energy", "ora"], settings=settings)
    for cell, known in zip(made.cells, expected.cells, strict=True):
        assert cell.value == pytest.approx(known.value, abs=0.5)

    save_file({"weight": head.weight.flip(0), "bias": head.bias}, folder / "head.safetensors")
    with pytest.raises(InputError, match="not what the head of 4 classes gives"):
        from_folder(folder)


def test_fit_on_a_file_with_logits_needs_no_head(tmp_path: Path) -> None:
    labels = HEAD(FEATURES).argmax(dim=1).numpy()
    np.savez(tmp_path / "f.npz", features=FEATURES, labels=labels, logits=HEAD(FEATURES))
    fitted = fit_guard(tmp_path / "f.npz", detector="energy")
    assert fitted.agreement == 1.0
    assert fitted.guard.head is not None
    assert torch.allclose(fitted.guard.head.weight, HEAD.weight, atol=1e-4)
    with pytest.raises(InputError, match="not what the head of 7 classes gives"):
        fit_guard(tmp_path / "f.npz", detector="energy", head=Head(HEAD.weight.flip(0), HEAD.bias))
