"""The paper's backbones by short names: which checkpoint, how wide, how large, how accurate. Plain data."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.errors import InputError

IMAGENET, CIFAR10 = "ImageNet", "CIFAR-10"


@dataclass(frozen=True)
class ModelCard:
    """One backbone. ``accuracy`` is the ID accuracy the paper reports, in per cent.

    ``data`` is what its classes are of; ``published`` is its name in the paper's tables, where it is not the
    alias.
    """

    alias: str
    spec: str
    width: int
    input_size: int
    accuracy: float | None = None
    note: str = ""
    data: str = IMAGENET
    published: str | None = None

    @property
    def backbone(self) -> str:
        """The name under which published tables know it."""
        return self.published or self.alias


CARDS = (
    ModelCard("resnet50", "torchvision:resnet50/IMAGENET1K_V1", 2048, 224, 76.12),
    ModelCard("resnet50-scl", "scl:resnet50-supcon", 2048, 224, 77.31),
    ModelCard("resnet18-cifar10", "scl:resnet18", 512, 32, data=CIFAR10, published="resnet18"),
    ModelCard("resnet18-scl", "scl:resnet18-supcon", 512, 32, 94.6, data=CIFAR10),
    ModelCard("convnext", "timm:convnext_base.fb_in1k", 1024, 224, 84.84),
    ModelCard("convnext-pre", "timm:convnext_base.fb_in22k_ft_in1k", 1024, 224, 85.49),
    ModelCard("swin", "timm:swinv2_base_window16_256.ms_in1k", 1024, 256, 84.49),
    ModelCard("swin-pre", "timm:swinv2_base_window12to16_192to256.ms_in22k_ft_in1k", 1024, 256, 85.73),
    ModelCard("deit", "timm:deit3_base_patch16_224.fb_in1k", 768, 224, 83.13),
    ModelCard("deit-pre", "timm:deit3_base_patch16_224.fb_in22k_ft_in1k", 768, 224, 84.79),
    ModelCard("eva", "timm:eva02_base_patch14_448.mim_in22k_ft_in1k", 768, 448, 87.88),
    ModelCard("vit-b16", "timm:vit_base_patch16_384.orig_in21k_ft_in1k", 768, 384),
    ModelCard("mobilenetv2", "torchvision:mobilenet_v2/IMAGENET1K_V1", 1280, 224),
    ModelCard("densenet", "timm:densenet121.ra_in1k", 1024, 224),
    ModelCard("clip-h14", "openclip:ViT-H-14/laion2b_s32b_b79k", 1024, 224, None, "zero-shot"),
    ModelCard(
        "clip-h14-dfn",
        "openclip:hf-hub:apple/DFN5B-CLIP-ViT-H-14-384",
        1024,
        378,
        None,
        "zero-shot, the released code's",
    ),
    ModelCard("lite0", "lite:efficientnet-lite0", 1280, 224, None, "offline; not in the paper"),
)
_BY_ALIAS = {card.alias: card for card in CARDS}


def list_models() -> list[ModelCard]:
    """The paper's backbones, and the one that needs no download."""
    return list(CARDS)


def find_backbone(name: str) -> ModelCard | None:
    """The card of a backbone by its name in published tables."""
    return next((card for card in CARDS if card.backbone == name), None)


def resolve(spec: str) -> str:
    """The spec behind an alias; a spec stays itself."""
    alias, question, query = spec.partition("?")
    if alias.lower() == "resnet18":
        raise InputError(
            "resnet18 may be either of two networks: resnet18-cifar10, the paper's for the 32×32 pictures of "
            "CIFAR-10, or torchvision:resnet18, the one for ImageNet. Name the one you mean"
        )
    card = _BY_ALIAS.get(alias.lower())
    return spec if card is None else card.spec + question + query
