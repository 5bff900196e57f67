"""Where models come from, one file a source. Importing this package enters them all in the registry.

The library behind a source is imported when a model is loaded.
"""

from . import hf_text, lite, net, oe, openclip, python, scl, timm, torchvision, transformers

__all__ = [
    "hf_text",
    "lite",
    "net",
    "oe",
    "openclip",
    "python",
    "scl",
    "timm",
    "torchvision",
    "transformers",
]
