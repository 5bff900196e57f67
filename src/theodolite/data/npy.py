"""Arrays in NumPy's files, plain or in an archive: the header is checked before room is made for anything."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from ..core.errors import FormatError, InputError, TheodoliteError
from .bounds import require_unpackable

Stack = npt.NDArray[np.generic]
_ARRAY, _ARCHIVE = npy.MAGIC_PREFIX, b"PK"
_SIZES = 4
# What NumPy calls the first array that has no name.
_UNNAMED = "arr_0"
_READERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def mapped_array(path: Path) -> Stack:
    """The array of a ``.npy`` file, mapped from disk; refused unless it is as large as its header says."""
    with _readable(path), path.open("rb") as file:
        if _start(path) == _ARCHIVE:
            raise InputError(
                f"{path} is an archive of arrays, not one array: call it .npz, or if it holds pictures open "
                f"it as kind 'npz' (--kind npz)"
            )
        size = _size(file, path)
        _require_size(path, size, path.stat().st_size - file.tell())
        array: Stack = np.load(path, mmap_mode="r", allow_pickle=False)
        return array


def array_of_bytes(content: bytes, name: str) -> Stack:
    """The array of a ``.npy`` file that came as bytes; refused unless it is as large as its header says."""
    with _readable(name), io.BytesIO(content) as file:
        _require_size(name, _size(file, name), len(content) - file.tell())
        file.seek(0)
        array: Stack = npy.read_array(file, allow_pickle=False)
        return array


class ArrayArchive:
    """The arrays of a ``.npz`` file by their names; one at a time is unpacked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with _readable(path):
            if _start(path) == _ARRAY[:2]:
                raise InputError(
                    f"{path} is one array, not an archive: call it .npy, or if it holds pictures open it as "
                    f"kind 'npy' (--kind npy)"
                )
            with zipfile.ZipFile(path) as archive:
                self.names = [name.removesuffix(".npy") for name in archive.namelist()]

    def one_of(self, keys: Sequence[str], what: str) -> str | None:
        """The name of the one array with a usual name; several that may be meant are refused.

        Arrays that were saved without names are called arr_0, arr_1, …: the first is meant if no other has as
        many sizes.
        """
        found = [name for key in keys for name in self.names if name.lower() == key]
        if found == [_UNNAMED]:
            others = [name for name in self.names if name.startswith("arr_") and name != _UNNAMED]
            sizes = len(self.form(_UNNAMED)[0])
            found += [name for name in others if len(self.form(name)[0]) == sizes]
        if len(found) > 1:
            raise InputError(
                f"{self.path} holds {' and '.join(found)}, each of which may be the {what}: save the one "
                f"that is meant in a file of its own"
            )
        return found[0] if found else None

    def form(self, name: str) -> tuple[tuple[int, ...], np.dtype[np.generic]]:
        """Shape and dtype of an array, as its header says; nothing is unpacked."""
        with (
            _readable(self.path),
            zipfile.ZipFile(self.path) as archive,
            archive.open(_member(archive, name)) as file,
        ):
            return _form(file, self.path)

    def read(self, name: str) -> Stack:
        with _readable(self.path), zipfile.ZipFile(self.path) as archive:
            member = _member(archive, name)
            with archive.open(member) as file:
                size = _size(file, self.path)
                _require_size(self.path, size, member.file_size - file.tell())
            # The directory may lie about what is packed, but not about the file it stands in.
            packed = min(member.compress_size, self.path.stat().st_size)
            require_unpackable(self.path, member.file_size, packed)
            with archive.open(member) as file:
                array: Stack = npy.read_array(file, allow_pickle=False)
                return array


def _member(archive: zipfile.ZipFile, name: str) -> zipfile.ZipInfo:
    return archive.getinfo(f"{name}.npy" if f"{name}.npy" in archive.namelist() else name)


def _size(file: IO[bytes], path: Path | str) -> int:
    """The bytes that must follow the header of an array, at which the file then stands."""
    shape, dtype = _form(file, path)
    return math.prod(shape) * dtype.itemsize


def _form(file: IO[bytes], path: Path | str) -> tuple[tuple[int, ...], np.dtype[np.generic]]:
    """Shape and dtype in the header of an array."""
    version = npy.read_magic(file)
    if version not in _READERS:
        raise ValueError(f"version {version[0]}.{version[1]}, which plain numbers never have")
    shape, _, dtype = _READERS[version](file)
    if dtype.hasobject or dtype.names is not None:
        raise ValueError(f"its values are {dtype}, not plain numbers")
    if len(shape) > _SIZES or not all(type(length) is int and length >= 0 for length in shape):
        raise FormatError(
            f"{path} is damaged: its header promises an array of {len(shape)} sizes: {shape!s:.80}"
        )
    return shape, dtype


def _require_size(path: Path | str, promised: int, found: int) -> None:
    if promised != found:
        raise FormatError(
            f"{path} is damaged: its header promises {_bytes(promised)}, but {found:,} bytes follow"
        )


def _bytes(count: int) -> str:
    return f"{count:,} bytes" if count < 2**63 else "more than 2⁶³ bytes"


def _start(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(2)


@contextmanager
def _readable(path: Path | str) -> Iterator[None]:
    """Readers of damaged headers raise almost anything; what matters is which file it was."""
    try:
        yield
    except TheodoliteError:
        raise
    except Exception as error:
        if isinstance(path, Path) and not path.exists():
            raise InputError(f"{path} does not exist") from error
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise FormatError(
            f"{path} is damaged or not a NumPy file of plain numbers ({reason}): save it again with np.save "
            f"or np.savez"
        ) from error
