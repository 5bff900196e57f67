"""Names of classes: ImageNet's, from whichever installed package has them, or those a user gives."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ..core.compat import import_torchvision
from ..core.errors import InputError, MissingExtraError

IMAGENET_CLASSES = 1000


@cache
def imagenet_names() -> tuple[str, ...] | None:
    """The 1000 class names in the usual order; None where neither timm nor torchvision is installed."""
    try:
        import_torchvision()
    except MissingExtraError:
        return None
    try:
        from timm.data import ImageNetInfo
    except ImportError:
        from torchvision.models import ResNet50_Weights

        return tuple(ResNet50_Weights.IMAGENET1K_V1.meta["categories"])
    info = ImageNetInfo()
    return tuple(info.index_to_description(index) for index in range(IMAGENET_CLASSES))


def read_names(value: str) -> tuple[str, ...]:
    """Class names from a text file with one a line, or from a list separated by commas."""
    path = Path(value)
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else value.split(",")
    names = tuple(line.strip() for line in lines if line.strip())
    if len(names) < 2:
        raise InputError(
            f"classes={value!r} gives {len(names)} class name: pass a text file with one name a line, or "
            f"names separated by commas, at least two"
        )
    return names
