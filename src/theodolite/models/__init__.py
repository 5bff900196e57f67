"""Models by name: `load_model("timm:convnext_base.fb_in1k")`, with their own preprocessing and weights."""

from . import (
    huggingface,
    lite,
    oe,
    openclip,
    python_factory,
    scl,
    timm_source,
    torchvision_source,
)
from .aliases import ModelCard, list_models
from .base import LoadedModel, list_sources, load_model

__all__ = [
    "LoadedModel",
    "ModelCard",
    "huggingface",
    "list_models",
    "list_sources",
    "lite",
    "load_model",
    "oe",
    "openclip",
    "python_factory",
    "scl",
    "timm_source",
    "torchvision_source",
]
