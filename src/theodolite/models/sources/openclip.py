"""`openclip:MODEL/TAG`: CLIP as a classifier, zero-shot from class names or with a linear probe.

Zero-shot, the head is the text embeddings of "a photo of a {class}." (``?prompt=`` changes it, a file of
``?templates=`` is averaged over) for ``?classes=``, a text file or a comma-separated list; without it,
ImageNet's. ``?linear=probe.safetensors`` puts a linear layer on the image embedding instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from ...core.compat import import_torchvision
from ...core.errors import InputError, MissingExtraError
from ..hub_cache import in_hub_cache
from ..preprocess import Pixels, Rgb
from ..prompts import TextEncoder
from ..registry import LoadedModel, Preprocess, Request, source
from ..zero_shot import ZERO_SHOT_OPTIONS, ClipClassifier, head_and_names, layer_of

# Where open_clip fetches these from, written here so that a look need not import it.
REPOSITORIES = {"ViT-H-14/laion2b_s32b_b79k": "laion/CLIP-ViT-H-14-laion2B-s32B-b79K"}


def present(name: str) -> bool:
    """Whether the weights are a local folder, or in the hub's cache."""
    return Path(name).is_dir() or in_hub_cache(REPOSITORIES.get(name, name.removeprefix("hf-hub:")))


@dataclass(frozen=True)
class _Clip:
    """Both towers, and what goes before each."""

    model: nn.Module
    preprocess: Preprocess
    tokenizer: Any
    imagenet: tuple[str, ...]

    @property
    def text(self) -> TextEncoder:
        encode: Any = self.model.encode_text

        def embedded(texts: list[str]) -> Tensor:
            rows: Tensor = encode(self.tokenizer(texts))
            return rows

        limit = self.tokenizer.context_length
        return TextEncoder(embedded, _token_count(self.tokenizer), limit, self.imagenet)


def _open(request: Request) -> _Clip:
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
    return _Clip(clip, preprocess, tokenizer, tuple(open_clip.IMAGENET_CLASSNAMES))


def load_text(request: Request) -> TextEncoder:
    """The text tower of a model."""
    return _open(request).text


@source("openclip", options=ZERO_SHOT_OPTIONS, present=present, text=load_text)
def load(request: Request) -> LoadedModel:
    clip = _open(request)
    head, names = head_and_names(request, clip.text)
    visual: Any = clip.model.visual
    size = visual.image_size
    height, width = size if isinstance(size, tuple | list) else (size, size)
    return LoadedModel(
        spec=request.spec,
        model=ClipClassifier(visual, head),
        preprocess=Rgb(clip.preprocess),
        preprocess_id="open_clip " + " ".join(re.sub(r" at 0x[0-9a-f]+", "", repr(clip.preprocess)).split()),
        input_shape=(3, height, width),
        layer=layer_of(request),
        class_names=names,
        pixels=_pixels(visual.preprocess_cfg, height, width),
    )


def _token_count(tokenizer: Any) -> Callable[[str], int]:
    """How many tokens a text has: open_clip cuts a long one off without a word."""
    inner = getattr(tokenizer, "tokenizer", None)
    if inner is not None:
        return lambda text: len(inner(text)["input_ids"])
    return lambda text: len(tokenizer.encode(text)) + 2  # between a beginning and an end


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
