"""Weights files: safetensors and torch files, wrapped and prefixed, and the ones that must be refused."""

import argparse
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from theodolite.core.errors import ModelError
from theodolite.models.checkpoint import load_weights, read_state_dict


def model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


@pytest.fixture
def weights() -> dict[str, torch.Tensor]:
    torch.manual_seed(3)
    return dict(model().state_dict())


def assert_same(path: Path, weights: dict[str, torch.Tensor]) -> None:
    target = model()
    load_weights(target, path)
    assert all(torch.equal(value, target.state_dict()[key]) for key, value in weights.items())


def test_safetensors(tmp_path: Path, weights: dict[str, torch.Tensor]) -> None:
    save_file(weights, tmp_path / "w.safetensors")
    assert_same(tmp_path / "w.safetensors", weights)


@pytest.mark.parametrize("key", [None, "state_dict", "model", "net", "model_state_dict"])
@pytest.mark.parametrize("prefix", ["", "module.", "_orig_mod.", "module._orig_mod."])
def test_torch_file(tmp_path: Path, weights: dict[str, torch.Tensor], key: str | None, prefix: str) -> None:
    inner = {prefix + name: value for name, value in weights.items()}
    torch.save(inner if key is None else {"epoch": 9, key: inner}, tmp_path / "w.pt")
    assert_same(tmp_path / "w.pt", weights)


@pytest.mark.parametrize("prefix", ["model.", "backbone.", "net.", "model.net.", "module.model.", "_model."])
@pytest.mark.parametrize("suffix", ["ckpt", "safetensors"])
def test_a_prefix_that_all_names_share(
    tmp_path: Path, weights: dict[str, torch.Tensor], prefix: str, suffix: str
) -> None:
    """As Lightning writes it: the network is an attribute of the class that trains it."""
    inner = {prefix + name: value for name, value in weights.items()}
    path = tmp_path / f"w.{suffix}"
    if suffix == "safetensors":
        save_file(inner, path)
    else:
        lightning = {
            "state_dict": inner,
            "epoch": 9,
            "pytorch-lightning_version": "2.4",
            "hyper_parameters": {},
        }
        torch.save(lightning, path)
    assert_same(path, weights)


def test_a_prefix_is_left_out_only_if_every_name_then_has_its_place(
    tmp_path: Path, weights: dict[str, torch.Tensor]
) -> None:
    def refusal(content: dict[str, torch.Tensor]) -> str:
        torch.save({"state_dict": content}, tmp_path / "w.ckpt")
        with pytest.raises(ModelError) as caught:
            load_weights(model(), tmp_path / "w.ckpt")
        return str(caught.value)

    inner = {f"model.{name}": value for name, value in weights.items()}
    beside = refusal({**inner, "criterion.weight": torch.ones(2), "metric.total": torch.ones(1)})
    assert "fit the model under 'model.', but beside them there are others: criterion.weight" in beside
    assert "torch.save(trained.model.state_dict(), path)" in beside
    encoder = refusal({name: value for name, value in inner.items() if ".2." not in name})
    assert "missing: 2.weight, 2.bias." in encoder
    assert "unexpected" not in encoder
    wider = refusal({**inner, "model.2.weight": torch.zeros(7, 4), "model.2.bias": torch.zeros(7)})
    assert "2.weight (7, 4) instead of (2, 4)" in wider
    assert "missing" not in wider
    foreign = refusal({f"model.{name}.weight": torch.zeros(2) for name in ("conv1", "conv2")})
    assert "no name in common with the model: it is a checkpoint of another architecture" in foreign


def test_a_model_that_has_the_prefix_itself_keeps_it(tmp_path: Path) -> None:
    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = nn.ModuleDict({"model": nn.Linear(2, 2)})

    first, second = Wrapped(), Wrapped()
    for prefix in ("", "model.", "net."):
        torch.save({prefix + name: value for name, value in first.state_dict().items()}, tmp_path / "w.pt")
        load_weights(second, tmp_path / "w.pt")
        assert torch.equal(
            second.state_dict()["model.model.weight"], first.state_dict()["model.model.weight"]
        )


def test_arguments_of_a_training_script_do_no_harm(tmp_path: Path, weights: dict[str, torch.Tensor]) -> None:
    torch.save({"opt": argparse.Namespace(lr=0.1), "model": weights}, tmp_path / "w.pth")
    assert_same(tmp_path / "w.pth", weights)


def test_a_layer_that_is_called_module_keeps_its_name(tmp_path: Path) -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = nn.Linear(2, 2)

    save_file(Own().state_dict(), tmp_path / "w.safetensors")
    load_weights(Own(), tmp_path / "w.safetensors")


def test_batch_norm_counters_may_be_missing(tmp_path: Path, weights: dict[str, torch.Tensor]) -> None:
    del weights["1.num_batches_tracked"]
    torch.save(weights, tmp_path / "w.pt")
    assert_same(tmp_path / "w.pt", weights)


def test_what_does_not_fit_is_named(tmp_path: Path, weights: dict[str, torch.Tensor]) -> None:
    weights["extra"] = torch.zeros(1)
    weights["2.weight"] = torch.zeros(7, 4)
    del weights["0.bias"]
    torch.save(weights, tmp_path / "w.pt")
    target = model()
    before = {key: value.clone() for key, value in target.state_dict().items()}
    with pytest.raises(ModelError) as caught:
        load_weights(target, tmp_path / "w.pt")
    message = str(caught.value)
    assert "missing: 0.bias" in message
    assert "unexpected: extra" in message
    assert "2.weight (7, 4) instead of (2, 4)" in message
    assert "num_classes" in message
    assert all(torch.equal(value, target.state_dict()[key]) for key, value in before.items())


class Runs:
    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, (self.command,)


def test_a_pickle_that_runs_code_is_refused(tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    torch.save({"state_dict": Runs(f"touch {witness}")}, tmp_path / "evil.pt")
    with pytest.raises(ModelError, match="cannot be read"):
        read_state_dict(tmp_path / "evil.pt")
    assert not witness.exists()


@pytest.mark.parametrize("name", ["w.safetensors", "w.pt"])
def test_damaged_files(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"\x80\x02nonsense" * 3)
    with pytest.raises(ModelError, match="cannot be read") as caught:
        read_state_dict(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_absent_file(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="does not exist"):
        read_state_dict(tmp_path / "none.pt")


def test_no_state_dict_inside(tmp_path: Path) -> None:
    torch.save({"epoch": 3}, tmp_path / "w.pt")
    with pytest.raises(ModelError, match="holds no state dict"):
        read_state_dict(tmp_path / "w.pt")
