"""Preprocessing by options of the spec: ``?size=64&crop=0.9&mean=0.5&std=0.25&interpolation=bicubic``.

They hold for every source, and replace what the source would do in these parts alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from ..core.errors import InputError
from .preprocess import INTERPOLATIONS, Pixels

PREPROCESS_OPTIONS = ("size", "crop", "mean", "std", "interpolation")
_NO_CROP = "none"
# Above it, a mean or deviation is of pixels from 0 to 255.
_LARGEST = 2.0
_WITHOUT_OWN = ("size", "mean", "std")


def tidy(option: str, value: str) -> str:
    """The one spelling of an option's value: ``.50, .5`` is ``0.5,0.5``."""
    if option not in PREPROCESS_OPTIONS:
        return value
    return ",".join(_tidy_part(part.strip()) for part in value.split(","))


def changed(own: Pixels | None, options: Mapping[str, str], spec: str) -> Pixels:
    """A model's ``own`` preprocessing with the options in place; None where it is not known in parts."""
    if own is None:
        missing = [option for option in _WITHOUT_OWN if option not in options]
        if missing:
            raise InputError(
                f"{spec}: the model brings a preprocessing that can only be replaced as a whole: "
                f"give {', '.join(missing)} as well (and crop and interpolation, unless the whole picture is "
                f"squeezed into the square, bilinear)"
            )
        channels = max(len(numbers(options, option, spec)) for option in ("mean", "std"))
        own = Pixels(size=1, mean=(0.0,) * channels, std=(1.0,) * channels)
    channels = len(own.mean)
    size = whole(options, "size", spec) if "size" in options else own.size
    return replace(
        own,
        size=size,
        resize=_resize(own, size, options, spec),
        mean=_each(options, "mean", own.mean, channels, spec),
        std=_each(options, "std", own.std, channels, spec),
        interpolation=_interpolation(options, spec) if "interpolation" in options else own.interpolation,
    )


def whole(options: Mapping[str, str], option: str, spec: str) -> int:
    """An option that is a whole number above 0."""
    value = options[option]
    if not (value.isdecimal() and value.isascii() and int(value)):
        raise InputError(f"{spec}: option {option} must be a whole number above 0, got {value!r}")
    return int(value)


def numbers(options: Mapping[str, str], option: str, spec: str) -> tuple[float, ...]:
    """The mean or deviation of one or three channels, of pixels from 0 to 1."""
    value = options[option]
    try:
        found = tuple(float(part) for part in value.split(","))
    except ValueError:
        found = ()
    if len(found) not in (1, 3) or not all(math.isfinite(number) for number in found):
        raise InputError(
            f"{spec}: option {option} must be one number, or three such as 0.485,0.456,0.406; got {value!r}"
        )
    if any(abs(number) > _LARGEST for number in found):
        raise InputError(
            f"{spec}: {option}={value} is of pixels from 0 to 255; here they go from 0 to 1: divide by 255"
        )
    if option == "std" and min(found) <= 0:
        raise InputError(f"{spec}: option std must be above 0, got {value!r}")
    return found


def _each(
    options: Mapping[str, str], option: str, own: tuple[float, ...], channels: int, spec: str
) -> tuple[float, ...]:
    """A number a channel; one alone is that of every channel."""
    if option not in options:
        return own
    found = numbers(options, option, spec)
    if len(found) > channels:
        raise InputError(f"{spec}: option {option} has {len(found)} numbers, but the model takes grey images")
    return found * channels if len(found) == 1 else found


def _resize(own: Pixels, size: int, options: Mapping[str, str], spec: str) -> int | None:
    """The shorter side before the crop: the same share of it is shown, unless ``crop`` names another."""
    value = options.get("crop")
    if value is None:
        return None if own.resize is None else own.resize * size // own.size
    if value == _NO_CROP:
        return None
    try:
        share = float(value)
    except ValueError:
        share = math.nan
    if not 0 < share <= 1:
        raise InputError(
            f"{spec}: option crop must be the share of the shorter side that is shown, above 0 and at most "
            f"1, or {_NO_CROP} to squeeze the whole picture into the square; got {value!r}"
        )
    return math.floor(size / share)


def _interpolation(options: Mapping[str, str], spec: str) -> str:
    value = options["interpolation"]
    if value not in INTERPOLATIONS:
        raise InputError(
            f"{spec}: option interpolation must be one of {', '.join(INTERPOLATIONS)}, got {value!r}"
        )
    return value


def _tidy_part(text: str) -> str:
    try:
        number = float(text)
    except ValueError:
        return text.lower()
    if not math.isfinite(number):
        return text
    return str(int(number)) if number.is_integer() and abs(number) < 2**53 else repr(number)
