"""`openclip:MODEL/TAG`: CLIP as a classifier, zero-shot from class names or with a linear probe.

Zero-shot, the head is the text embeddings of "a photo of a {class}." (``?prompt=`` changes it) for
``?classes=``, a text file or a comma-separated list; without it, ImageNet's. The logits are cosines, without
CLIP's temperature. ``?linear=probe.safetensors`` puts a linear layer on the image embedding instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ...core.compat import import_torchvision
from ...core.errors import InputError, MissingExtraError
from ...reference.head import Head
from ..checkpoint import probe_head
from ..class_names import read_names
from ..hub_cache import in_hub_cache
from ..preprocess import Pixels, Rgb
from ..registry import LoadedModel, Request, source

PROMPT = "a photo of a {class}."
_TEXT_BATCH = 256
# Where open_clip fetches these from, written here so that a look need not import it.
REPOSITORIES = {"ViT-H-14/laion2b_s32b_b79k": "laion/CLIP-ViT-H-14-laion2B-s32B-b79K"}


class ClipClassifier(nn.Module):
    """The image tower of CLIP and a head on its embedding: a cosine head or a linear probe."""

    def __init__(self, visual: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.visual = visual
        self.head = head

    def forward(self, images: Tensor) -> Tensor:
        embedding = self.visual(images)
        logits: Tensor = self.head(embedding[0] if isinstance(embedding, tuple) else embedding)
        return logits


def present(name: str) -> bool:
    """Whether the weights are a local folder, or in the hub's cache."""
    return Path(name).is_dir() or in_hub_cache(REPOSITORIES.get(name, name.removeprefix("hf-hub:")))


@source("openclip", options=("classes", "prompt", "linear"), present=present)
def load(request: Request) -> LoadedModel:
    import_torchvision("clip")
    try:
        import open_clip
    except ImportError as error:
        raise MissingExtraError("open_clip_torch", "clip") from error

    name, tag = _names(request.name, open_clip.list_models())
    if request.fetch and tag is None and ":" not in name:
        tags = ", ".join(open_clip.list_pretrained_tags_by_model(name)) or "none"
        raise InputError(f"{request.spec} names no weights: write openclip:{name}/TAG with one of: {tags}")
    with request.fetching(", put the folder of the model in place of its name"):
        clip, _, preprocess = open_clip.create_model_and_transforms(
            name,
            pretrained=tag if request.fetch else None,
            load_weights=request.fetch,
            force_image_size=request.size,
        )
        tokenizer = open_clip.get_tokenizer(name)
    request.fill(clip)
    clip.eval()
    names: tuple[str, ...] | None = None
    if "linear" in request.options:
        head: nn.Module = _probe(Path(request.options["linear"]))
        if "classes" in request.options:
            names = read_names(request.options["classes"])
    else:
        given = request.options.get("classes")
        names = open_clip.IMAGENET_CLASSNAMES if given is None else read_names(given)
        head = Head.cosine(_embed(clip, tokenizer, tuple(names), request.options.get("prompt", PROMPT)))
    size = clip.visual.image_size
    height, width = size if isinstance(size, tuple | list) else (size, size)
    return LoadedModel(
        spec=request.spec,
        model=ClipClassifier(clip.visual, head),
        preprocess=Rgb(preprocess),
        preprocess_id="open_clip " + " ".join(re.sub(r" at 0x[0-9a-f]+", "", repr(preprocess)).split()),
        input_shape=(3, height, width),
        layer="head" if "linear" in request.options else None,
        class_names=None if names is None else tuple(names),
        pixels=_pixels(clip.visual.preprocess_cfg, height, width),
    )


def _pixels(config: Mapping[str, Any], height: int, width: int) -> Pixels | None:
    """open_clip's preprocessing in numbers; None where a picture is put into a frame."""
    resize = {"shortest": height, "squash": None}
    if height != width or config["resize_mode"] not in resize:
        return None
    return Pixels(
        size=height,
        resize=resize[config["resize_mode"]],
        mean=tuple(config["mean"]),
        std=tuple(config["std"]),
        interpolation=config["interpolation"],
    )


def _names(name: str, known: list[str]) -> tuple[str, str | None]:
    """Model and tag of `MODEL/TAG`; a local folder and `hf-hub:…` name both at once."""
    if Path(name).is_dir():
        return f"local-dir:{name}", None
    if ":" in name:
        return name, None
    model, _, tag = name.partition("/")
    if model not in known:
        raise InputError(
            f"open_clip has no model called {model!r}, and no folder of that name exists: "
            f"open_clip.list_models() names them, for example ViT-B-32"
        )
    return model, tag or None


def _embed(clip: nn.Module, tokenizer: Any, names: tuple[str, ...], prompt: str) -> Tensor:
    """Text embeddings (C, D) of the prompts, a few at a time."""
    if "{class}" not in prompt:
        raise InputError(f"prompt must contain {{class}}, got {prompt!r}")
    texts = [prompt.replace("{class}", name) for name in names]
    encode: Any = clip.encode_text
    with torch.no_grad():
        parts = [
            encode(tokenizer(texts[start : start + _TEXT_BATCH]))
            for start in range(0, len(texts), _TEXT_BATCH)
        ]
    return torch.cat(parts)


def _probe(path: Path) -> nn.Module:
    """A linear layer; a cosine head as what it is."""
    head = probe_head(path)
    if head.unit_features:
        return head
    probe = nn.Linear(head.width, head.classes)
    probe.load_state_dict({"weight": head.weight, "bias": head.bias})
    return probe
