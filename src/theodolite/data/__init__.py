"""Pictures from wherever they are: folders, lists, arrays, idx, CIFAR, torch and Hugging Face data sets; and
texts: JSON lines, tables, lines, CLINC150."""

# Importing a format enters it in the registry; the kinds are listed in this order.
from . import files, lists, stacks, idx, cifar, parquet, texts, hugging_face, clinc150  # noqa: I001
from .formats import data_format, list_formats
from .opening import open_source
from .sample import ImageSource, Sample, as_picture

__all__ = [
    "ImageSource",
    "Sample",
    "as_picture",
    "cifar",
    "clinc150",
    "data_format",
    "files",
    "hugging_face",
    "idx",
    "list_formats",
    "lists",
    "open_source",
    "parquet",
    "stacks",
    "texts",
]
