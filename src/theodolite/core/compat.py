"""One door to torchvision, also where its binary part cannot load.

The torchvision wheel on PyPI is built for CUDA. Beside a CPU-only torch its compiled operators do not load,
and the import then fails at the first mention of one of them: "operator torchvision::nms does not exist".
Nothing here detects boxes, so it is enough that the two operators have a name; models, transforms and data
sets are plain Python. timm and open_clip import torchvision, hence come through this door as well.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

import torch

from .errors import MissingExtraError

_SCHEMA = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
_OPERATORS = ("nms", "qnms")
# A torch.library.Library takes its definitions back when it is collected: this list keeps them.
_definitions: list[torch.library.Library] = []


def import_module(name: str) -> ModuleType:
    """A module of somebody else's, which may want torchvision."""
    try:
        return importlib.import_module(name)
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
    _forget("torchvision")
    import_torchvision()
    return importlib.import_module(name)


def import_torchvision(extra: str = "vision") -> ModuleType:
    """torchvision, imported; where it is not installed, the error names the ``extra`` that brings it."""
    try:
        return importlib.import_module("torchvision")
    except ModuleNotFoundError as error:
        raise MissingExtraError(error.name or "torchvision", extra) from error
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
    _forget("torchvision")
    _define_operators()
    return importlib.import_module("torchvision")


def _forget(package: str) -> None:
    """Drop what a failed import left behind, so that the next one starts afresh."""
    for name in [name for name in sys.modules if name == package or name.startswith(package + ".")]:
        del sys.modules[name]


def _define_operators() -> None:
    library = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
    for name in _OPERATORS:
        if not hasattr(torch.ops.torchvision, name):
            library.define(name + _SCHEMA)  # type: ignore[no-untyped-call]
    _definitions.append(library)
