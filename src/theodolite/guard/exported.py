"""An exported guard, read back: verdicts by onnxruntime, or by PyTorch, without the guard's own parts.

guard = load_exported("guard.onnx")
verdicts = guard.verdicts(features)        # or images, or pictures: whatever the file takes
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL.Image import Image
from torch import Tensor

from ..core.arrays import Array, ArrayLike, as_matrix, as_tensor, like, rows_named
from ..core.errors import InputError
from ..core.files import undamaged
from ..data.orientation import orientation, upright
from ..data.sample import plain
from .export.onnx_file import OnnxRunner, read_onnx
from .export.program_file import ProgramRunner, read_program
from .export.record import FEATURES, IMAGES, PICTURES, ExportRecord
from .inputs import warn_tilted
from .verdicts import FLAG, RAISE, Verdicts, check_unscorable

_REMEDY = "export the guard again"
# Inputs that are run at once.
_BATCH = {FEATURES: 4096, IMAGES: 64, PICTURES: 16}
# Length over width of the longest pictures that are prepared inside a graph.
_LONGEST = 16


class ExportedGuard:
    """Verdicts of an exported file. What it ``takes``: features, prepared images, or pictures as they are.

    >>> guard = th.load_exported("guard.onnx")  # written by guard.export("guard.onnx")
    >>> guard.takes, guard.verdicts(np.full((1, 8), 9.0, np.float32)).is_ood.tolist()
    ('features', [True])
    """

    def __init__(self, record: ExportRecord, run: Callable[[Array, float | None], dict[str, Array]]) -> None:
        self.record = record
        self.calibration = record.calibration.restored()
        self._run = run

    @property
    def takes(self) -> str:
        return self.record.takes

    @property
    def width(self) -> int:
        """D: how wide the features are that it judges."""
        return self.record.width

    @property
    def class_names(self) -> tuple[str, ...] | None:
        return self.record.class_names

    @property
    def false_alarm_rate(self) -> float:
        return self.record.false_alarm_rate

    def class_name(self, index: int) -> str:
        """The name of a class, or its number."""
        if index < 0:
            raise InputError(f"there is no class {index}: an unscorable sample, or a guard without head")
        return str(index) if self.class_names is None else self.class_names[index]

    def verdicts(
        self,
        inputs: ArrayLike | Sequence[Image],
        *,
        false_alarm_rate: float | None = None,
        unscorable: str = FLAG,
    ) -> Verdicts:
        """Verdicts on what the file takes: features (N, D), prepared images (N, channels, H, W), or pictures.

        Pictures are bytes (N, H, W, 3) of one size. A list of PIL pictures, of any sizes, is good for files
        of images and of pictures alike. Rows with NaN or infinity are flagged as unscorable, or with
        ``unscorable="raise"`` an error that names them.
        """
        check_unscorable(unscorable)
        if false_alarm_rate is not None:
            self.calibration.require_rate(false_alarm_rate)
        parts = [self._run(batch, false_alarm_rate) for batch in self._batches(inputs)]
        columns = [np.concatenate([part[name] for part in parts]) for name in Verdicts._fields]
        found = Verdicts(*columns)
        lost = torch.from_numpy(np.asarray(found.unscorable)).nonzero().flatten()
        if unscorable == RAISE and len(lost):
            raise InputError(f"inputs have no score in {rows_named(lost)}: they hold NaN or infinity")
        if isinstance(inputs, Tensor):
            return Verdicts(*(like(torch.from_numpy(column), inputs) for column in columns))
        return found

    def prepare(self, picture: Image) -> Tensor:
        """A picture as the file takes it, to be stacked with others of its shape.

        Prepared (channels, height, width), or as bytes (height, width, 3) where the graph prepares it.
        """
        known = self.record.preprocessing
        if self.takes == PICTURES:
            return self._checked(np.asarray(self._seen(picture).convert("RGB"))[None])[0]
        if self.takes != IMAGES or known is None or known.pixels is None:
            reason = (
                f"the file takes {self.takes}"
                if self.takes != IMAGES
                else f"the model's own preprocessing, {known.name if known else None}, is not in the file"
            )
            raise InputError(f"the exported guard prepares no pictures: {reason}")
        return known.pixels(self._seen(picture))

    @property
    def prepares(self) -> bool:
        """Whether it takes pictures: prepared inside the graph, or by `prepare`."""
        known = self.record.preprocessing
        return self.takes == PICTURES or (known is not None and known.pixels is not None)

    def _batches(self, inputs: Any) -> Iterator[Array]:
        step = _BATCH[self.takes]
        if isinstance(inputs, list | tuple):
            yield from self._of_pictures(inputs, step)
            return
        values = self._checked(inputs)
        for start in range(0, len(values), step):
            yield values[start : start + step].contiguous().numpy()

    def _of_pictures(self, pictures: Sequence[Image], step: int) -> Iterator[Array]:
        if not pictures or not all(hasattr(picture, "convert") for picture in pictures):
            raise InputError("inputs must be an array, or a list of at least one PIL picture")
        if self.takes == PICTURES:
            for picture in pictures:
                yield self.prepare(picture)[None].numpy()
            return
        for start in range(0, len(pictures), step):
            yield torch.stack([self.prepare(picture) for picture in pictures[start : start + step]]).numpy()

    def _seen(self, picture: Image) -> Image:
        """A picture of eight bits a channel, upright where the guard was fitted on such."""
        known, seen = self.record.preprocessing, plain(picture)
        if known is not None and known.orientation is not None:
            return upright(seen)
        if orientation(seen) != 1:
            warn_tilted(["a picture"])
        return seen

    def _checked(self, inputs: ArrayLike) -> Tensor:
        """Inputs of the right kind and shape; their numbers are the graph's business."""
        if self.takes == FEATURES:
            expected = f"the guard was fitted on {self.width}: pass the input of the last linear layer"
            return as_matrix(inputs, "inputs", self.width, expected).cpu().to(torch.float32)
        values, shape = as_tensor(inputs, "inputs").cpu(), self.record.shape
        right = values.ndim == len(shape) and all(
            size in (None, found) for size, found in zip(shape, values.shape, strict=True)
        )
        bytes_expected = self.takes == PICTURES
        right_type = values.dtype == torch.uint8 if bytes_expected else values.is_floating_point()
        if not right or not right_type or 0 in values.shape:
            sides = ", ".join("N" if side == 0 else str(size or "any") for side, size in enumerate(shape))
            raise InputError(
                f"inputs have shape {tuple(values.shape)} and dtype {values.dtype}, expected {self.takes} "
                f"({sides}) of {'uint8' if bytes_expected else 'float32'}"
            )
        if bytes_expected and max(values.shape[1:3]) > _LONGEST * min(values.shape[1:3]):
            raise InputError(
                f"inputs are pictures of {values.shape[2]} × {values.shape[1]} pixels: more than {_LONGEST} "
                "times as long as wide, of which the guard's own preprocessing takes the middle. Crop them "
                "first"
            )
        return values if bytes_expected else values.to(torch.float32)


def load_exported(path: str | Path, *, trust: bool = False, threads: int | None = None) -> ExportedGuard:
    """A guard that `Guard.export` wrote: ``.onnx`` with onnxruntime, ``.pt2`` with PyTorch.

    To open a ``.pt2`` file PyTorch runs what lies in it, so that the caller must ``trust`` it. An ``.onnx``
    file is data; one that was changed after the export is refused. ``threads`` bounds those of onnxruntime.

    >>> means, labels, rng = 4 * np.eye(3, 8), np.arange(300) % 3, np.random.default_rng(0)
    >>> train, val = (means[labels] + rng.normal(size=(300, 8)) for _ in range(2))
    >>> guard = th.Guard.fit(train, labels, head=th.Head(means), calibration=val)
    >>> exported = guard.export("guard.onnx")
    >>> th.load_exported("guard.onnx").verdicts(means.astype("float32")).predicted.tolist()
    [0, 1, 2]
    """
    place = Path(path)
    if place.suffix.lower() != ".pt2":
        content, record = read_onnx(place)
        with undamaged(place, _REMEDY):
            return ExportedGuard(record, OnnxRunner(content, record, threads=threads))
    if not trust:
        raise InputError(
            f"{place} is a program of torch.export, and PyTorch runs code that such a file may hold when it "
            "opens it. If it is your own: load_exported(path, trust=True). An .onnx file needs no trust"
        )
    content, record = read_program(place)
    with undamaged(place, _REMEDY):
        return ExportedGuard(record, ProgramRunner(content, record))


def read_record(path: str | Path) -> ExportRecord:
    """The description in an exported file, of which nothing is run."""
    place = Path(path)
    return (read_program if place.suffix.lower() == ".pt2" else read_onnx)(place)[1]
