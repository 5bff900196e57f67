"""The guard: a classifier's head, a fitted detector and its calibration, ready to give verdicts.

    guard = Guard.fit(store, head=store.head)
    verdicts = guard.verdicts(features)               # or images, where the guard has its model
    for rows in guard.score_paths(["pictures/new"]):  # pictures, folders, feature stores
        ...

A sample is flagged when its conformal p-value is at most ``false_alarm_rate``: of ID data like the
calibration data, at most that share is flagged, in finite samples (see `calibration`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np
import torch
from PIL.Image import Image
from torch import Tensor, nn

from ..core.arrays import ArrayLike, as_float, as_tensor, like
from ..core.errors import FormatError, InputError
from ..detectors import Detector
from ..detectors._base import own_buffers
from ..detectors._storage import PackedDetector, undamaged
from ..features.capture import Capture
from ..features.checked import checked_capture
from ..features.settings import Running
from ..models import LoadedModel
from ..reference.head import Head
from ..reference.reference import Batches, batches
from .calibration import Calibration
from .choice import choose_detector
from .holdout import require_unseen, split
from .inputs import images_for, prepared
from .path_reader import PathReader
from .provenance import Provenance, load_trusted, require_model, trusted_spec
from .storage import REMEDY, GuardParts, find, read_guard, write_guard
from .verdicts import PathVerdict, Verdicts

CALIBRATION_SHARE = 0.2
FALSE_ALARM_RATE = 0.05
# Rows whose logits are held at once.
_TILE = 4096


class Description(TypedDict, total=False):
    """What a guard is told beside what it learns."""

    model: nn.Module | None
    class_names: Sequence[str] | None
    provenance: Provenance | None
    false_alarm_rate: float


class Guard(nn.Module):
    """Verdicts on features, on batches of images, on pictures, or on whatever lies at a path.

    Features are enough for `verdicts`; for images the guard needs its model (`attach`).
    """

    def __init__(
        self,
        detector: Detector,
        calibration: Calibration,
        *,
        head: Head | None = None,
        model: nn.Module | None = None,
        class_names: Sequence[str] | None = None,
        provenance: Provenance | None = None,
        false_alarm_rate: float = FALSE_ALARM_RATE,
    ) -> None:
        super().__init__()
        if not isinstance(detector, Detector):
            raise InputError(f"detector must be a Detector, got {type(detector).__name__}")
        head = head or detector.head
        if head is None:
            raise InputError("the detector has no head: pass head=Head(weight, bias)")
        if class_names is not None and len(class_names) != head.classes:
            raise InputError(f"{len(class_names)} class names for a head of {head.classes} classes")
        calibration.threshold(false_alarm_rate)
        self.head = head.twin()
        self.head.register_load_state_dict_pre_hook(own_buffers)  # type: ignore[no-untyped-call]
        self.detector = detector
        self.calibration = calibration
        self.model = model
        self.loaded: LoadedModel | None = None
        self._capture: Capture | None = None
        self.class_names = None if class_names is None else tuple(class_names)
        self.provenance = provenance
        self.false_alarm_rate = false_alarm_rate

    @classmethod
    def fit(
        cls,
        features: ArrayLike | Batches,
        labels: ArrayLike | None = None,
        *,
        head: Head | nn.Linear,
        detector: Detector | str | None = None,
        ids: ArrayLike | None = None,
        calibration: ArrayLike | Batches | None = None,
        calibration_share: float = CALIBRATION_SHARE,
        **description: Unpack[Description],
    ) -> Guard:
        """Fit a detector on ID features and calibrate it on others that it did not see.

        ``detector`` is by default the recommended one; as text it may have options, ``"knn?k=50+react:90"``.
        Without ``calibration`` data a share of the features is held out, chosen by a hash of the sample ids.
        The promise is about data like the calibration data: where the network was trained on the features'
        images, pass others as ``calibration``. ``description`` are further arguments of `Guard`:
        ``class_names``, ``false_alarm_rate``, ….
        """
        detector = choose_detector(detector)
        head = Head.from_linear(head) if isinstance(head, nn.Linear) else head
        require_unseen(detector, features, calibration)
        to_fit: ArrayLike | Batches = features
        if calibration is None:
            to_fit, calibration = split(features, labels, ids, head, calibration_share)
            labels = ids = None
        detector.fit(to_fit, labels, head=head, ids=ids)
        scores = [detector.score(rows).cpu() for rows, _, _ in batches(calibration, None, None, head)]
        if not scores:
            raise InputError("no sample was held out for calibration: pass more data or calibration=")
        return cls(detector, Calibration(torch.cat(scores)), head=head, **description)

    # ------------------------------------------------------------------ verdicts

    def verdicts(
        self, inputs: ArrayLike | Sequence[Image], *, false_alarm_rate: float | None = None
    ) -> Verdicts:
        """Verdicts on features (N, D), on prepared images (N, 3, H, W), or on a list of pictures."""
        rate = self.false_alarm_rate if false_alarm_rate is None else false_alarm_rate
        features = self._features(inputs)
        scores = self.detector.score(features)
        tiles = (features[start : start + _TILE] for start in range(0, len(features), _TILE))
        predicted = [self.head(as_float(tile)).argmax(dim=1) for tile in tiles]
        columns = (
            torch.cat(predicted),
            scores,
            self.calibration.p_values(scores),
            self.calibration.is_ood(scores, rate),
        )
        template = inputs if isinstance(inputs, Tensor | np.ndarray) else scores
        return Verdicts(*(like(column, template) for column in columns))

    def forward(self, inputs: Tensor) -> Verdicts:
        return self.verdicts(inputs)

    def class_name(self, index: int) -> str:
        """The name of a class, or its number."""
        return str(index) if self.class_names is None else self.class_names[index]

    def _features(self, inputs: Any) -> Tensor:
        pictures = isinstance(inputs, list | tuple)
        values = as_tensor(prepared(self.loaded, inputs) if pictures else inputs, "inputs")
        if values.ndim == 2:
            return values
        model, images = images_for(self.model, values, self.head.width)
        if self._capture is None or self._capture.model is not model:
            self._capture = Capture(model, self.provenance.layer if self.provenance else None)
        return self._capture(images)[0]

    # ------------------------------------------------------------------ verdicts on paths

    def score_paths(
        self,
        paths: str | Path | Sequence[str | Path],
        *,
        kind: str | None = None,
        limit: int | None = None,
        model: str | None = None,
        weights: str | Path | None = None,
        false_alarm_rate: float | None = None,
        running: Running | None = None,
        progress: Callable[[int, int], None] = lambda _done, _total: None,
    ) -> Iterator[list[PathVerdict]]:
        """Verdicts on pictures, folders, data files and feature stores, mixed, in batches of rows.

        Pictures go through the guard's own model, loaded at the first of them; if it is code (``python:…``)
        the caller must name it as ``model``. ``weights`` is where its checkpoint is now; ``kind`` and
        ``limit`` are as in `ExtractionSettings`, the limit for each path. A picture that cannot be read is an
        error, or with ``Running(skip_unreadable=True)`` a row that says so. ``progress`` gets samples done,
        and those of all paths opened so far.
        """
        rate = self.false_alarm_rate if false_alarm_rate is None else false_alarm_rate
        self.calibration.threshold(rate)
        if model is not None and self.provenance is not None:
            trusted_spec(self.provenance, model)
        named = [paths] if isinstance(paths, str | Path) else paths
        reader = PathReader(
            self.provenance, lambda: self._own_model(model, weights), kind=kind, limit=limit, running=running
        )
        judge = partial(self.verdicts, false_alarm_rate=rate)
        return reader.verdicts([str(path) for path in named], judge, self.class_name, progress)

    def score_folder(
        self,
        folder: str | Path,
        *,
        kind: str | None = None,
        model: str | None = None,
        running: Running | None = None,
    ) -> list[PathVerdict]:
        """All verdicts of `score_paths` on one path at once: for what fits in memory."""
        return list(chain.from_iterable(self.score_paths(folder, kind=kind, model=model, running=running)))

    def _own_model(self, model: str | None, weights: str | Path | None) -> LoadedModel:
        """The model that the guard was fitted on: attached, or loaded and attached now."""
        if self.loaded is None:
            if self.provenance is None:
                raise InputError("the guard does not know its model: it can score feature stores, not images")
            self.attach(load_trusted(self.provenance, model, weights))
        assert self.loaded is not None
        return self.loaded

    # ------------------------------------------------------------------ the model, and files

    def attach(self, loaded: LoadedModel | nn.Module) -> Guard:
        """Give the guard its model; refused unless its weights are those the guard was fitted on.

        A plain `nn.Module` will do for batches of prepared images, and for a guard that knows of no model.
        """
        if isinstance(loaded, nn.Module):
            if self.provenance is not None:
                raise InputError(
                    f"the guard was fitted on {self.provenance.model}: attach(load_model(…)), whose weights "
                    f"and preprocessing can be compared"
                )
            self.model, self.loaded = loaded, None
            return self
        require_model(self.provenance, loaded)
        self.model, self.loaded = loaded.model, loaded
        return self

    def save(self, path: str | Path, *, with_head: bool = True) -> None:
        """Write the guard as one safetensors file; without the head, `load` takes it from the model."""
        parts = GuardParts(
            detector=PackedDetector.of(self.detector),
            calibration=self.calibration,
            head=self.head if with_head else None,
            provenance=self.provenance,
            class_names=self.class_names,
            false_alarm_rate=self.false_alarm_rate,
        )
        write_guard(path, parts)

    @classmethod
    def load(cls, path: str | Path, *, model: str | None = None, weights: str | Path | None = None) -> Guard:
        """A guard from a file, or a ready-made one by its name.

        A guard stored without its head takes it from its model, with the checkpoint ``weights`` if it is not
        where it was. If that model is code (``python:…``), the caller must name it: opening a file runs no
        code that only the file asks for.
        """
        parts, loaded = read_guard(path), None
        head = parts.head
        if head is None:
            if parts.provenance is None:
                raise FormatError("the guard has neither a head nor a model to take it from")
            loaded = load_trusted(parts.provenance, model, weights)
            head = checked_capture(loaded, parts.provenance.layer).head
        with undamaged(find(path), REMEDY):
            guard = cls(
                parts.detector.unpack(head=head),
                parts.calibration,
                head=head,
                class_names=parts.class_names,
                provenance=parts.provenance,
                false_alarm_rate=parts.false_alarm_rate,
            )
        return guard if loaded is None else guard.attach(loaded)
