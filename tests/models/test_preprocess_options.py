"""`?size=…&crop=…&mean=…&std=…&interpolation=…`: another preprocessing than the source's, on every source."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from model_checks import assert_works
from theodolite.core.compat import import_torchvision
from theodolite.core.errors import InputError
from theodolite.features.checked import checked_capture
from theodolite.models import LoadedModel, load_model, registry, source
from theodolite.models.preprocess import Pixels
from theodolite.models.registry import canonical_spec, names_model

import_torchvision()

PICTURE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (300, 410, 3), dtype=np.uint8))
QUERY = "size=64&crop=0.8&mean=0.1,0.2,0.3&std=0.4,0.5,0.6&interpolation=nearest"
WANTED = Pixels(64, 80, (0.1, 0.2, 0.3), (0.4, 0.5, 0.6), "nearest")


def by_hand(size: int, resize: int, mean: float, std: float) -> Tensor:
    """Shorter side of the picture to ``resize``, its centre, normalised: written out."""
    width, height = PICTURE.size
    scale = resize / min(width, height)
    small = PICTURE.resize((int(width * scale), int(height * scale)), Image.Resampling.NEAREST)
    left, top = round((small.width - size) / 2), round((small.height - size) / 2)
    pixels = np.asarray(small.crop((left, top, left + size, top + size))) / 255
    return torch.from_numpy(((pixels - mean) / std).transpose(2, 0, 1)).float()


def save_hf(folder: Path, processor: str, size: dict[str, int]) -> str:
    import transformers

    config = transformers.ConvNextConfig(num_labels=3, hidden_sizes=[8, 8, 8, 16], depths=[1, 1, 1, 1])
    transformers.ConvNextForImageClassification(config).save_pretrained(folder)
    getattr(transformers, processor)(size=size).save_pretrained(folder)
    return f"hf:{folder}"


def hf(folder: Path) -> str:
    return save_hf(folder, "ConvNextImageProcessor", {"shortest_edge": 48})


SPECS: dict[str, Callable[[Path], str]] = {
    "timm": lambda _: "timm:resnet10t",
    "timm-vit": lambda _: "timm:vit_tiny_patch16_224",
    "torchvision": lambda _: "torchvision:resnet18",
    "torchvision-vit": lambda _: "torchvision:vit_b_32",
    "hf": hf,
    "lite": lambda _: "lite:efficientnet-lite0",
    "scl": lambda _: "scl:resnet18-supcon",
    "python": lambda _: "python:test_models_factories:coloured",
    "python-own": lambda _: "python:test_models_factories:with_preprocess",
    "python-loaded": lambda _: "python:test_models_factories:loaded",
}

FACTORIES = """
import torch
from torch import nn
from theodolite.models import load_model

class Mean(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 4)
    def forward(self, images):
        return self.fc(images.mean(dim=(2, 3)))

def coloured():
    return Mean()

def with_preprocess():
    return Mean(), lambda image: torch.zeros(3, 8, 8)

def loaded():
    return load_model("scl:resnet18", pretrained=False)
"""


@pytest.fixture(autouse=True)
def factories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "test_models_factories.py").write_text(FACTORIES)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.parametrize("name", SPECS)
def test_every_source_takes_them(name: str, tmp_path: Path) -> None:
    spec = SPECS[name](tmp_path)
    with torch.device("meta" if "vit" in name else "cpu"):
        loaded = load_model(f"{spec}?{QUERY}", pretrained=False)
    assert loaded.preprocess == WANTED
    assert loaded.input_shape == (3, 64, 64)
    assert loaded.preprocess_id.startswith(repr(WANTED))
    assert all(part in loaded.spec for part in QUERY.split("&"))
    if "vit" not in name:
        checked_capture(loaded)
    seen = loaded.preprocess(PICTURE)
    one = load_model(
        f"{spec}?size=64&crop=0.8&mean=0.5,0.5,0.5&std=0.25&interpolation=nearest", pretrained=False
    )
    torch.testing.assert_close(one.preprocess(PICTURE), by_hand(64, 80, 0.5, 0.25), rtol=0, atol=1e-5)
    assert not torch.equal(seen, one.preprocess(PICTURE))
    assert one.preprocess_id != loaded.preprocess_id


def test_a_network_built_for_one_size_is_built_for_the_other() -> None:
    """Position embeddings: 64 / 16 squared tokens, and one for the class."""
    loaded = load_model("timm:vit_tiny_patch16_224?num_classes=5&size=64", pretrained=False)
    assert loaded.model.state_dict()["pos_embed"].shape[1] == 17
    assert_works(loaded, 5)


def test_clip_is_built_for_the_other_size() -> None:
    loaded = load_model("openclip:RN50?classes=cat,dog&size=64&crop=none&mean=0", pretrained=False)
    assert isinstance(loaded.preprocess, Pixels)
    assert (loaded.preprocess.size, loaded.preprocess.resize, loaded.preprocess.mean) == (64, None, (0,) * 3)
    assert_works(loaded, 2)


def test_grey_networks_take_one_number() -> None:
    loaded = load_model("oe:mnist?mean=0.1307&std=0.3081&crop=0.5&interpolation=bicubic", pretrained=False)
    assert loaded.preprocess == Pixels(28, 56, (0.1307,), (0.3081,), "bicubic")
    assert_works(loaded, 10)
    with pytest.raises(InputError, match="mean has 3 numbers, but the model takes grey images"):
        load_model("oe:mnist?mean=0,0,0", pretrained=False)


@pytest.mark.parametrize(
    "spec",
    [
        "timm:resnet10t.c3_in1k",
        "timm:convnext_atto.d2_in1k",
        "timm:deit_tiny_patch16_224.fb_in1k",
        "timm:eva02_tiny_patch14_336.mim_in22k_ft_in1k",
        "torchvision:mobilenet_v3_small",
        "torchvision:resnet50/IMAGENET1K_V2",
    ],
)
@pytest.mark.parametrize("picture", [PICTURE, PICTURE.crop((0, 0, 90, 60)), PICTURE.crop((0, 0, 50, 300))])
def test_an_option_that_repeats_the_sources_own_changes_nothing(spec: str, picture: Image.Image) -> None:
    """What is not named stays as the source has it, to the last pixel."""
    own = load_model(spec, pretrained=False)
    assert own.pixels is not None
    repeated = load_model(spec, pretrained=False, std=own.pixels.std)
    assert isinstance(repeated.preprocess, Pixels)
    torch.testing.assert_close(repeated.preprocess(picture), own.preprocess(picture), rtol=0, atol=2e-6)
    assert repeated.input_shape == own.input_shape


@pytest.mark.parametrize(
    ("processor", "size", "resize"),
    [
        ("ConvNextImageProcessor", {"shortest_edge": 48}, 54),
        ("ConvNextImageProcessor", {"shortest_edge": 384}, None),
        ("ViTImageProcessor", {"height": 48, "width": 48}, None),
        ("BitImageProcessor", {"shortest_edge": 48}, 48),
    ],
)
def test_processors_in_numbers(
    processor: str, size: dict[str, int], resize: int | None, tmp_path: Path
) -> None:
    loaded = load_model(save_hf(tmp_path, processor, size))
    assert loaded.pixels is not None
    assert loaded.pixels.resize == resize
    ours, theirs = loaded.pixels(PICTURE), loaded.preprocess(PICTURE)
    assert ours.shape == theirs.shape
    # Their resampling is another implementation: noise differs pixel by pixel, not as a whole.
    torch.testing.assert_close(ours.mean(dim=(1, 2)), theirs.mean(dim=(1, 2)), rtol=0, atol=0.02)
    assert float((ours - theirs).abs().mean()) < 0.05


def test_a_larger_size_keeps_the_share_that_is_shown() -> None:
    loaded = load_model("lite0?size=112")
    assert isinstance(loaded.preprocess, Pixels)
    assert (loaded.preprocess.size, loaded.preprocess.resize) == (112, 128)
    assert_works(loaded, 1000)


def test_a_preprocess_of_ones_own_is_replaced_as_a_whole() -> None:
    """Before, size and mean were passed over in silence."""
    with pytest.raises(InputError, match="replaced as a whole: give mean, std as well"):
        load_model("python:test_models_factories:with_preprocess?size=16")
    replaced = load_model("python:test_models_factories:with_preprocess?size=16&mean=0.5,0.5,0.5&std=0.5")
    assert replaced.preprocess == Pixels(16, None, (0.5,) * 3, (0.5,) * 3)
    assert "reached code" in replaced.preprocess_id


def test_a_source_of_somebody_elses_gets_them_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_sources", dict(registry._sources))

    @source("theirs")
    def load(request: registry.Request) -> LoadedModel:
        pixels = Pixels(size=8)
        model = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2))
        return LoadedModel(request.spec, model, pixels, repr(pixels), pixels.input_shape)

    loaded = load_model("theirs:x?size=12&mean=0.5")
    assert loaded.preprocess == Pixels(12, None, (0.5,) * 3)

    @source("theirs", options=("size",))
    def does_it_itself(request: registry.Request) -> LoadedModel:
        return dataclasses.replace(load(request), spec=f"size {request.options['size']}")

    monkeypatch.setitem(registry._sources, "own", registry.Source("own", does_it_itself, ("size",), bool))
    assert load_model("own:x?size=12").input_shape == (3, 8, 8)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("size=0", "size must be a whole number above 0, got '0'"),
        ("size=big", "size must be a whole number above 0, got 'big'"),
        ("size=-3", "size must be a whole number above 0"),
        ("size=", "option size has no value"),
        ("size=8&size=9", "option size is given twice"),
        ("crop=0", "crop must be the share"),
        ("crop=256", "crop must be the share"),
        ("crop=centre", "or none to squeeze the whole picture"),
        ("mean=123.675,116.28,103.53", "is of pixels from 0 to 255.*divide by 255"),
        ("mean=0.1,0.2", "must be one number, or three"),
        ("mean=nan", "must be one number, or three"),
        ("std=0", "std must be above 0"),
        ("std=-1", "std must be above 0"),
        ("std=a", "must be one number, or three"),
        ("interpolation=cubic", "interpolation must be one of bicubic, bilinear"),
    ],
)
@pytest.mark.parametrize("spec", ["timm:resnet10t", "scl:resnet18", "python:test_models_factories:coloured"])
def test_mistakes(spec: str, query: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_model(f"{spec}?{query}", pretrained=False)


def test_one_spelling() -> None:
    spec = "timm:resnet10t?mean=.50, 0.50,5e-1&std=1.0&interpolation=Bicubic"
    tidy = "timm:resnet10t?interpolation=bicubic&mean=0.5,0.5,0.5&std=1"
    assert canonical_spec(spec) == tidy
    assert load_model(spec, pretrained=False).spec == tidy
    given = load_model(
        "timm:resnet10t", pretrained=False, mean=(0.5, 0.5, 0.5), std=1, interpolation="bicubic"
    )
    assert given.spec == tidy
    assert names_model(spec, tidy)
    assert names_model(tidy, spec), "specs that 0.1.0 stored were not tidied"
    assert not names_model("timm:resnet10t", tidy)
    assert not names_model(tidy.replace("0.5", "0.4"), tidy)


def test_a_size_that_the_network_does_not_take_is_one_paragraph(tmp_path: Path) -> None:
    import transformers

    config = transformers.ViTConfig(
        image_size=32, patch_size=8, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, num_labels=3
    )
    transformers.ViTForImageClassification(config).save_pretrained(tmp_path)
    transformers.ViTImageProcessor(size={"height": 32, "width": 32}).save_pretrained(tmp_path)
    with pytest.raises(InputError, match=r"does not take images of shape \(3, 64, 64\).*\?size="):
        checked_capture(load_model(f"hf:{tmp_path}?size=64"))
