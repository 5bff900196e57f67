"""Export: record the guard as a graph, compare it with PyTorch, and only then write the file."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import torch
from PIL import Image
from torch import Tensor, nn

from ..._version import __version__
from ...core.errors import ExportError, InputError, TheodoliteError
from ...core.files import write_bytes, write_json
from ...core.plain import to_plain
from ...detectors._storage import PackedDetector
from ...features.listening import untouched
from ..model_judge import ModelJudge
from .compare import Comparison, Runner
from .onnx_file import OnnxRunner, onnx_bytes, plain_session, require_onnx, translated
from .picture_compare import LevelGraph, compare_levels, compare_pictures
from .program_file import ProgramRunner, program_bytes
from .quiet import quiet
from .record import FEATURES, FORMAT, Compared, ExportRecord, StoredCalibration, Versions
from .rows import unrest
from .subjects import ExportOptions, Subject, subject_of
from .translations import OPSET

ONNX, PROGRAM = ".onnx", ".pt2"
# Entries of a bank that is searched row by row: beyond, a graph takes longer than its model and much memory.
BANK_ENTRIES = 2**25


@dataclass(frozen=True)
class Exported:
    """What was written: the file, its description, and the file beside it that says what stays outside."""

    path: Path
    record: ExportRecord
    beside: Path | None


def export_guard(guard: ModelJudge, path: str | Path, **options: Unpack[ExportOptions]) -> Exported:
    """Write a guard as one graph; see `Guard.export`."""
    place = Path(path)
    require_small_bank(guard)
    if guard.model_score is not None:
        raise ExportError(
            f"{guard.title} asks the model for more than its features ({guard.model_score}), and a graph has "
            "no backward pass: the guard can be used with PyTorch only"
        )
    onnx = _is_onnx(place)
    subject = subject_of(guard, **options)
    record = _record(guard, subject, OPSET if onnx else None)
    encode = _encoder(guard, subject, onnx=onnx)
    content = encode(record)
    run: Runner = OnnxRunner(content, record) if onnx else ProgramRunner(content, record)
    record = replace(
        record,
        compared=tuple(_compared(guard, subject, run)),
        preprocessing=_with_levels(subject, onnx=onnx),
    )
    beside = None
    if record.preprocessing is not None and not record.preprocessing.inside:
        beside = place.with_name(f"{place.stem}.preprocess.json")
        plain = to_plain(record.preprocessing)
        assert isinstance(plain, dict)
        write_json(beside, plain)
    write_bytes(place, encode(record))
    return Exported(place, record, beside)


def require_small_bank(guard: ModelJudge) -> None:
    """Refuse neighbours among more rows than a graph should be asked to compare with."""
    for name, buffer in guard.detector.named_buffers():
        if name.rpartition(".")[2] == "bank" and buffer.numel() > BANK_ENTRIES:
            rows = math.prod(buffer.shape[:-1])
            raise ExportError(
                f"the bank of {guard.detector.record.title} has {rows:,} rows of width "
                f"{buffer.shape[-1]:,}; a graph compares each input with all of them, and takes at most "
                f"{BANK_ENTRIES // buffer.shape[-1]:,}. Fit with a smaller bank (fraction=…), or choose a "
                "score that is a formula"
            )


def recorded(
    graph: nn.Module, inputs: tuple[Tensor, ...], free: Sequence[int]
) -> torch.export.ExportedProgram:
    """The graph as PyTorch records it, the ``free`` sides of its first input of any length."""
    sides = dict.fromkeys(free, torch.export.Dim.DYNAMIC)
    shapes = (sides, *([None] * (len(inputs) - 1)))
    try:
        with quiet(), untouched(graph):
            return torch.export.export(graph, inputs, dynamic_shapes=shapes, strict=False)
    except TheodoliteError:
        raise
    except Exception as error:  # a model of somebody else's may do what no graph can
        said = " ".join(str(error).split())[:300]
        raise ExportError(
            f"PyTorch cannot record the guard's model as a graph ({type(error).__name__}: {said}). Export "
            "the guard alone, --from features, and the model in the way that is known to work for it"
        ) from error


def _is_onnx(place: Path) -> bool:
    suffix = place.suffix.lower()
    if suffix not in (ONNX, PROGRAM):
        raise InputError(f"cannot tell the format of {place}: its name must end in {ONNX} or {PROGRAM}")
    if suffix == ONNX:
        require_onnx()
    return suffix == ONNX


def _encoder(guard: ModelJudge, subject: Subject, *, onnx: bool) -> Callable[[ExportRecord], bytes]:
    """From a description to the bytes of the file."""
    program = recorded(subject.graph, (subject.example, guard.rate.clone()), subject.free)
    if not onnx:
        return lambda record: program_bytes(program, record)
    model = _translated(program, (subject.takes, *subject.graph.outputs), subject.sides)
    return lambda record: onnx_bytes(model, guard.false_alarm_rate, record)


def _translated(program: torch.export.ExportedProgram, names: tuple[str, ...], sides: tuple[str, ...]) -> Any:
    try:
        return translated(program, names, sides)
    except Exception as error:  # operations without a translation
        said = " ".join(str(error).split())[:300]
        raise ExportError(
            f"the graph has no translation to ONNX ({type(error).__name__}: {said}). Export as .pt2, or the "
            "guard alone, --from features"
        ) from error


def _record(guard: ModelJudge, subject: Subject, opset: int | None) -> ExportRecord:
    packed = PackedDetector.of(guard.detector)
    return ExportRecord(
        format=FORMAT,
        takes=subject.takes,
        shape=subject.shape,
        outputs=subject.graph.outputs,
        score=packed.name,
        title=guard.title,
        options=packed.options,
        width=guard.width,
        class_names=guard.class_names,
        provenance=guard.provenance,
        origin=guard.origin,
        calibration=StoredCalibration.of(guard.calibration),
        false_alarm_rate=guard.false_alarm_rate,
        preprocessing=subject.preprocessing,
        versions=Versions(__version__, torch.__version__, opset),
        compared=(),
    )


def _compared(guard: ModelJudge, subject: Subject, run: Runner) -> list[Compared]:
    rows = partial(unrest, guard) if subject.takes == FEATURES else None
    bias = 0.0 if guard.head is None else float(guard.head.bias.abs().max())
    comparison = Comparison(run, guard.calibration, guard.false_alarm_rate, rows, bias)
    return [
        comparison.on(case.name, case.inputs, case.expected)
        if isinstance(case.inputs, Tensor)
        else compare_pictures(case.name, run, case.inputs, case.expected, guard.calibration)
        for case in subject.cases
    ]


def _with_levels(subject: Subject, *, onnx: bool) -> Any:
    """What is known of the preprocessing, with how near it is to Pillow's where it is inside."""
    pixels, known = subject.graph.pixels, subject.preprocessing
    if pixels is None or known is None:
        return known
    graph = LevelGraph(pixels)
    if onnx:
        program = recorded(graph, (subject.example,), subject.free)
        levels = plain_session(_translated(program, ("pictures", "levels"), subject.sides))
    else:
        levels = lambda pictures: graph(torch.from_numpy(pictures)).numpy()  # noqa: E731
    pictures: list[Image.Image] = []
    for case in subject.cases:
        pictures += [] if isinstance(case.inputs, Tensor) else case.inputs
    return replace(known, note=compare_levels(pixels, levels, pictures))
