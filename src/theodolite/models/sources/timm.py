"""`timm:NAME`: a model of the timm library, by name with tag, by `hf-hub:` id, or from a local folder."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...core.compat import import_torchvision
from ...core.errors import InputError, MissingExtraError, did_you_mean
from ..class_names import IMAGENET_CLASSES, imagenet_names
from ..hub_cache import in_hub_cache
from ..preprocess import Pixels, Rgb
from ..registry import LoadedModel, Request, source


def present(name: str) -> bool:
    """Whether the weights are a local folder, or in the hub's cache."""
    return Path(name).is_dir() or in_hub_cache(_repository(name))


@source("timm", options=("num_classes",), present=present)
def load(request: Request) -> LoadedModel:
    import_torchvision()
    try:
        import timm
        from timm.data import create_transform, resolve_data_config
    except ImportError as error:
        raise MissingExtraError("timm", "vision") from error

    name = f"local-dir:{request.name}" if Path(request.name).is_dir() else request.name
    if ":" not in name:
        _require_known(name, timm.list_models())
    classes = request.num_classes
    extra = {} if classes is None else {"num_classes": classes}
    with request.fetching(", put the folder of the model in place of its name"):
        model = timm.create_model(name, pretrained=request.fetch, **extra)
        if request.size is not None and model.pretrained_cfg.get("fixed_input_size"):
            model = timm.create_model(name, pretrained=request.fetch, img_size=request.size, **extra)
    request.fill(model)
    config = resolve_data_config({}, model=model)
    channels, height, width = config["input_size"]
    named = model.pretrained_cfg.get("label_names")
    if named is None and model.num_classes == IMAGENET_CLASSES:
        named = imagenet_names()
    return LoadedModel(
        spec=request.spec,
        model=model,
        preprocess=Rgb(create_transform(**config, is_training=False)),
        preprocess_id="timm " + json.dumps(config, sort_keys=True),
        input_shape=(channels, height, width),
        class_names=None if named is None or len(named) != model.num_classes else tuple(named),
        pixels=_pixels(config),
    )


def _pixels(config: Mapping[str, Any]) -> Pixels | None:
    """timm's preprocessing in numbers; None for a way of cropping that has no name here."""
    channels, height, width = config["input_size"]
    whole = config["crop_mode"] == "squash" and config["crop_pct"] == 1
    if channels not in (1, 3) or height != width or not (whole or config["crop_mode"] == "center"):
        return None
    return Pixels(
        size=height,
        resize=None if whole else math.floor(height / config["crop_pct"]),
        mean=tuple(config["mean"]),
        std=tuple(config["std"]),
        interpolation=config["interpolation"],
    )


def _repository(name: str) -> str:
    """Where timm fetches a model from; only for one without a tag is timm itself asked which it takes."""
    if ":" in name:
        return name.partition(":")[2]
    if "." in name:
        return f"timm/{name}"
    try:
        import_torchvision()
        import timm
    except ImportError:
        return name
    config = timm.get_pretrained_cfg(name)
    return str(getattr(config, "hf_hub_id", None) or name)


def _require_known(name: str, known: list[str]) -> None:
    architecture = name.split(".")[0]
    if architecture not in known:
        hint = did_you_mean(architecture, known)
        raise InputError(
            f"timm has no model called {architecture!r}{hint} Its names: timm.list_models('*convnext*')"
        )
