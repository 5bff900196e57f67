"""Whether weights are on this machine: a source looks where its library keeps them, and fetches nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from theodolite.core.compat import import_torchvision
from theodolite.core.errors import InputError
from theodolite.models import ModelCard, list_models, weights_present
from theodolite.models.sources import openclip, torchvision


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One folder for all the caches, empty as yet."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setenv("THEODOLITE_WEIGHTS", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    return tmp_path


def put(folder: Path, *files: str) -> None:
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).touch()


def test_the_papers_backbones(here: Path) -> None:
    assert [card.alias for card in list_models() if weights_present(card.spec)] == ["lite0"]
    put(
        here,
        "hub/checkpoints/resnet50-0676ba61.pth",
        "CIFAR10_resnet18.pth.tar",
        "CIFAR10_resnet18_supcon.pth.tar",  # without its head
        "models--timm--convnext_base.fb_in1k/snapshots/abc/model.safetensors",
        "models--laion--CLIP-ViT-H-14-laion2B-s32B-b79K/snapshots/abc/open_clip_model.safetensors",
    )
    present = {card.alias for card in list_models() if weights_present(card.spec)}
    assert present == {"lite0", "resnet50", "resnet18-cifar10", "convnext", "clip-h14"}
    assert weights_present("convnext")
    put(here, "CIFAR10_resnet18_supcon_linear.pth")
    assert weights_present("resnet18-scl")


@pytest.mark.parametrize(
    ("spec", "file"),
    [
        ("torchvision:resnet50", "hub/checkpoints/resnet50-11ad3fa6.pth"),
        ("torchvision:resnet50/IMAGENET1K_V2", "hub/checkpoints/resnet50-11ad3fa6.pth"),
        ("timm:resnet18", "models--timm--resnet18.a1_in1k/snapshots/abc/model.safetensors"),
        ("timm:resnet18.a1_in1k", "models--timm--resnet18.a1_in1k/snapshots/abc/pytorch_model.bin"),
        ("timm:hf-hub:me/mine", "models--me--mine/snapshots/abc/model.safetensors"),
        ("openclip:hf-hub:me/mine", "models--me--mine/snapshots/abc/open_clip_model.safetensors"),
        ("hf:me/mine", "models--me--mine/snapshots/abc/model.safetensors"),
        ("hf:me/mine?revision=v2", "models--me--mine/snapshots/abc/model.safetensors"),
    ],
)
def test_models_without_a_card(here: Path, spec: str, file: str) -> None:
    put(here, "hub/checkpoints/other.pth", "models--me--other/snapshots/abc/model.safetensors")
    assert not weights_present(spec)
    put(here, file)
    assert weights_present(spec)


@pytest.mark.parametrize("prefix", ["timm", "openclip", "hf"])
def test_a_local_folder_is_here(here: Path, prefix: str) -> None:
    assert weights_present(f"{prefix}:{here}")
    assert not weights_present(f"{prefix}:{here}/none")


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    "spec",
    [
        "scl:resnet34",
        "torchvision:resnet5",
        "torchvision:resnet50/V9",
        "timm:resnet51",
        "lite:efficientnet-lite4",
    ],
)
def test_what_a_source_does_not_have_is_not_here(spec: str) -> None:
    assert not weights_present(spec)


def test_a_source_that_cannot_tell_says_no() -> None:
    assert not weights_present("oe:mnist")
    assert not weights_present("python:small_models:Tiny")


def test_a_card_of_an_unknown_source_is_an_error_of_ours() -> None:
    card = ModelCard("mine", "nowhere:mine", 4, 8)
    with pytest.raises(
        InputError, match=r"model 'nowhere:mine' is neither an alias.*sources: hf, hf-text, lite"
    ):
        weights_present(card.spec)


def test_released_weights_lie_in_the_users_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("THEODOLITE_WEIGHTS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert not weights_present("scl:resnet18")
    put(tmp_path, "theodolite/weights/CIFAR10_resnet18.pth.tar")
    assert weights_present("scl:resnet18")


def test_the_written_places_are_those_of_the_libraries() -> None:
    import_torchvision()
    import open_clip
    from torchvision.models import get_model_weights

    for name, file in torchvision.FILES.items():
        architecture, weights = name.split("/")
        assert get_model_weights(architecture)[weights].url.endswith("/" + file)
    for name, repository in openclip.REPOSITORIES.items():
        assert open_clip.get_pretrained_cfg(*name.split("/"))["hf_hub"].strip("/") == repository


def test_a_listing_imports_no_library_of_models() -> None:
    program = (
        "import sys\n"
        "from theodolite.models import list_models, weights_present\n"
        "[weights_present(card.spec) for card in list_models()]\n"
        "print({'timm', 'torchvision', 'open_clip', 'transformers'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
