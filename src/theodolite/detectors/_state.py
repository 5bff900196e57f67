"""What happens to a fitted detector when its state is loaded, or moved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import nn

if TYPE_CHECKING:
    from ._base import Detector


def own_buffers(module: nn.Module, *_: Any) -> None:
    """Before a state is loaded into a module: buffers of its own, for they are filled in place."""
    for part in module.modules():
        for name, buffer in part._buffers.items():
            part._buffers[name] = None if buffer is None else buffer.clone()


def rebuild(detector: Detector, *_: Any) -> None:
    """After buffers changed or moved: derive the tables anew."""
    if detector.width is not None:
        detector._build()
