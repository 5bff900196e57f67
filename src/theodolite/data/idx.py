"""idx files, plain or gzipped: the format of MNIST and its family."""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..core.errors import FormatError
from .bounds import require_unpackable
from .formats import data_format
from .stacks import ImageStack

_UBYTE = 0x08
_PIECE = 2**20
_SIZES = 4
_LABEL_NAMES = (("images-idx3", "labels-idx1"), ("images.idx3", "labels.idx1"), ("images", "labels"))


def is_idx(path: Path) -> bool:
    """Whether the file begins like an idx file of bytes."""
    try:
        with _opened(path) as file:
            start = file.read(4)
    except (OSError, EOFError, zlib.error):
        return False
    return len(start) == 4 and start[:3] == bytes((0, 0, _UBYTE)) and 1 <= start[3] <= _SIZES


@data_format("idx", title="idx", content=is_idx)
def open_idx(path: Path) -> ImageStack:
    """Images with the labels file found beside them, by the usual names."""
    images = read_idx(path)
    if images.ndim < 3:
        raise FormatError(f"{path} holds {images.ndim}-dimensional data, not images: open the images file")
    labels_path = _labels_of(path)
    labels = None if labels_path is None else read_idx(labels_path)
    return ImageStack(path.name.removesuffix(".gz"), images, labels)


def read_idx(path: Path) -> npt.NDArray[np.uint8]:
    """The array of an idx file of unsigned bytes."""
    try:
        size = path.stat().st_size
        with _opened(path) as file:
            shape = _shape(path, file.read(4), file)
            promised = math.prod(shape)
            if path.suffix == ".gz":
                require_unpackable(path, promised, size)
            # Never more than the header promises, whatever a small archive unpacks to.
            content = _at_most(file, promised + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise FormatError(f"{path} is damaged ({error}): fetch the file again") from error
    if len(content) != promised:
        raise FormatError(
            f"{path} is damaged: its header promises {shape}, {promised} bytes, but "
            f"{'more' if len(content) > promised else len(content)} follow. Fetch the file again"
        )
    return np.frombuffer(content, dtype=np.uint8).reshape(shape)


def _shape(path: Path, start: bytes, file: gzip.GzipFile) -> tuple[int, ...]:
    """The sizes in a header, of which the first four bytes are read."""
    if start[:3] != bytes((0, 0, _UBYTE)) or len(start) < 4:
        raise FormatError(f"{path} is not an idx file of unsigned bytes: it begins {start.hex(' ')}")
    count = start[3]
    if not 1 <= count <= _SIZES:
        raise FormatError(f"{path} is damaged: its header promises {count} sizes, expected 1 to {_SIZES}")
    sizes = file.read(4 * count)
    if len(sizes) < 4 * count:
        raise FormatError(f"{path} is damaged: it ends within its header. Fetch the file again")
    return tuple(int(size) for size in np.frombuffer(sizes, dtype=">u4"))


def _at_most(file: gzip.GzipFile, count: int) -> bytes:
    """Up to ``count`` bytes, in pieces: `read` would make room for all that a damaged header promises."""
    pieces: list[bytes] = []
    while count > 0 and (piece := file.read(min(count, _PIECE))):
        pieces.append(piece)
        count -= len(piece)
    return b"".join(pieces)


def _opened(path: Path) -> gzip.GzipFile:
    if path.suffix == ".gz":
        return gzip.GzipFile(path)
    return path.open("rb")  # type: ignore[return-value]


def _labels_of(path: Path) -> Path | None:
    for images, labels in _LABEL_NAMES:
        beside = path.with_name(path.name.replace(images, labels))
        other = beside.with_name(beside.name.removesuffix(".gz") + ("" if beside.suffix == ".gz" else ".gz"))
        for candidate in (beside, other):
            if _bare(candidate) != _bare(path) and candidate.is_file():
                return candidate
    return None


def _bare(path: Path) -> str:
    return path.name.removesuffix(".gz")
