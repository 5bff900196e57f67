"""CLIP as a classifier: zero-shot with a cosine head, and a linear probe, on a tiny random CLIP."""

import json
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from theodolite.core.compat import import_torchvision
from theodolite.core.errors import InputError, ModelError, TheodoliteWarning
from theodolite.features.capture import Capture
from theodolite.features.linear_probe import save_probe
from theodolite.models import load_model
from theodolite.reference.head import Head

import_torchvision()
import open_clip  # noqa: E402  (after the door to torchvision is open)

CONFIG = {
    "model_cfg": {
        "embed_dim": 16,
        "vision_cfg": {"image_size": 32, "layers": 1, "width": 64, "patch_size": 16, "head_width": 32},
        "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1},
    },
    "preprocess_cfg": {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]},
}
IMAGES = torch.randn(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "open_clip_config.json").write_text(json.dumps(CONFIG))
    torch.manual_seed(0)
    clip = open_clip.create_model(f"local-dir:{tmp_path}", load_weights=False)
    save_file(
        {key: value.clone() for key, value in clip.state_dict().items()},
        tmp_path / "open_clip_model.safetensors",
    )
    return tmp_path


def test_zero_shot_is_the_cosine_with_the_prompts(folder: Path) -> None:
    loaded = load_model(f"openclip:{folder}?classes=cat,dog,sea lion")
    assert loaded.class_names == ("cat", "dog", "sea lion")
    assert loaded.input_shape == (3, 32, 32)
    assert " at 0x" not in loaded.preprocess_id
    capture = Capture(loaded.model, loaded.layer)
    features, logits = capture(IMAGES)
    assert capture.layer == ""
    assert features.shape == (3, 16)
    assert torch.allclose(capture.head(features), logits, atol=1e-6)

    clip = open_clip.create_model(f"local-dir:{folder}").eval()
    prompts = [f"a photo of a {name}." for name in ("cat", "dog", "sea lion")]
    with torch.no_grad():
        text = clip.encode_text(open_clip.tokenize(prompts), normalize=True)
        image = clip.encode_image(IMAGES, normalize=True)
    assert torch.allclose(logits, image @ text.T, atol=1e-5)
    assert loaded.preprocess(Image.new("RGB", (50, 40))).shape == (3, 32, 32)


def test_spec_and_digest_are_stable(folder: Path) -> None:
    one = load_model(f"openclip:{folder}", classes="cat,dog", prompt="art of {class}")
    two = load_model(one.spec)
    assert one.spec == two.spec
    assert one.digest == two.digest
    assert one.preprocess_id == two.preprocess_id
    assert load_model(f"openclip:{folder}?classes=cat,cow").digest != one.digest


def test_class_names_from_a_file_and_from_imagenet(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("ant\n\nbee\n")
    assert load_model(f"openclip:{folder}", classes=tmp_path / "names.txt").class_names == ("ant", "bee")
    default = load_model(f"openclip:{folder}").class_names
    assert default is not None
    assert len(default) == 1000


def test_linear_probe(folder: Path, tmp_path: Path) -> None:
    probe = torch.nn.Linear(16, 5)
    save_file(dict(probe.state_dict()), tmp_path / "probe.safetensors")
    loaded = load_model(f"openclip:{folder}", linear=tmp_path / "probe.safetensors")
    capture = Capture(loaded.model)
    features, logits = capture(IMAGES)
    assert capture.layer == loaded.layer == "head"
    assert not capture.head.unit_features
    assert torch.allclose(probe(features), logits, atol=1e-5)


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        ("openclip:ViT-B-32", InputError, "write openclip:ViT-B-32/TAG with one of: openai"),
        ("openclip:ViT-Q-7", InputError, "no model called 'ViT-Q-7'"),
        ("openclip:ViT-B-32/laion2b_s34b_b79k", ModelError, "could not be fetched"),
    ],
)
def test_names(spec: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        load_model(spec)
    assert "\n" not in str(caught.value)


def test_prompt_and_classes_are_checked(folder: Path) -> None:
    with pytest.raises(InputError, match="prompt must contain"):
        load_model(f"openclip:{folder}", classes="cat,dog", prompt="a photo")
    with pytest.raises(InputError, match="at least two"):
        load_model(f"openclip:{folder}?classes=cat")


def test_a_probe_of_another_models_features_is_told(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe = tmp_path / "probe.safetensors"
    save_probe(
        Head(torch.randn(5, 16, generator=torch.Generator().manual_seed(1))), probe, model="openclip:b"
    )
    with pytest.warns(TheodoliteWarning, match=rf"of openclip:b, and is put on those of openclip:{folder}"):
        load_model(f"openclip:{folder}", linear=probe)
    save_probe(Head.cosine(torch.eye(16)[:5]), probe, more={"templates": ["a {}"]})
    with pytest.raises(ModelError, match=r"holds embedded words .*, no head"):
        load_model(f"openclip:{folder}", linear=probe)
    save_probe(Head(torch.eye(16)[:5]), probe, model=f"openclip:{folder}")
    monkeypatch.chdir(folder.parent)
    load_model(f"openclip:{folder.name}", linear=probe)  # the same folder; a warning would be an error


def test_a_probe_that_is_a_cosine_head_stays_one(folder: Path, tmp_path: Path) -> None:
    head = Head.cosine(torch.randn(5, 16, generator=torch.Generator().manual_seed(1)))
    save_probe(head, tmp_path / "probe.safetensors")
    loaded = load_model(f"openclip:{folder}", linear=tmp_path / "probe.safetensors")
    capture = Capture(loaded.model, loaded.layer)
    features, logits = capture(IMAGES)
    assert capture.head.unit_features
    assert torch.allclose(logits, torch.nn.functional.normalize(features) @ head.weight.T, atol=1e-6)
