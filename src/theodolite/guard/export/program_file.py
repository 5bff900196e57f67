"""Files of `torch.export` (.pt2): the same graph for PyTorch alone.

To open one, PyTorch unpickles and evaluates what lies in it: `torch.load(weights_only=False)`, expressions as
text. A file from somebody else can run anything. Its description is read without any of that.
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any, TypeAlias

import numpy.typing as npt
import torch

from ...core.errors import FormatError, InputError
from .quiet import quiet
from .record import ENTRY, ExportRecord

Array: TypeAlias = npt.NDArray[Any]
# Where PyTorch puts files of others, after the name of the archive.
_PLACE = f"/extra/{ENTRY}"
_DESCRIPTION_BYTES = 2**28


def program_bytes(program: torch.export.ExportedProgram, record: ExportRecord) -> bytes:
    """The file, with the description beside the graph."""
    file = io.BytesIO()
    with quiet():
        torch.export.save(program, file, extra_files={ENTRY: record.text()})
    return file.getvalue()


def read_program(path: Path) -> tuple[bytes, ExportRecord]:
    """The bytes of an exported file and its description; nothing of it is run or unpickled."""
    if not path.is_file():
        raise InputError(f"no such file: {path}")
    content = path.read_bytes()
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            places = [entry for entry in archive.infolist() if entry.filename.endswith(_PLACE)]
            if len(places) != 1 or places[0].file_size > _DESCRIPTION_BYTES:
                raise FormatError(f"{path} was not written by theodolite: it has no {ENTRY}")
            damaged = archive.testzip()
            text = archive.read(places[0])
    except (zipfile.BadZipFile, NotImplementedError, OSError, EOFError, ValueError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"{path} is not an exported program, or is damaged: {error}") from error
    if damaged is not None:
        raise FormatError(f"{path} is damaged (wrong checksum of {damaged}): export the guard again")
    return content, ExportRecord.parsed(text, str(path))


class ProgramRunner:
    """The graph in PyTorch."""

    def __init__(self, content: bytes, record: ExportRecord) -> None:
        try:
            with quiet():
                self._graph = torch.export.load(io.BytesIO(content)).module()
        except Exception as error:  # whatever fails in a file that its owner trusts
            raise FormatError(f"PyTorch cannot open the program: {error}") from error
        self._outputs, self._rate = record.outputs, record.false_alarm_rate

    def __call__(self, inputs: Array, rate: float | None = None) -> dict[str, Array]:
        asked = torch.tensor(self._rate if rate is None else rate, dtype=torch.float64)
        with torch.no_grad():
            columns = self._graph(torch.from_numpy(inputs), asked)
        return {name: column.numpy() for name, column in zip(self._outputs, columns, strict=True)}
