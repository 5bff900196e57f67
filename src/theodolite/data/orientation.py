"""EXIF orientation: which way up a picture is meant to be seen.

Cameras store what the sensor saw, and note how it was held. Whoever shows the picture turns it; so does the
preparation of pictures for a model, unless it is to be as it was in version 0.1.0.
"""

from __future__ import annotations

from PIL import Image

_TAG = 0x0112
_UPRIGHT = 1
# From the tag's value to what makes the picture upright.
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def orientation(image: Image.Image) -> int:
    """The EXIF orientation of a picture, 2 to 8; 1 where it is upright as stored, or nothing is said."""
    if image.format == "TIFF":  # turned by Pillow when it is read, of which old versions keep the tag
        return _UPRIGHT
    try:
        value = image.getexif().get(_TAG, _UPRIGHT)
    # What is said about a picture may be damaged where the picture is not, and then raises almost anything.
    except Exception:
        return _UPRIGHT
    return value if value in _TURNS else _UPRIGHT


def keep_orientation(made: Image.Image, original: Image.Image) -> Image.Image:
    """A picture made from another one's pixels, with its orientation."""
    value = orientation(original)
    if value != orientation(made):
        made.getexif()[_TAG] = value
    return made


def upright(image: Image.Image) -> Image.Image:
    """The picture as it is meant to be seen; one that says nothing is returned as it is."""
    turn = _TURNS.get(orientation(image))
    if turn is None:
        return image
    turned = image.transpose(turn)
    turned.info = {}  # the tag among them: it must not be turned twice
    return turned
