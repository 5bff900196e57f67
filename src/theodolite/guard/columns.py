"""A column of a batch, as engines give them, as what a guard takes: features, pictures, texts, or images.

Engines hand over one array where all rows have one shape, and an array of objects, a list or a pandas Series
where they have not: rows of numbers, arrays of pixels, encoded pictures as bytes, or texts. A row may be
missing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor

from ..core.arrays import Array, as_float, as_tensor, require_floats, require_unmasked
from ..core.errors import InputError, UnreadableImageError
from ..data.sample import as_picture, decode_image, from_array
from ..data.texts import require_text

Column: TypeAlias = Array | Tensor | Sequence[object]
_BYTES = (bytes, bytearray, memoryview)
_FLOATS = (torch.float16, torch.float32, torch.float64)


class Rows(NamedTuple):
    """What the rows hold that are ``good`` (N,): features (n, D), images (n, 3, H, W), pictures or texts."""

    content: Array | list[Image.Image] | list[str]
    good: npt.NDArray[np.bool_]


def rows_of(values: Column, column: str, *, bad_is_error: bool) -> Rows:
    """What a column holds. Rows that are missing or empty, and pictures that cannot be read, are not good."""
    opened = _opened(values, column)
    if len(opened) == 0:
        return Rows([], np.zeros(0, np.bool_))
    if isinstance(opened, np.ndarray):
        return _of_one_array(opened, column)
    listed = [None if _missing(row) else row for row in opened]
    kind = next((_kind(row) for row in listed if row is not None), None)
    good = np.array([row is not None for row in listed])
    if bad_is_error and not good.all():
        raise InputError(f"{_called(column, int(good.argmin()))} is missing: leave such rows out")
    if kind is None:
        return Rows([], good)
    if kind == "numbers":
        return Rows(_features(listed, column), good)
    if kind == "text":
        return _each(listed, good, _text, column, bad_is_error=bad_is_error)
    return _each(listed, good, _picture, column, bad_is_error=bad_is_error)


def _each(
    rows: Sequence[object],
    good: npt.NDArray[np.bool_],
    read: Callable[[object, str], Any],
    column: str,
    *,
    bad_is_error: bool,
) -> Rows:
    """Rows that are read one by one; those that cannot be are an error, or not good."""
    content = []
    for place, row in enumerate(rows):
        if row is None:
            continue
        try:
            content.append(read(row, _called(column, place)))
        except UnreadableImageError:
            if bad_is_error:
                raise
            good[place] = False
    return Rows(content, good)


def _opened(values: Any, column: str) -> Array | list[object]:
    """A column as one array, or as its rows where each is an object of its own."""
    if isinstance(values, Tensor):
        return _of_tensor(values, column)
    if not isinstance(values, np.ndarray) and hasattr(values, "to_numpy"):
        values = values.to_numpy()
    if isinstance(values, np.ndarray):
        if values.dtype.kind == "U" and values.ndim == 1:
            return [str(text) for text in values]
        if values.ndim == 0 or values.dtype.kind in "SUV":
            raise InputError(
                f"column {column!r} is an array of dtype {values.dtype}, expected numbers, or objects: NumPy "
                f"cuts bytes at their last zero, so give encoded pictures as a list, or with dtype=object"
            )
        if values.dtype == object:  # as a list, rows that are masked are None
            return list(values.tolist()) if values.ndim == 1 else list(values)
        require_unmasked(values, column)
        return values
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise InputError(
            f"column {column!r} is a {type(values).__name__}, expected an array or a list with a row a sample"
        )
    return list(values)


def _of_tensor(values: Tensor, name: str) -> Array:
    """A tensor as an array; floats that NumPy has not, bfloat16, in those that hold them all."""
    tensor = as_tensor(values, name)
    if tensor.is_floating_point() and tensor.dtype not in _FLOATS:
        tensor = as_float(tensor)
    try:
        return tensor.numpy(force=True)
    except (TypeError, RuntimeError) as error:  # quantised numbers, halves of complex ones
        raise InputError(f"{name} is a tensor of dtype {tensor.dtype}, expected numbers: {error}") from error


def _of_one_array(array: Array, column: str) -> Rows:
    good = np.ones(len(array), np.bool_)
    pixels = array.dtype == np.uint8 and array.ndim in (3, 4)
    if pixels:
        named = ((row, _called(column, place)) for place, row in enumerate(array))
        return Rows([as_picture(from_array(row, name)) for row, name in named], good)
    if array.ndim not in (2, 4):
        raise InputError(
            f"column {column!r} has shape {array.shape} and dtype {array.dtype}, expected features (N, D), "
            f"pictures (N, height, width, channels) of uint8, or prepared images (N, 3, H, W)"
        )
    return Rows(array, good)


def _missing(row: object) -> bool:
    """None, or what pandas puts in its place."""
    return row is None or (isinstance(row, float) and math.isnan(row)) or type(row).__name__ == "NAType"


def _kind(row: object) -> str:
    if isinstance(row, str):
        return "text"
    if isinstance(row, (*_BYTES, Image.Image)):
        return "picture"
    return "picture" if isinstance(row, np.ndarray) and row.ndim > 1 else "numbers"


def _text(row: object, name: str) -> str:
    if not isinstance(row, str):
        raise InputError(f"{name} is a {type(row).__name__}, expected a text (str) as in rows before it")
    return require_text(row, name)


def _picture(row: object, name: str) -> Image.Image:
    if isinstance(row, _BYTES):
        return decode_image(bytes(row), name)
    if isinstance(row, Image.Image):
        return row
    if isinstance(row, np.ndarray) and row.dtype == np.uint8:
        with _naming(name):
            require_unmasked(row, "pixels")
        return as_picture(from_array(row, name))
    kind = f"an array of {row.dtype}" if isinstance(row, np.ndarray) else f"a {type(row).__name__}"
    raise InputError(f"{name} is {kind}, expected a picture: bytes of its file, uint8 pixels or a PIL image")


def _features(rows: Sequence[object], column: str) -> Array:
    """Rows of numbers as one array; all must be floats, and as wide as the first."""
    numbers: list[Array] = []
    sound: set[np.dtype[np.generic]] = set()
    for place, row in enumerate(rows):
        if row is None:
            continue
        if type(row) is np.ndarray and row.dtype in sound and row.ndim == 1:
            values = row
        else:
            with _naming(_called(column, place)):
                values = _row(row, column)
            sound.add(values.dtype)
        if numbers and len(values) != len(numbers[0]):
            name, width = _called(column, place), len(numbers[0])
            raise InputError(f"{name} has {len(values)} numbers, but rows before it have {width}")
        numbers.append(values)
    return np.stack(numbers)


def _row(row: Any, column: str) -> Array:
    """One row, held to what a whole array is held to: stacked with others, integers would pass for floats."""
    if isinstance(row, np.ndarray):
        require_unmasked(row, column)
    listed = not isinstance(row, np.ndarray | Tensor) or row.dtype == object
    values = _numbers(row) if listed else row
    if listed and values.ndim == 1 and values.dtype == np.float64:  # ours, and plain
        return values
    if values.ndim != 1:
        shape = tuple(values.shape)
        raise InputError(f"it has shape {shape} and dtype {values.dtype}, expected a row of numbers")
    values = as_tensor(values, column)
    require_floats(values, column)
    return _of_tensor(values, column)


def _numbers(row: Any) -> Array:
    """A list does not tell 1 from 1.0, and may have None for NaN; an array of integers means them."""
    try:
        values = np.asarray(row)
        kind = values.dtype.kind
        if kind in "OSU" and any(isinstance(value, str | bytes) for value in values.ravel().tolist()):
            raise TypeError("it holds text")
        return values.astype(np.float64) if kind in "Oiu" else values
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"it is no row of numbers: {error}") from error


@contextmanager
def _naming(name: str) -> Iterator[None]:
    """Within, what is refused is refused as this row."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{name}: {error}") from error


def _called(column: str, place: int) -> str:
    return f"row {place} of column {column!r}"
