"""The aliases name the paper's checkpoints; SCL files, Lite0, OE and CLIP load for real."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn
from typer.testing import CliRunner

from theodolite.cli.app import app
from theodolite.core.compat import import_torchvision
from theodolite.core.errors import InputError, ModelError
from theodolite.features.capture import Capture
from theodolite.features.layers import head_layers
from theodolite.models import list_models, load_model
from theodolite.models.nets.resnet import resnet18, resnet50

import_torchvision()

CARDS = {card.alias: card for card in list_models()}
TIMM = [alias for alias, card in CARDS.items() if card.spec.startswith("timm:")]
TORCHVISION = [alias for alias, card in CARDS.items() if card.spec.startswith("torchvision:")]


# ---------------------------------------------------------------------- aliases


@pytest.mark.parametrize("alias", [*TIMM, *TORCHVISION])
def test_alias_builds_the_model_of_its_card(alias: str) -> None:
    # Without memory for the weights, a base model is built in no time.
    with torch.device("meta"):
        loaded = load_model(alias, pretrained=False)
    card = CARDS[alias]
    assert loaded.spec == card.spec
    assert loaded.input_shape == (3, card.input_size, card.input_size)
    head = list(head_layers(loaded.model).values())[-1]
    assert head.weight.shape[:2] == (1000, card.width)
    assert loaded.class_names is not None


def test_timm_aliases_have_weights() -> None:
    import timm

    pretrained = set(timm.list_pretrained())
    assert all(CARDS[alias].spec.removeprefix("timm:") in pretrained for alias in TIMM)


def test_models_command() -> None:
    result = CliRunner().invoke(app, ["models"], env={"COLUMNS": "140"})
    assert result.exit_code == 0
    for text in ("convnext-pre", "timm:convnext_base.fb_in22k_ft_in1k", "85.49", "2048", "448"):
        assert text in result.stdout


# ---------------------------------------------------------------------- SCL

BUILD: dict[str, Callable[[], nn.Module]] = {
    "resnet18": lambda: resnet18(10, cifar_stem=True),
    "resnet18-supcon": lambda: resnet18(10, cifar_stem=True),
    "resnet50-supcon": lambda: resnet50(1000),
}
FILES = {
    "resnet18": ("CIFAR10_resnet18.pth.tar", "state_dict", "module."),
    "resnet18-supcon": ("CIFAR10_resnet18_supcon.pth.tar", "state_dict", "module."),
    "resnet50-supcon": ("ImageNet_resnet50_supcon.pth", "model", "encoder.module."),
}


def save_release(folder: Path, name: str) -> nn.Module:
    """A random network in the layout of the public files: an encoder, and for SCL its head beside it."""
    torch.manual_seed(5)
    model = BUILD[name]()
    file, key, prefix = FILES[name]
    weights = {prefix + own: value for own, value in model.state_dict().items()}
    if name.endswith("supcon"):
        linear = {"fc.weight": weights.pop(prefix + "fc.weight"), "fc.bias": weights.pop(prefix + "fc.bias")}
        torch.save(
            {"model": linear, "epoch": 1}, folder / file.replace(".tar", "").replace(".pth", "_linear.pth")
        )
        weights |= {"module.head.0.weight": torch.zeros(4, 4), "module.head.2.bias": torch.zeros(4)}
    torch.save({key: weights, "epoch": 1}, folder / file)
    return model


@pytest.mark.parametrize("name", BUILD)
def test_scl_files(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = save_release(tmp_path, name)
    monkeypatch.setenv("THEODOLITE_WEIGHTS", str(tmp_path))
    loaded = load_model(f"scl:{name}")
    images = torch.randn(2, 3, 32, 32)
    capture = Capture(loaded.model, loaded.layer)
    features, logits = capture(images)
    with torch.no_grad():
        assert torch.allclose(original.eval()(images), logits, atol=1e-5)
    assert torch.allclose(capture.head(features), logits, atol=1e-4)
    card = next(card for card in list_models() if card.spec == f"scl:{name}")
    assert features.shape == (2, card.width)
    assert loaded.input_shape == (3, card.input_size, card.input_size)


def test_our_resnet50_is_torchvisions() -> None:
    from torchvision.models import resnet50 as theirs

    one, other = resnet50(10).eval(), theirs(num_classes=10).eval()
    one.load_state_dict(other.state_dict())
    images = torch.randn(1, 3, 64, 64)
    with torch.no_grad():
        assert torch.allclose(one(images), other(images), atol=1e-5)


def test_scl_explicit_files(tmp_path: Path) -> None:
    original = save_release(tmp_path, "resnet18-supcon")
    encoder = (tmp_path / FILES["resnet18-supcon"][0]).rename(tmp_path / "encoder.pth")
    linear = (tmp_path / "CIFAR10_resnet18_supcon_linear.pth").rename(tmp_path / "head.pth")
    loaded = load_model("resnet18-scl", weights=encoder, linear=linear)
    assert torch.equal(loaded.model.state_dict()["fc.weight"], original.state_dict()["fc.weight"])
    with pytest.raises(ModelError, match="is not a linear head"):
        load_model("resnet18-scl", weights=encoder, linear=encoder)


def test_scl_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THEODOLITE_WEIGHTS", str(tmp_path))
    with pytest.raises(ModelError, match=r"put ImageNet_resnet50_supcon\.pth into that folder"):
        load_model("resnet50-scl")
    with pytest.raises(InputError, match="scl has no model 'resnet34'"):
        load_model("scl:resnet34")


# ---------------------------------------------------------------------- EfficientNet-Lite0, real weights


def test_lite0_knows_the_cat() -> None:
    from skimage import data

    loaded = load_model("lite:efficientnet-lite0")
    pictures = [getattr(data, name)() for name in ("chelsea", "coffee", "rocket")]
    inputs = torch.stack([loaded.preprocess(Image.fromarray(picture)) for picture in pictures])
    assert torch.allclose(inputs * 128 + 127, (inputs * 128 + 127).round(), atol=1e-3)
    capture = Capture(loaded.model)
    features, logits = capture(inputs)
    assert capture.layer == loaded.layer == "_fc"
    assert features.shape == (3, 1280)
    assert torch.allclose(capture.head(features), logits, atol=1e-4)
    assert loaded.class_names is not None
    names = [loaded.class_names[index] for index in logits.argmax(dim=1).tolist()]
    assert "cat" in names[0].lower()
    assert any(word in names[1] for word in ("espresso", "cup"))
    assert any(word in names[2] for word in ("missile", "projectile", "space shuttle"))


def test_lite0_matches_the_stored_head() -> None:
    from safetensors.torch import load_file

    head = load_file(_data("imagenet-lite0/head.safetensors"))
    state = load_model("lite0").model.state_dict()
    assert torch.allclose(head["weight"].float(), state["_fc.weight"], atol=1e-3)


def test_lite_has_one_model() -> None:
    with pytest.raises(InputError, match="efficientnet-lite0"):
        load_model("lite:efficientnet-lite4")


# ---------------------------------------------------------------------- Outlier Exposure


def test_oe_error_rate_on_mnist() -> None:
    from theodolite.data import open_source

    loaded = load_model("oe:mnist", weights=_data("oe-mnist/baseline.safetensors"))
    source = open_source(_data("mnist/t10k-images-idx3-ubyte.gz"))
    samples = [source[index] for index in range(len(source))]
    images = torch.stack([loaded.preprocess(_pil(sample.image)) for sample in samples])
    capture = Capture(loaded.model)
    features, logits = capture(images)
    assert capture.layer == loaded.layer
    assert features.shape == (10_000, 50)
    wrong = logits.argmax(dim=1) != torch.tensor([sample.label for sample in samples])
    assert int(wrong.sum()) == 94


def test_oe_needs_its_file() -> None:
    with pytest.raises(ModelError, match=r"--weights baseline\.safetensors"):
        load_model("oe:mnist")
    assert load_model("oe:mnist", pretrained=False).input_shape == (1, 28, 28)


def _data(name: str) -> Path:
    folder = os.environ.get("THEODOLITE_DATA")
    if not folder or not (Path(folder) / name).exists():
        pytest.skip(f"THEODOLITE_DATA with {name} is not set")
    return Path(folder) / name


def _pil(image: Image.Image | Tensor) -> Image.Image:
    assert isinstance(image, Image.Image)
    assert np.asarray(image).dtype == np.uint8
    return image
