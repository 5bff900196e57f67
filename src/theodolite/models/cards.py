"""The paper's backbones by short names: which checkpoint, how wide, how large, how accurate. Plain data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelCard:
    """One backbone. ``accuracy`` is the ID accuracy the paper reports, in per cent."""

    alias: str
    spec: str
    width: int
    input_size: int
    accuracy: float | None = None
    note: str = ""


CARDS = (
    ModelCard("resnet50", "torchvision:resnet50/IMAGENET1K_V1", 2048, 224, 76.12),
    ModelCard("resnet50-scl", "scl:resnet50-supcon", 2048, 224, 77.31),
    ModelCard("resnet18", "scl:resnet18", 512, 32, None, "CIFAR-10"),
    ModelCard("resnet18-scl", "scl:resnet18-supcon", 512, 32, 94.6, "CIFAR-10"),
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


def resolve(spec: str) -> str:
    """The spec behind an alias; a spec stays itself."""
    alias, question, query = spec.partition("?")
    card = _BY_ALIAS.get(alias.lower())
    return spec if card is None else card.spec + question + query
