"""Capture on the architectures people use, at random weights: head(features) = logits for every one."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from theodolite.core.compat import import_torchvision
from theodolite.features.capture import Capture

torchvision = import_torchvision()
import timm  # noqa: E402  (after the door to torchvision is open)
import transformers  # noqa: E402

# Name of the head, feature width, picture size, options.
Cases = dict[str, tuple[str, int, int, dict[str, Any]]]
# The paper's timm backbones with few blocks and small pictures: their stems, norms, pools and heads are
# whole.
TIMM: Cases = {
    "convnext_base": ("head.fc", 1024, 32, {"depths": (1, 1, 1, 1)}),
    "swinv2_base_window16_256": ("head.fc", 1024, 64, {"depths": (1, 1, 1, 1), "window_size": 2}),
    "swinv2_base_window12to16_192to256": ("head.fc", 1024, 64, {"depths": (1, 1, 1, 1), "window_size": 2}),
    "deit3_base_patch16_224": ("head", 768, 32, {"depth": 1}),
    "eva02_base_patch14_448": ("head", 768, 28, {"depth": 1}),
    "vit_base_patch16_384": ("head", 768, 32, {"depth": 1}),
    "densenet121": ("classifier", 1024, 32, {}),
    "resnet18": ("fc", 512, 32, {}),
    "mobilenetv3_small_050": ("classifier", 1024, 32, {}),
    "efficientnet_lite0": ("classifier", 1280, 32, {}),
    "convnextv2_atto": ("head.fc", 320, 32, {}),
    "regnetx_002": ("head.fc", 368, 32, {}),
}

TORCHVISION: Cases = {
    "resnet18": ("fc", 512, 32, {}),
    "resnet50": ("fc", 2048, 32, {}),
    "mobilenet_v2": ("classifier.1", 1280, 32, {}),
    "mobilenet_v3_small": ("classifier.3", 1024, 32, {}),
    "densenet121": ("classifier", 1024, 32, {}),
    "convnext_tiny": ("classifier.2", 768, 32, {}),
    "swin_t": ("head", 768, 32, {}),
    "swin_v2_t": ("head", 768, 32, {}),
    "efficientnet_b0": ("classifier.1", 1280, 32, {}),
}

TINY = {"num_labels": 7}
TRANSFORMERS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "ConvNext": ("classifier", 16, {"hidden_sizes": [8, 8, 8, 16], "depths": [1, 1, 1, 1]}),
    "Swin": ("classifier", 32, {"embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2], "window_size": 4}),
    "ViT": ("classifier", 16, {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}),
    "DeiT": ("classifier", 16, {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}),
    "ResNet": ("classifier.1", 16, {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]}),
}


def assert_captures(model: nn.Module, images: Tensor, layer: str, width: int) -> None:
    capture = Capture(model.eval())
    features, logits = capture(images)
    assert capture.layer == layer
    assert features.shape == (len(images), width)
    assert capture.head.width == width
    torch.testing.assert_close(capture.head(features), logits, rtol=1e-4, atol=1e-4)
    assert logits.std() > 0


@pytest.mark.parametrize("name", TIMM)
def test_timm(name: str) -> None:
    layer, width, size, options = TIMM[name]
    if name.startswith(("swin", "deit", "eva", "vit")):
        options = {**options, "img_size": size}
    torch.manual_seed(0)
    model = timm.create_model(name, pretrained=False, num_classes=11, **options)
    nn.init.normal_(model.get_classifier().weight)
    assert_captures(model, torch.randn(2, 3, size, size), layer, width)


@pytest.mark.parametrize("name", TORCHVISION)
def test_torchvision(name: str) -> None:
    layer, width, size, options = TORCHVISION[name]
    torch.manual_seed(0)
    model = torchvision.models.get_model(name, weights=None, num_classes=11, **options)
    assert_captures(model, torch.randn(2, 3, size, size), layer, width)


def test_torchvision_vision_transformer() -> None:
    model = torchvision.models.VisionTransformer(
        image_size=32, patch_size=16, num_layers=1, num_heads=2, hidden_dim=16, mlp_dim=32, num_classes=11
    )
    nn.init.normal_(model.heads.head.weight)
    assert_captures(model, torch.randn(2, 3, 32, 32), "heads.head", 16)


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_transformers(name: str) -> None:
    layer, width, options = TRANSFORMERS[name]
    torch.manual_seed(0)
    small = {"image_size": 32, "patch_size": 4 if name == "Swin" else 16, "intermediate_size": 32}
    if name in ("ConvNext", "ResNet"):
        small = {}
    config = getattr(transformers, f"{name}Config")(**TINY, **small, **options)
    model = getattr(transformers, f"{name}ForImageClassification")(config)
    assert_captures(model, torch.randn(2, 3, 32, 32), layer, width)


def test_two_headed_distilled_deit_is_refused() -> None:
    from theodolite.core.errors import CaptureError

    model = timm.create_model("deit_tiny_distilled_patch16_224", num_classes=11, img_size=32, depth=1)
    nn.init.normal_(model.head.weight)
    nn.init.normal_(model.head_dist.weight)
    with pytest.raises(CaptureError, match="2 heads with 11 outputs"):
        Capture(model)(torch.randn(2, 3, 32, 32))
