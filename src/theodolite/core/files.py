"""Files that are either complete or absent: written beside their place, flushed to disk, then renamed.

Tensors go into safetensors files whose header carries one JSON description. The header has exactly one entry,
because safetensors keeps several in no fixed order, and equal content must give equal bytes.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save, save_file
from torch import Tensor

from .errors import FormatError, InputError, StorageError, TheodoliteError
from .owned import read_owned
from .partial import partial_beside
from .plain import JsonObject, JsonValue

_ENTRY = "theodolite"
_SEAL = "sha256"
_CHUNK = 2**20
# Bounds of the JSON that is read: bytes of a file, digits of a whole number. Python bounds the depth.
_JSON_BYTES = 2**28
_DIGITS = 40


def _umask() -> int:
    """The permissions that new files of this process shall not have; only setting them tells."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


_UMASK = _umask()


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to; on success the file takes the place of ``path``, on failure nothing changes."""
    if path.name in ("", ".."):
        raise StorageError(f"cannot write {path}: that is a folder. Remedy: name a file")
    partial = partial_beside(path)
    try:
        yield partial
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
        if partial.is_file() and not partial.is_symlink():
            partial.chmod(0o666 & ~_UMASK)  # as any new file; safetensors makes private ones
        partial.replace(path)
        _flush_folder(path.parent)
    except BaseException as error:
        partial.unlink(missing_ok=True)
        if isinstance(error, OSError | SafetensorError) and not isinstance(error, TheodoliteError):
            raise _not_written(path, error) from error
        raise


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    with replacing(path) as partial:
        partial.write_bytes(content)


def write_json(path: Path, content: Mapping[str, JsonValue]) -> None:
    """Write a JSON file atomically, laid out for reading."""
    write_bytes(path, (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())


def read_json(path: Path) -> JsonValue:
    """The content of a JSON file of at most 256 MiB."""
    size = path.stat().st_size
    if size > _JSON_BYTES:
        raise FormatError(f"{path} is too large to be read: {size:,} bytes, at most {_JSON_BYTES:,}")
    return parse_json(path.read_bytes(), str(path))


def parse_json(text: str | bytes, name: str) -> JsonValue:
    """What a JSON text says; ``name`` is what it is called where it cannot be read.

    Whole numbers have at most 40 digits; nesting is as deep as Python's own calls may be.
    """
    try:
        content: JsonValue = json.loads(text, parse_int=_whole)
    except RecursionError as error:
        raise FormatError(f"{name} is not JSON that can be read: it is nested too deeply") from error
    except ValueError as error:
        raise FormatError(f"{name} is not JSON that can be read: {error}") from error
    return content


def _whole(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise ValueError(f"a number of {len(digits):,} digits, at most {_DIGITS} are read")
    return int(digits)


def tensor_bytes(tensors: Mapping[str, Tensor], description: Mapping[str, JsonValue]) -> bytes:
    """A safetensors file as bytes: equal content, equal bytes."""
    return save(_plain(tensors), metadata={_ENTRY: _compact(description)})


def write_tensors(path: Path, tensors: Mapping[str, Tensor], description: Mapping[str, JsonValue]) -> None:
    """Write tensors, their description and a checksum of both atomically, without a second copy in memory."""
    plain = _plain(tensors)
    sealed = {**description, _SEAL: _checksum(plain, description)}
    with replacing(path) as partial:
        save_file(plain, partial, metadata={_ENTRY: _compact(sealed)})


def read_tensors(path: Path, *formats: str, sealed: bool = True) -> tuple[dict[str, Tensor], JsonObject]:
    """All tensors of a file of ours and its description.

    Refused if it has none of the ``formats`` expected, or if its checksum is wrong. What is ``sealed`` is
    read into memory: nothing that happens to the file later changes it. The parts of a store stay mapped, and
    its manifest has their checksums.
    """
    tensors, metadata = read_owned(path) if sealed else _mapped(path)
    description = _description(metadata, path)
    if description["format"] not in formats:
        raise FormatError(f"{path} has format {description['format']!r}; expected {' or '.join(formats)}")
    if sealed and description.pop(_SEAL, None) != _checksum(tensors, description):
        raise FormatError(f"{path} is damaged (wrong checksum): make it again, or fetch it again")
    return tensors, description


def format_of(path: Path) -> str | None:
    """The format that the header of a file of ours names; None of any other file."""
    said = header_of(path).get("format")
    return None if said is None else str(said)


def header_of(path: Path) -> JsonObject:
    """What the header of a file of ours says, its tensors unread; nothing of any other file."""
    try:
        with safe_open(path, framework="pt") as file:
            return _description(file.metadata() or {}, path)
    except (SafetensorError, OSError, TheodoliteError):
        return {}


@contextmanager
def undamaged(path: str | Path, remedy: str) -> Iterator[None]:
    """Whatever fails while something is put together from parts of a file is the file's fault."""
    try:
        yield
    except Exception as error:
        if isinstance(error, TheodoliteError) and not isinstance(error, FormatError):
            raise
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise FormatError(f"{path} is damaged: {said}. Remedy: {remedy}") from error


def slug(text: str) -> str:
    """A text as the name of a file or folder."""
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", text).strip("-")


def sha256(path: Path) -> str:
    """The checksum of a file, read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_CHUNK):
            digest.update(piece)
    return digest.hexdigest()


def _checksum(tensors: Mapping[str, Tensor], description: Mapping[str, JsonValue]) -> str:
    digest = hashlib.sha256(_compact(description).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _mapped(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    if not path.is_file():
        raise InputError(f"no such file: {path}")
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return tensors, file.metadata() or {}
    except SafetensorError as error:
        raise FormatError(f"{path} is not a readable safetensors file: {error}") from error


def _description(metadata: Mapping[str, str], path: Path) -> JsonObject:
    if _ENTRY not in metadata:
        raise FormatError(f"{path} was not written by theodolite: its header has no description")
    description = parse_json(metadata[_ENTRY], f"the description in the header of {path}")
    if not isinstance(description, dict) or "format" not in description:
        raise FormatError(f"{path} was not written by theodolite: its description names no format")
    return description


def _plain(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def _compact(description: Mapping[str, JsonValue]) -> str:
    text = json.dumps(description, separators=(",", ":"), ensure_ascii=False, default=_number)
    try:
        text.encode()
    except UnicodeEncodeError:  # file names that are not UTF-8
        return json.dumps(description, separators=(",", ":"), default=_number)
    return text


def _number(value: Any) -> Any:
    """NumPy's numbers as Python's."""
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot be written to a file")


def _flush_folder(folder: Path) -> None:
    """A rename is on disk only when its folder is; not every system can open a folder."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _not_written(path: Path, error: OSError | SafetensorError) -> StorageError:
    full = getattr(error, "errno", None) == errno.ENOSPC or "No space left" in str(error)
    if full:
        remedy = "free some space and run the same command again; what was written before is kept"
    elif not path.parent.is_dir():
        remedy = f"the folder {path.parent} does not exist: create it first"
    else:
        remedy = "check the permissions of the folder, or choose another place"
    reason = getattr(error, "strerror", None) or str(error)
    return StorageError(f"cannot write {path}: {reason}. Remedy: {remedy}")
