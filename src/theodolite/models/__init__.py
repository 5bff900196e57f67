"""Models by name: `load_model("timm:convnext_base.fb_in1k")`, with their own preprocessing and weights."""

from . import sources
from .cards import ModelCard, find_backbone, list_models
from .registry import LoadedModel, Request, list_sources, load_model, source, weights_present

__all__ = [
    "LoadedModel",
    "ModelCard",
    "Request",
    "find_backbone",
    "list_models",
    "list_sources",
    "load_model",
    "source",
    "sources",
    "weights_present",
]
