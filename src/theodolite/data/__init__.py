"""Pictures from wherever they are: folders, lists, arrays, idx, CIFAR, torch and Hugging Face data sets."""

from .opening import open_source
from .sample import ImageSource, Sample, as_picture

__all__ = ["ImageSource", "Sample", "as_picture", "open_source"]
