"""What happens to a fitted detector when its state is loaded, or moved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from ..core.errors import InputError

if TYPE_CHECKING:
    from ._base import Detector


def own_buffers(module: nn.Module, state: Mapping[str, Tensor], prefix: str, *_: Any) -> None:
    """Before a state is loaded into a module: buffers of its own, for they are filled in place.

    A bank of another precision is refused: it would be converted, and searched as if it had been fitted so.
    """
    own, given = module._buffers.get("bank"), state.get(f"{prefix}bank")
    if own is not None and given is not None and own.dtype != given.dtype:
        raise InputError(
            f"the state has a bank in {given.dtype}, the detector one in {own.dtype}: "
            f"load it into a detector with the same half_bank"
        )
    for part in module.modules():
        for name, buffer in part._buffers.items():
            part._buffers[name] = None if buffer is None else buffer.clone()


def rebuild(detector: Detector, *_: Any) -> None:
    """After buffers changed or moved: derive the tables anew."""
    if detector.width is not None:
        detector._build()
