"""`hf:ORGANISATION/NAME`: an image classifier of transformers, from the hub, its cache or a local folder.

CLIP and SigLIP are classifiers of the names that ``?classes=`` gives, as in `sources.openclip`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn

from ...core.compat import import_torchvision
from ...core.errors import InputError, MissingExtraError, ModelError
from ..hub_cache import in_hub_cache
from ..preprocess import Pixels
from ..prompts import TextEncoder
from ..registry import LoadedModel, Request, source
from ..zero_shot import ZERO_SHOT_OPTIONS, layer_of
from .dual_encoder import DualEncoder, is_dual

FOLDER = ", put the folder of the model in place of its name"

# From this size on the processor of ConvNeXt shows the whole picture.
_CONVNEXT_WHOLE = 384


@dataclass(frozen=True)
class Processor:
    """One image through a transformers image processor."""

    processor: Callable[..., Any]

    def __call__(self, image: Image.Image) -> Tensor:
        pixels = self.processor(images=image.convert("RGB"), return_tensors="pt")["pixel_values"]
        return torch.as_tensor(pixels)[0]


def present(name: str) -> bool:
    """Whether the weights are a local folder, or in the hub's cache."""
    return Path(name).is_dir() or in_hub_cache(name)


def _opened(request: Request) -> tuple[Any, dict[str, str]]:
    """The configuration of a checkpoint, and what every loader of transformers is told."""
    import_torchvision("clip")
    try:
        from transformers import AutoConfig
    except ImportError as error:
        raise MissingExtraError("transformers", "clip") from error

    extra = {"revision": request.options["revision"]} if "revision" in request.options else {}
    with request.fetching(FOLDER):
        return AutoConfig.from_pretrained(request.name, **extra), extra


def load_text(request: Request) -> TextEncoder:
    """The text tower of CLIP or SigLIP."""
    config, extra = _opened(request)
    if not is_dual(config, request.options):
        raise InputError(f"{request.spec} is a {config.model_type}: it knows no texts, as CLIP and SigLIP do")
    with request.fetching(FOLDER):
        return DualEncoder.open(request, config, extra).text


@source("hf", options=("revision", *ZERO_SHOT_OPTIONS), present=present, text=load_text)
def load(request: Request) -> LoadedModel:
    config, extra = _opened(request)
    from transformers import AutoImageProcessor

    dual = is_dual(config, request.options)
    with request.fetching(FOLDER):
        processor = AutoImageProcessor.from_pretrained(request.name, **extra)
        model: nn.Module
        names: tuple[str, ...] | None
        if dual:
            model, names = DualEncoder.open(request, config, extra).classifier(request)
        else:
            model, names = _classifier(request, config, extra)
    preprocess = Processor(processor)
    # What the processor makes of a picture says more surely than its settings how large the input is.
    channels, height, width = preprocess(Image.new("RGB", (64, 48))).shape
    return LoadedModel(
        spec=request.spec,
        model=model,
        preprocess=preprocess,
        preprocess_id="transformers " + " ".join(processor.to_json_string().split()),
        input_shape=(channels, height, width),
        layer=layer_of(request),
        class_names=names,
        pixels=_pixels(processor, height, width),
    )


def _classifier(
    request: Request, config: Any, extra: dict[str, str]
) -> tuple[nn.Module, tuple[str, ...] | None]:
    """A checkpoint with a classifier of its own, and the names of its classes."""
    from transformers import AutoModelForImageClassification

    if request.fetch:
        model, report = AutoModelForImageClassification.from_pretrained(
            request.name, output_loading_info=True, **extra
        )
        _require_head(request, sorted(report["missing_keys"]))
    else:
        model = AutoModelForImageClassification.from_config(config)
    request.fill(model)
    return model, tuple(str(config.id2label[index]) for index in range(config.num_labels))


def _pixels(processor: Any, height: int, width: int) -> Pixels | None:
    """A processor's preprocessing in numbers, by its usual settings; None where it has others."""
    said = processor.to_dict()
    edge, share = (said.get("size") or {}).get("shortest_edge"), said.get("crop_pct")
    whole = edge is None or (share is not None and height >= _CONVNEXT_WHOLE)
    if not whole and share is None and not said.get("do_center_crop"):
        return None
    resize = None if whole else edge if share is None else math.floor(height / share)
    scaled = said.get("do_rescale") and said.get("rescale_factor") == 1 / 255
    if height != width or not (said.get("do_resize") and scaled):
        return None
    plain = not said.get("do_normalize")
    return Pixels(
        size=height,
        resize=resize,
        mean=(0.0, 0.0, 0.0) if plain else tuple(said["image_mean"]),
        std=(1.0, 1.0, 1.0) if plain else tuple(said["image_std"]),
        interpolation=Image.Resampling(int(said["resample"])).name.lower(),
    )


def _require_head(request: Request, missing: list[str]) -> None:
    """transformers fills what a checkpoint lacks with random numbers: a random head looks like any other."""
    if missing:
        raise ModelError(
            f"{request.spec} has no weights for {', '.join(missing[:4])}: it is an encoder without a trained "
            f"classifier. Name a checkpoint fine-tuned for classification, or pass one with --weights FILE"
        )
