"""Pictures that strangers send: few formats, and a look at the size before a pixel is decoded."""

from __future__ import annotations

import io
from functools import cache

from PIL import Image

from ..core.errors import UnreadableImageError
from ..data import heif
from ..data.sample import why_unreadable
from .judging import Judging, Prepared
from .refusal import Refusal

# Pillow opens some forty formats, one of them by running another program.
_FORMATS = ("AVIF", "BMP", "GIF", "HEIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")


@cache
def _formats() -> list[str]:
    """Those of the formats that can be read here."""
    heif.readable()
    Image.init()
    return [name for name in _FORMATS if name in Image.OPEN]


def prepared_picture(judging: Judging, content: bytes, name: str, pixels: int) -> Prepared:
    """A picture's bytes as an image for the model; refused with more pixels than that.

    Whatever else is wrong with it is an `UnreadableImageError`: of this picture alone.
    """
    try:
        if not content:
            raise UnreadableImageError("it is empty")
        with io.BytesIO(content) as file, Image.open(file, formats=_formats()) as picture:
            width, height = picture.size
            if width * height > pixels:
                raise _too_many(name, pixels)
            return judging.prepare(picture)
    except (Refusal, UnreadableImageError):
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise _too_many(name, pixels) from error
    except MemoryError as error:
        raise Refusal(503, f"there is no memory to decode {name}: try again later") from error
    # Decoders of broken files raise almost anything.
    except Exception as error:
        raise UnreadableImageError(why_unreadable(error)) from error


def _too_many(name: str, pixels: int) -> Refusal:
    return Refusal(413, f"{name} has more than the {pixels:,} pixels that are decoded here: send it smaller")
