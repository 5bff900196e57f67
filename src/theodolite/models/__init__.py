"""Models by name: `load_model("timm:convnext_base.fb_in1k")`, with their own preprocessing and weights."""

# Importing a source enters it in the registry; the library behind it is imported when a model is loaded.
from . import (  # noqa: F401
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

__all__ = ["LoadedModel", "ModelCard", "list_models", "list_sources", "load_model"]
