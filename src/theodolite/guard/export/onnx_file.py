"""ONNX files: a guard's graph translated and sealed, and the way back.

A seal, the digest of all bytes before it, is the file's last entry of metadata. Protocol buffers may be read
one after the other as one, so that to any reader it is an entry like the others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from ...core.errors import FormatError, InputError, MissingExtraError
from .graph import RATE
from .quiet import quiet
from .record import ENTRY, ExportRecord
from .translations import OPSET, translations

Array: TypeAlias = npt.NDArray[Any]
# Protocol buffers cannot be larger.
LARGEST = 2**31 - 1
_SEAL = "theodolite.sha256"
_ERRORS_ONLY = 3


def require_onnx() -> None:
    """All three packages, before any work is done."""
    for package in ("onnx", "onnxscript", "onnxruntime"):
        _import(package)


def translated(program: torch.export.ExportedProgram, names: tuple[str, ...], axes: tuple[str, ...]) -> Any:
    """A program as an ONNX model: ``names`` of its input and outputs, ``axes`` of its free sides."""
    takes, *outputs = names
    inputs = [takes, RATE][: len(program.graph_signature.user_inputs)]
    with quiet():
        made = torch.onnx.export(
            program,
            dynamo=True,
            opset_version=OPSET,
            input_names=inputs,
            output_names=outputs,
            custom_translation_table=translations(),
            verbose=False,
        )
    assert made is not None
    model = made.model_proto
    _name_axes(model, axes)
    return model


def onnx_bytes(model: Any, rate: float, record: ExportRecord) -> bytes:
    """The file: the rate an optional input, the description an entry of the metadata, and the seal."""
    onnx = _import("onnx")
    if all(known.name != RATE for known in model.graph.initializer):
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(rate), RATE))
    del model.metadata_props[:]
    model.metadata_props.add(key=ENTRY, value=record.text())
    model.producer_name, model.producer_version = "theodolite", record.versions.theodolite
    if model.ByteSize() > LARGEST - 1024:
        raise InputError(
            f"the graph has {model.ByteSize():,} bytes, and an ONNX file that is whole in itself at most "
            f"{LARGEST:,}: export as .pt2, or with --from features"
        )
    body: bytes = model.SerializeToString()
    return body + _sealed(body)


def read_onnx(path: Path) -> tuple[bytes, ExportRecord]:
    """The bytes of an exported file and its description; refused unless they are as they were written."""
    if not path.is_file():
        raise InputError(f"no such file: {path}")
    size = path.stat().st_size
    if size > LARGEST:
        raise FormatError(f"{path} is too large to be an exported guard: {size:,} bytes, at most {LARGEST:,}")
    content = path.read_bytes()
    seal = len(_sealed(b""))
    if content[-seal:] != _sealed(content[:-seal]):
        raise FormatError(
            f"{path} is not an exported guard, or has been changed since: theodolite export wrote and "
            "compared another file. Export the guard again"
        )
    model = _import("onnx").ModelProto()
    try:
        model.ParseFromString(content)
    except Exception as error:  # the parser of protocol buffers has several kinds of errors, by its build
        raise FormatError(f"{path} is not an ONNX file: {error}") from error
    entries = {entry.key: entry.value for entry in model.metadata_props}
    if ENTRY not in entries:
        raise FormatError(f"{path} was not written by theodolite: its metadata has no {ENTRY}")
    _require_whole(model, path)
    return content, ExportRecord.parsed(entries[ENTRY], str(path))


class OnnxRunner:
    """The graph in onnxruntime, on the CPU."""

    def __init__(self, content: bytes, record: ExportRecord, *, threads: int | None = None) -> None:
        self._session = _session(content, threads)
        self._takes, self._outputs = record.takes, list(record.outputs)
        names = [given.name for given in self._session.get_inputs()]
        optional = [given.name for given in self._session.get_overridable_initializers()]
        outputs = [output.name for output in self._session.get_outputs()]
        if (names, optional, outputs) != ([self._takes], [RATE], self._outputs):
            raise FormatError(
                f"the graph takes {names + optional} and gives {outputs}, not what it says of itself"
            )

    def __call__(self, inputs: Array, rate: float | None = None) -> dict[str, Array]:
        given = {self._takes: inputs} | ({} if rate is None else {RATE: np.array(rate)})
        return dict(zip(self._outputs, self._session.run(self._outputs, given), strict=True))


def plain_session(model: Any) -> Callable[[Array], Array]:
    """A model of one input and one output as a function."""
    session = _session(model.SerializeToString())
    (name,) = (given.name for given in session.get_inputs())

    def run(inputs: Array) -> Array:
        (output,) = session.run(None, {name: inputs})
        return np.asarray(output)

    return run


def _session(content: bytes, threads: int | None = None) -> Any:
    runtime = _import("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = _ERRORS_ONLY  # it warns of every optional input
    if threads is not None:
        options.intra_op_num_threads = threads
    try:
        return runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has a kind of error for each of its codes
        raise FormatError(f"onnxruntime cannot open the graph: {error}") from error


def _sealed(body: bytes) -> bytes:
    model = _import("onnx").ModelProto()
    model.metadata_props.add(key=_SEAL, value=hashlib.sha256(body).hexdigest())
    seal: bytes = model.SerializeToString()
    return seal


def _require_whole(model: Any, path: Path) -> None:
    """Refuse tensors that lie in other files, which nobody has compared."""
    onnx = _import("onnx")
    nodes = [node for function in model.functions for node in function.node]
    tensors = chain(_tensors(model.graph), _of_nodes(nodes))
    if any(onnx.external_data_helper.uses_external_data(tensor) for tensor in tensors):
        raise FormatError(f"{path} has tensors in other files: an exported guard is whole in itself")


def _tensors(graph: Any) -> Iterator[Any]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from _of_nodes(graph.node)


def _of_nodes(nodes: Iterable[Any]) -> Iterator[Any]:
    for node in nodes:
        for attribute in node.attribute:
            yield from attribute.tensors
            if attribute.HasField("t"):
                yield attribute.t
            for inner in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
                yield from _tensors(inner)


def _name_axes(model: Any, axes: tuple[str, ...]) -> None:
    """The free sides of the input by words, where the recorder numbered them; the same in the outputs."""
    free = [side.dim_param for side in model.graph.input[0].type.tensor_type.shape.dim if side.dim_param]
    words = dict(zip(free, axes, strict=True))
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        for side in value.type.tensor_type.shape.dim:
            if side.dim_param in words:
                side.dim_param = words[side.dim_param]


def _import(package: str) -> Any:
    try:
        return __import__(package)
    except ImportError as error:
        raise MissingExtraError(package, "onnx") from error
