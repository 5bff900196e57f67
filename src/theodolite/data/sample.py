"""A sample, a source of samples, and the ways between pictures and tensors."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor

from ..core.errors import InputError, UnreadableImageError
from . import heif
from .bounds import LARGEST_LABEL
from .orientation import keep_orientation, orientation

Picture = Image.Image | Tensor
# What a source holds and a model takes; others may have words of their own.
PICTURES, TEXTS = "pictures", "texts"
# Modes with one byte a channel that every preprocessing understands.
_PLAIN = ("L", "RGB")
_DEEP = 256
_DEEPEST = _DEEP * _DEEP - 1


@dataclass(frozen=True)
class Sample:
    """One sample: a picture (a PIL image, or a (channels, height, width) float tensor in [0, 1]), a text, or
    whatever else a source holds and a model prepares."""

    content: object
    label: int | None
    id: str

    @property
    def image(self) -> Picture:
        """The picture; refused where it is none."""
        if not isinstance(self.content, Picture):
            raise InputError(f"{self.id} is a {type(self.content).__name__}, expected a picture")
        return self.content


@runtime_checkable
class ImageSource(Protocol):
    """Samples by index. `listing` gives one line a sample that changes when the sample does.

    One that holds no pictures says what it holds, as ``holds = "texts"`` (see `held_by`).
    """

    @property
    def class_names(self) -> tuple[str, ...] | None: ...

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Sample: ...

    def listing(self) -> Iterator[str]: ...


def held_by(source: ImageSource) -> str:
    """What a source holds: pictures, unless it says otherwise."""
    return str(getattr(source, "holds", PICTURES))


def line(identity: str, label: int | None, content: object) -> str:
    """One line of a listing."""
    return f"{identity}\t{'-' if label is None else label}\t{content}"


def fingerprint(content: bytes | memoryview) -> str:
    """Short digest of a picture's bytes."""
    return hashlib.blake2b(content, digest_size=12).hexdigest()


def labels_of(source: ImageSource) -> list[int | None]:
    """The labels of all samples, without their pictures where the source knows them otherwise."""
    quick = getattr(source, "labels_of_samples", None)
    if quick is not None:
        known: list[int | None] = quick()
        return known
    texts = (entry.rsplit("\t", 2)[1] for entry in source.listing())
    return [None if text == "-" else int(text) for text in texts]


def read_image(path: Path) -> Image.Image:
    """A decoded picture with one or three 8-bit channels, as stored: `upright` turns it."""

    def opened() -> BinaryIO:
        if path.suffix.lower() not in Image.EXTENSION:
            heif.readable()  # a worker process has yet to teach Pillow
        if path.stat().st_size == 0:
            raise UnreadableImageError.of(str(path), "the file is empty")
        # By its name Pillow would map an uncompressed TIFF, and mix up the pixels of one it has to turn.
        return path.open("rb")

    return _decoded(opened, str(path))


def decode_image(content: bytes, name: str) -> Image.Image:
    """The same of a file's content in memory, called ``name`` where it cannot be read."""

    def opened() -> BinaryIO:
        heif.readable()
        if not content:
            raise UnreadableImageError.of(name, "it is empty")
        return BytesIO(content)

    return _decoded(opened, name)


def _decoded(opened: Callable[[], BinaryIO], name: str) -> Image.Image:
    """Decoders of broken files raise almost anything; what matters is which file it was."""
    try:
        with opened() as file, Image.open(file) as image:
            return plain(image)
    except UnreadableImageError:
        raise
    except MemoryError:
        raise
    except Exception as error:
        raise UnreadableImageError.of(name, why_unreadable(error)) from error


def plain(image: Image.Image) -> Image.Image:
    """L or RGB, 8 bits a channel; 16-bit grey is scaled, where PIL would clip it."""
    if image.mode in _PLAIN:
        image.load()
        return keep_orientation(image.copy(), image)
    return keep_orientation(_in_eight_bits(image), image)


def _in_eight_bits(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):
        return Image.fromarray((np.asarray(image).clip(0, _DEEPEST) // _DEEP).astype(np.uint8))
    if image.mode == "F":
        return _from_floats(np.asarray(image))
    if image.mode == "1":
        return image.convert("L")
    return image.convert("RGBA").convert("RGB") if image.mode == "P" else image.convert("RGB")


def _from_floats(values: npt.NDArray[np.floating]) -> Image.Image:
    """Grey floats: 0 to 1, or 0 to 255."""
    low, high = float(values.min()), float(values.max())
    if not 0 <= low <= high <= 255:
        raise InputError(
            f"float picture with values from {low:.4g} to {high:.4g}, expected 0 to 1 or 0 to 255"
        )
    return Image.fromarray((values * (255 if high <= 1 else 1)).round().astype(np.uint8))


def from_array(values: npt.NDArray[np.generic], name: str) -> Picture:
    """A picture from one array: bytes become a PIL image, floats in [0, 1] a tensor."""
    values = _channels_last(values, name)
    if values.dtype == np.uint8:
        return Image.fromarray(np.ascontiguousarray(values[..., 0] if values.shape[2] == 1 else values))
    if not np.issubdtype(values.dtype, np.floating):
        raise InputError(f"{name} has dtype {values.dtype}, expected uint8 (0 to 255) or float (0 to 1)")
    # A copy: the array may be mapped from a file, where nothing may be written.
    return from_tensor(torch.from_numpy(np.array(values.transpose(2, 0, 1), order="C")), name)


def from_tensor(values: Tensor, name: str) -> Picture:
    """A (channels, height, width) picture: uint8 becomes a PIL image, floats are checked to lie in [0, 1]."""
    if values.ndim == 2:
        values = values[None]
    if values.ndim != 3 or values.shape[0] not in (1, 3):
        raise InputError(
            f"{name} has shape {tuple(values.shape)}, expected (channels, height, width) with 1 or 3 channels"
        )
    if values.dtype == torch.uint8:
        return from_array(values.permute(1, 2, 0).numpy(), name)
    if not values.is_floating_point():
        raise InputError(f"{name} has dtype {values.dtype}, expected uint8 (0 to 255) or float (0 to 1)")
    low, high = float(values.min()), float(values.max())
    if not (low >= 0 and high <= 1):
        raise InputError(
            f"{name} holds values from {low:.4g} to {high:.4g}, expected 0 to 1: give the pictures before "
            f"they are normalised, the model brings its own preprocessing"
        )
    return values.detach().to(torch.float32)


def as_picture(image: Picture) -> Image.Image:
    """A PIL image of a sample's picture, for a preprocessing that takes PIL; floats are rounded to 8 bits."""
    if isinstance(image, Image.Image):
        return image
    pixels = (image * 255).round().to(torch.uint8).permute(1, 2, 0).cpu().numpy()
    return Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)


def whole_label(label: Any, name: str) -> int | None:
    """The label of a sample as a number; -1, or none, is no label."""
    if label is None:
        return None
    try:
        value = label.item() if hasattr(label, "item") else label
    except (RuntimeError, ValueError) as error:
        raise InputError(f"{name}: the label is not one number: {label!r:.80}") from error
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,20}", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"{name}: label {label!r:.80} is not a whole number")
    if not -1 <= value <= LARGEST_LABEL:
        shown = str(value) if abs(value) < 2**64 else "beyond 64 bits"
        raise InputError(f"{name}: label {shown} is out of range, expected 0 or more, or -1 for none")
    return None if value == -1 else value


def content_of(image: Picture) -> str:
    """Fingerprint of a decoded picture, and its orientation where it is not upright."""
    array = np.asarray(image) if isinstance(image, Image.Image) else image.cpu().numpy()
    turn = orientation(image) if isinstance(image, Image.Image) else 1
    content = f"{'x'.join(map(str, array.shape))}:{fingerprint(np.ascontiguousarray(array).tobytes())}"
    return content if turn == 1 else f"{content}@{turn}"


def _channels_last(values: npt.NDArray[np.generic], name: str) -> npt.NDArray[np.generic]:
    if values.ndim == 2:
        return values[..., None]
    if values.ndim == 3 and values.shape[2] in (1, 3):
        return values
    if values.ndim == 3 and values.shape[0] in (1, 3):
        return values.transpose(1, 2, 0)
    raise InputError(
        f"{name} has shape {values.shape}, expected (height, width), (height, width, channels) or "
        f"(channels, height, width) with 1 or 3 channels"
    )


def why_unreadable(error: Exception) -> str:
    """What a decoder's error says of a picture, in a few words."""
    if isinstance(error, FileNotFoundError):
        return "the file does not exist"
    if type(error).__name__ == "UnidentifiedImageError":
        return "not an image, or its beginning is damaged"
    return " ".join(str(error).split())[:120] or type(error).__name__
