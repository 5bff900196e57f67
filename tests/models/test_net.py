"""`net:`: networks of our own, their sizes as in the literature, and what they refuse."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from theodolite.core.errors import InputError, ModelError
from theodolite.guard.provenance import Provenance, require_model
from theodolite.models import load_model
from theodolite.models.nets.resnet import cifar_resnet
from theodolite.models.sources.net import NETWORKS


@pytest.mark.parametrize("layers", [20, 32, 44, 56])
def test_a_cifar_resnet_has_its_layers_and_weights(layers: int) -> None:
    """He et al. (2016), section 4.2, counted by hand; two shortcuts are convolutions."""
    blocks = (layers - 2) // 6
    convolutions = 3 * 9 * 16 + 2 * blocks * 9 * (16**2 + 32**2 + 64**2) - 9 * (16 * 32 + 32 * 64)
    norms = 2 * (16 + 2 * blocks * (16 + 32 + 64))
    shortcuts = 16 * 32 + 32 * 64 + 2 * (32 + 64)
    model = cifar_resnet(layers, 10)
    assert sum(part.numel() for part in model.parameters()) == convolutions + norms + shortcuts + 650
    counted = [part for part in model.modules() if isinstance(part, torch.nn.Conv2d | torch.nn.Linear)]
    assert len(counted) == layers + 2


def test_resnet20_has_the_published_number_of_weights() -> None:
    assert sum(part.numel() for part in cifar_resnet(20, 10).parameters()) == 272_474


@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_gives_a_logit_a_class(name: str) -> None:
    if name in ("resnet50", "resnet110"):
        pytest.skip("large, and made of the same parts")
    loaded = load_model(f"net:{name}", pretrained=False, num_classes=4)
    assert loaded.spec == f"net:{name}?num_classes=4"
    with torch.no_grad():
        assert loaded.model(torch.zeros(1, *loaded.input_shape)).shape == (1, 4)
    assert loaded.layer in dict(loaded.model.named_modules())


def test_grey_pictures_of_another_size() -> None:
    loaded = load_model("net:resnet20?channels=1&size=12", pretrained=False)
    assert loaded.input_shape == (1, 12, 12)
    with torch.no_grad():
        assert loaded.model(torch.zeros(1, 1, 12, 12)).shape == (1, 10)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("net:resnet21", "net has no network 'resnet21'; did you mean 'resnet"),
        ("net:resnet20?num_classes=1", "at least two classes, got num_classes=1"),
        ("net:resnet20?channels=4", "channels must be 3 or 1, got 4"),
        ("net:lenet5?channels=3", "channels must be 1, got 3"),
        ("net:lenet5?size=32", "have side 28, got 32"),
        ("net:lenet5?stem_stride=2", "stem_stride must be 1 for this network, got 2"),
        ("net:resnet20?stem_stride=0", "stem_stride must be 1 or 2, got 0"),
        ("net:resnet18?stem_stride=3", "stem_stride must be 1 or 2, got 3"),
        ("net:resnet20?stem_stride=two", "stem_stride must be a whole number, got 'two'"),
    ],
)
def test_what_there_is_no_network_of_is_refused(spec: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        load_model(spec, pretrained=False)


def test_new_weights_are_never_taken_for_trained_ones() -> None:
    with pytest.raises(ModelError, match="have no weights of a release"):
        load_model("net:resnet20")
    with pytest.raises(InputError, match="6n"):
        cifar_resnet(21, 10)


def test_features_are_known_by_the_stride_too(tmp_path: Path) -> None:
    """The weights of both networks are the same, also in a file that says nothing else."""
    one = load_model("net:resnet20?size=12", pretrained=False)
    save_file(dict(one.model.state_dict()), tmp_path / "bare.safetensors")
    plain, strided = (
        load_model(f"net:resnet20?size=12{more}", weights=tmp_path / "bare.safetensors")
        for more in ("&stem_stride=1", "&stem_stride=2")
    )
    assert plain.digest == strided.digest == one.digest
    assert plain.preprocess_id == one.preprocess_id
    assert strided.preprocess_id == f"{one.preprocess_id}, stem stride 2"
    with pytest.raises(InputError, match=r"stem stride 2.*, but the guard was fitted on"):
        require_model(Provenance.of_model(plain, "fc"), strided)
