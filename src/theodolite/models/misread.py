"""Files that are no plain weights: what they are, and how to take the weights out. Nothing in them is run."""

from __future__ import annotations

import pickletools
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import IO

from torch import Tensor

from ..core.addresses import is_address

_REASON = 160
_PLAIN = ("collections OrderedDict", "builtins dict", "__builtin__ dict", "torch ", "torch._utils ")
# Pickles before the one of interest in a torch file of the old format, and opcodes looked at.
_BEFORE, _OPCODES = 3, 50
_QUANTISED = re.compile(r"(?:_packed_params|\.qweight|\.quant_state\.|\.absmax|\.SCB)")
_BEGINNINGS = (
    (b"version https://git-lfs", "is a pointer of Git LFS, not the file itself: fetch it with git lfs pull"),
    (b"<", "is a web page or another text, not weights: download the file itself"),
    (b"\x89HDF", "is an HDF5 file, as Keras writes them: theodolite takes PyTorch models"),
)
_ENDINGS = {
    ".onnx": "is an ONNX graph: pass the weights of the PyTorch model that it was exported from",
    ".tflite": "is a TensorFlow Lite model: theodolite takes PyTorch models",
    ".pb": "is a TensorFlow graph: theodolite takes PyTorch models",
    ".keras": "is a Keras model: theodolite takes PyTorch models",
}


def not_a_file(path: Path) -> str:
    """Why there is no file of weights at a path."""
    if is_address(path):
        return f"weights {path} is a web address, and nothing is fetched from it: download the file first"
    if path.is_dir():
        return f"weights {path} is a folder: name the file of weights in it (.safetensors or .pt)"
    return f"weights file {path} does not exist: check the path given as weights"


def unreadable(path: Path, error: Exception) -> str:
    """Why a file could not be opened as weights, and what to do."""
    known = _known(path)
    if known is not None:
        return f"weights file {path} {known}"
    reason = " ".join(re.sub(r"\x1b\[[0-9;]*m", "", str(error)).split())
    held = re.search(r"GLOBAL ([\w.]+)", reason)
    if held is not None:
        return (
            f"weights file {path} cannot be read: beside tensors it holds a {held[1]}, which would run code "
            f"when it is opened. If you trust the file, open it once with torch.load({path.name!r}, "
            f"weights_only=False), and save the state dict in it: torch.save(state_dict, 'weights.pt')"
        )
    return (
        f"weights file {path} cannot be read ({type(error).__name__}: {reason[:_REASON]}). Expected "
        f".safetensors, or a torch file that holds only tensors: save it again with "
        f"torch.save(model.state_dict(), path)"
    )


def quantised(content: Mapping[object, object], path: Path) -> str | None:
    """What is to be said of a state dict of integers; None where it has none."""
    found = next(
        (
            str(key)
            for key, value in content.items()
            if _QUANTISED.search(str(key)) or (isinstance(value, Tensor) and value.is_quantized)
        ),
        None,
    )
    if found is None:
        return None
    return (
        f"weights file {path} holds quantised weights ({found}): features and head must be those of the "
        f"network itself. Pass the checkpoint from before the quantisation"
    )


def _known(path: Path) -> str | None:
    """What a file is, by its beginning or its content."""
    with path.open("rb") as file:
        start = file.read(64).lstrip()
    if not start:
        return "is empty: download or save it again"
    for beginning, what in _BEGINNINGS:
        if start.startswith(beginning):
            return what
    if path.suffix.lower() in _ENDINGS:
        return _ENDINGS[path.suffix.lower()]
    try:
        return _archive(path) if zipfile.is_zipfile(path) else _pickled(path.name, _old_pickle(path))
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError):
        return None


def _archive(path: Path) -> str | None:
    """What a torch file is by what lies in it."""
    with zipfile.ZipFile(path) as archive:
        inside = [name.partition("/")[2] for name in archive.namelist()]
        if "constants.pkl" in inside or any(name.startswith("code/") for name in inside):
            return (
                f"is a TorchScript program, code and weights in one. Take the weights out once: "
                f"torch.save(torch.jit.load({path.name!r}).state_dict(), 'weights.pt')"
            )
        if "archive_format" in inside or any("exported_program" in name for name in inside):
            return (
                f"is a program of torch.export. Take the weights out once: "
                f"torch.save(torch.export.load({path.name!r}).state_dict, 'weights.pt')"
            )
        pickled = next((name for name in archive.namelist() if name.endswith("/data.pkl")), None)
        if pickled is None:
            return None
        with archive.open(pickled) as file:
            return _pickled(path.name, islice(_opcodes(file), _OPCODES))


def _old_pickle(path: Path) -> Iterator[tuple[str, object]]:
    """The beginning of what a torch file of the old format holds."""
    with path.open("rb") as file:
        for _ in range(_BEFORE):
            for _ in _opcodes(file):
                pass
        yield from islice(_opcodes(file), _OPCODES)


def _pickled(name: str, opcodes: Iterable[tuple[str, object]]) -> str | None:
    """A pickle that begins with a class is an object of it; one of tensors begins with a dictionary."""
    for code, argument in opcodes:
        if code in ("EMPTY_DICT", "DICT"):
            return None
        if code == "GLOBAL":
            if str(argument).startswith(_PLAIN):
                return None
            return (
                f"is a whole model, pickled ({str(argument).replace(' ', '.')}), and opening it would run "
                f"code. If you trust it, take the weights out once: "
                f"torch.save(torch.load({name!r}, weights_only=False).state_dict(), 'weights.pt')"
            )
    return None


def _opcodes(file: IO[bytes]) -> Iterator[tuple[str, object]]:
    return ((opcode.name, argument) for opcode, argument, _ in pickletools.genops(file))
