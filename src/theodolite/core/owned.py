"""Tensors of a safetensors file, read into memory of their own.

What is mapped changes when somebody writes over its file, and ends the process when somebody makes the file
shorter. What was read stays what it was. The header is checked before anything is allocated: tensors must lie
one behind the other, as large as their shape says, and fill the file.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeGuard

import torch
from torch import Tensor

from .errors import FormatError, InputError

# The bound that safetensors itself has.
_HEADER_BYTES = 100_000_000
_METADATA = "__metadata__"
_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}


class _Entry(NamedTuple):
    """A tensor as the header describes it; ``start`` and ``end`` count from the end of the header."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int
    end: int


def read_owned(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """All tensors of a file and its metadata."""
    if not path.is_file():
        raise InputError(f"no such file: {path}")
    try:
        with path.open("rb") as file:
            entries, metadata = _header(file)
            return {entry.name: _tensor(file, entry) for entry in entries}, metadata
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path} is not a readable safetensors file: {error}") from error


def _header(file: BinaryIO) -> tuple[list[_Entry], dict[str, str]]:
    size = os.fstat(file.fileno()).st_size
    length = int.from_bytes(file.read(8), "little")
    if length > min(_HEADER_BYTES, size - 8):
        raise ValueError(f"it has {size:,} bytes and claims a header of {length:,}")
    content = json.loads(file.read(length))
    if not isinstance(content, dict):
        raise ValueError("its header is not an object")
    metadata = content.pop(_METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise ValueError("its metadata are not texts")
    entries = sorted(
        (_entry(name, said) for name, said in content.items()), key=lambda entry: (entry.start, entry.end)
    )
    end = 0
    for entry in entries:
        if entry.start != end:
            raise ValueError(f"tensor {entry.name!r} does not begin where the one before it ends")
        end = entry.end
    if end != size - 8 - length:
        raise ValueError(f"its tensors have {end:,} bytes, the file holds {size - 8 - length:,}")
    return entries, metadata


def _entry(name: str, said: object) -> _Entry:
    if not isinstance(said, dict):
        raise ValueError(f"tensor {name!r} is not described")
    dtype, shape, offsets = said.get("dtype"), said.get("shape"), said.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        raise ValueError(f"tensor {name!r} has numbers of an unknown kind, {dtype!r}")
    if not _sizes(shape) or not _sizes(offsets) or len(offsets) != 2:
        raise ValueError(f"tensor {name!r} has no shape or no place")
    start, end = offsets
    if end - start != math.prod(shape) * _DTYPES[dtype].itemsize:
        raise ValueError(f"tensor {name!r} of shape {tuple(shape)} has {end - start:,} bytes")
    return _Entry(name, _DTYPES[dtype], tuple(shape), start, end)


def _sizes(values: object) -> TypeGuard[list[int]]:
    return isinstance(values, list) and all(type(value) is int and value >= 0 for value in values)


def _tensor(file: BinaryIO, entry: _Entry) -> Tensor:
    tensor = torch.empty(entry.shape, dtype=entry.dtype)
    if tensor.numel():
        room = tensor.reshape(-1).view(torch.uint8).numpy().data
        if file.readinto(room) != entry.end - entry.start:  # type: ignore[attr-defined]
            raise ValueError("it became shorter while it was read")
    return tensor
