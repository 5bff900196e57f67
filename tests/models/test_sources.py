"""Specs: parsing, options, digests, preprocessing of each source, and errors a person can act on."""

import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from model_checks import assert_works
from theodolite.cli.app import main
from theodolite.core.compat import import_torchvision
from theodolite.core.errors import InputError, MissingExtraError, ModelError
from theodolite.models import LoadedModel, load_model

import_torchvision()

# ---------------------------------------------------------------------- timm


def test_timm_brings_its_data_config() -> None:
    loaded = load_model("timm:resnet10t.c3_in1k", pretrained=False)
    assert loaded.spec == "timm:resnet10t.c3_in1k"
    assert loaded.input_shape == (3, 176, 176)
    assert '"crop_pct"' in loaded.preprocess_id
    assert loaded.class_names is not None
    assert loaded.class_names[0].startswith("tench")
    assert_works(loaded, 1000)


def test_timm_weights_and_number_of_classes(tmp_path: Path) -> None:
    first = load_model("timm:resnet10t?num_classes=5", pretrained=False)
    assert first.class_names is None
    save_file(first.model.state_dict(), tmp_path / "mine.safetensors")
    again = load_model("timm:resnet10t", num_classes=5, weights=tmp_path / "mine.safetensors")
    assert again.digest == first.digest
    assert again.spec == "timm:resnet10t?num_classes=5"
    assert load_model("timm:resnet10t?num_classes=5", pretrained=False).digest != first.digest
    assert_works(again, 5)


def test_timm_local_folder(tmp_path: Path) -> None:
    from timm.models import save_for_hf

    first = load_model("timm:resnet10t?num_classes=5", pretrained=False)
    save_for_hf(first.model, str(tmp_path), safe_serialization=True)
    assert load_model(f"timm:{tmp_path}").digest == first.digest


@pytest.mark.parametrize("spec", ["timm:resnet10t", "torchvision:resnet18", "scl:resnet18"])
def test_a_random_head_is_never_taken_for_a_trained_one(spec: str) -> None:
    with pytest.raises(InputError, match="no weights are given for it"):
        load_model(spec, num_classes=5)


def test_timm_unknown_name() -> None:
    with pytest.raises(InputError, match="no model called 'resnet51'; did you mean 'resnet"):
        load_model("timm:resnet51")


def test_timm_weights_out_of_reach() -> None:
    with pytest.raises(ModelError, match="could not be fetched") as caught:
        load_model("timm:resnet10t.c3_in1k")
    assert "--weights FILE" in str(caught.value)
    assert "\n" not in str(caught.value)


# ---------------------------------------------------------------------- torchvision


def test_torchvision_default_and_named_weights() -> None:
    from torchvision.models import get_model_weights

    loaded = load_model("torchvision:mobilenet_v3_small", pretrained=False)
    assert loaded.spec == "torchvision:mobilenet_v3_small/IMAGENET1K_V1"
    assert loaded.preprocess_id.startswith("torchvision ImageClassification( crop_size=[224]")
    assert get_model_weights("mobilenet_v3_small").DEFAULT.name == "IMAGENET1K_V1"
    assert_works(loaded, 1000)


def test_torchvision_number_of_classes() -> None:
    assert_works(load_model("torchvision:mobilenet_v3_small", pretrained=False, num_classes=4), 4)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("torchvision:resnet5", "did you mean"),
        ("torchvision:resnet50/V9", "it has: IMAGENET1K_V1, IMAGENET1K_V2"),
    ],
)
def test_torchvision_unknown(spec: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_model(spec)


def test_torchvision_weights_out_of_reach(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def unreachable(*_: object, **__: object) -> None:
        raise OSError("name or service not known")

    monkeypatch.setattr("torch.hub.download_url_to_file", unreachable)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    with pytest.raises(ModelError, match="could not be fetched"):
        load_model("torchvision:mobilenet_v3_small")


# ---------------------------------------------------------------------- transformers


def save_hf(folder: Path) -> nn.Module:
    from transformers import ConvNextConfig, ConvNextForImageClassification, ConvNextImageProcessor

    config = ConvNextConfig(
        num_labels=3,
        hidden_sizes=[8, 8, 8, 16],
        depths=[1, 1, 1, 1],
        id2label={0: "ant", 1: "bee", 2: "cow"},
        label2id={"ant": 0, "bee": 1, "cow": 2},
    )
    model = ConvNextForImageClassification(config)
    model.save_pretrained(folder)
    ConvNextImageProcessor(size={"shortest_edge": 48}).save_pretrained(folder)
    assert isinstance(model, nn.Module)
    return model


def test_transformers_local_folder(tmp_path: Path) -> None:
    model = save_hf(tmp_path)
    loaded = load_model(f"hf:{tmp_path}")
    assert loaded.class_names == ("ant", "bee", "cow")
    assert loaded.input_shape == (3, 48, 48)
    assert "shortest_edge" in loaded.preprocess_id
    assert torch.equal(
        loaded.model.state_dict()["classifier.weight"], model.state_dict()["classifier.weight"]
    )
    assert_works(loaded, 3)


def test_transformers_encoder_without_a_classifier(tmp_path: Path) -> None:
    from transformers import ConvNextConfig, ConvNextImageProcessor, ConvNextModel

    config = ConvNextConfig(hidden_sizes=[8, 8, 8, 16], depths=[1, 1, 1, 1])
    ConvNextModel(config).save_pretrained(tmp_path)
    ConvNextImageProcessor().save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=r"no weights for classifier\.bias, classifier\.weight"):
        load_model(f"hf:{tmp_path}")


def test_transformers_out_of_reach() -> None:
    with pytest.raises(ModelError, match="could not be fetched"):
        load_model("hf:microsoft/resnet-18")


# ---------------------------------------------------------------------- specs


@pytest.mark.parametrize("spec", ["nonsense", "what:ever", "timm:", ""])
def test_unknown_spec(spec: str) -> None:
    with pytest.raises(InputError, match="neither an alias"):
        load_model(spec)


def test_unknown_option() -> None:
    with pytest.raises(InputError, match="timm models take no option 'colour'; options: num_classes"):
        load_model("timm:resnet18?colour=red")


def test_missing_extra_is_one_line_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(MissingExtraError, match=r"timm is not installed: pip install 'theodolite\[vision\]'"):
        load_model("timm:resnet18")
    monkeypatch.setattr("theodolite.cli.app.app", lambda: load_model("timm:resnet18"))
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    assert "pip install 'theodolite[vision]'" in capsys.readouterr().err


def test_digest_sees_names_shapes_types_and_values() -> None:
    def digest(**buffers: torch.Tensor) -> str:
        model = nn.Module()
        for name, value in buffers.items():
            model.register_buffer(name, value)
        return LoadedModel("x", model, lambda _: torch.zeros(1), "", (1, 1, 1)).digest

    base = torch.arange(4.0)
    digests = {
        digest(a=base),
        digest(b=base),
        digest(a=base.reshape(2, 2)),
        digest(a=base.double()),
        digest(a=base + 1),
        digest(a=base.to(torch.bfloat16)),
        digest(a=torch.tensor(1.0)),
    }
    assert len(digests) == 7
    assert digest(a=base) == digest(a=base.clone())
