"""HEIC and AVIF pictures, which phones write: read where Pillow can, or with the extra `theodolite[heif]`."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from PIL import Image

HEIC = frozenset((".heic", ".heif", ".hif"))
AVIF = frozenset((".avif",))
MODERN = HEIC | AVIF
REMEDY = "pip install 'theodolite[heif]'"
# What stands at byte 4 of such a file, and the brands that follow it.
_BOX = b"ftyp"
_HEIC_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")
_AVIF_BRANDS = (b"avif", b"avis")


@cache
def readable() -> frozenset[str]:
    """The suffixes among `MODERN` that can be read here. Asking makes Pillow able to read them."""
    found = set(AVIF & set(Image.registered_extensions()))
    try:
        plugin = import_module("pillow_heif")
    except ImportError:
        return frozenset(found)
    plugin.register_heif_opener()
    if hasattr(plugin, "register_avif_opener") and not found:  # older ones, beside a Pillow that cannot
        plugin.register_avif_opener()
        found |= AVIF
    return frozenset(found | HEIC)


def modern_suffix(start: bytes) -> str | None:
    """The suffix that a file with this beginning should have; None where it is no HEIC or AVIF picture."""
    if start[4:8] != _BOX:
        return None
    if start[8:12] in _AVIF_BRANDS:
        return ".avif"
    return ".heic" if start[8:12] in _HEIC_BRANDS else None
