"""The guard: a classifier's head, a fitted detector and its calibration, ready to give verdicts.

    guard = Guard.fit(store, head=store.head)
    verdicts = guard.verdicts(features)          # or images, where the guard has its model

A sample is flagged when its conformal p-value is at most ``false_alarm_rate``: of ID data like the
calibration data, at most that share is flagged, in finite samples (see `calibration`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ..core.arrays import ArrayLike, as_float, as_tensor, like
from ..core.errors import InputError
from ..detectors import RECOMMENDED, Detector, create
from ..detectors._banked import Banked
from ..detectors._base import own_buffers
from ..features.store import FeatureStore, StoreParts
from ..reference.head import Head
from ..reference.reference import Batches, batches
from .calibration import Calibration
from .holdout import split

if TYPE_CHECKING:
    from PIL.Image import Image

    from ..features.capture import Capture
    from ..models import LoadedModel

CALIBRATION_SHARE = 0.2
FALSE_ALARM_RATE = 0.05
# Rows whose logits are held at once.
_TILE = 4096


class Verdicts(NamedTuple):
    """One entry a sample: class, score (higher = more in-distribution), p-value, flagged or not."""

    predicted: ArrayLike
    score: ArrayLike
    p_value: ArrayLike
    is_ood: ArrayLike


@dataclass(frozen=True)
class Provenance:
    """The model whose features a guard was fitted on."""

    model: str
    weights: str
    preprocess: str
    layer: str
    weights_file: str | None = None


class Guard(nn.Module):
    """Verdicts on features, on batches of images, or on pictures.

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
        **description: Any,
    ) -> Guard:
        """Fit a detector on ID features and calibrate it on others that it did not see.

        ``detector`` is by default the recommended one. Without ``calibration`` data a share of the features
        is held out, chosen by a hash of the sample ids. The promise is about data like the calibration data:
        where the network was trained on the features' images, pass others as ``calibration``.
        ``description`` are further arguments of `Guard`: ``class_names``, ``false_alarm_rate``, ….
        """
        detector = detector or RECOMMENDED
        detector = create(detector) if isinstance(detector, str) else detector
        head = Head.from_linear(head) if isinstance(head, nn.Linear) else head
        if not isinstance(detector, Detector):
            raise InputError(f"detector must be a Detector or its name, got {type(detector).__name__}")
        _require_unseen(detector, features, calibration)
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
        if isinstance(inputs, list | tuple):
            if self.loaded is None:
                raise InputError("the guard cannot prepare pictures yet: attach(load_model(spec)) first")
            if not inputs:
                raise InputError("inputs is an empty list: pass at least one picture")
            from ..data.sample import plain

            for picture in inputs:
                if not hasattr(picture, "convert"):
                    raise InputError(
                        f"inputs hold a {type(picture).__name__}, expected PIL pictures: Image.open(path)"
                    )
            inputs = torch.stack([self.loaded.preprocess(plain(picture)) for picture in inputs])
        values = as_tensor(inputs, "inputs")
        if values.ndim == 2:
            return values
        if values.ndim == 3:
            raise InputError(
                f"inputs have shape {tuple(values.shape)}, expected a batch (N, channels, height, width): "
                f"one image is inputs[None]"
            )
        if self.model is None:
            raise InputError(
                f"inputs have shape {tuple(values.shape)}: the guard has no model to turn images into "
                f"features; pass features (N, {self.head.width}), or attach(load_model(spec)) first"
            )
        if self._capture is None or self._capture.model is not self.model:
            from ..features.capture import Capture

            self._capture = Capture(self.model, self.provenance.layer if self.provenance else None)
        home = next(self.model.parameters(), values)
        dtype = home.dtype if values.is_floating_point() else values.dtype
        features, _ = self._capture(values.to(home.device, dtype))
        return features

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
        from .storage import save

        save(self, path, with_head=with_head)

    @classmethod
    def load(cls, path: str | Path, *, model: str | None = None) -> Guard:
        """A guard from a file, or a ready-made one by its name.

        A guard stored without its head takes it from its model. If that model is code (``python:…``), the
        caller must name it: opening a file runs no code that only the file asks for.
        """
        from .storage import load

        return load(path, model=model)


def _require_unseen(detector: Detector, features: object, calibration: object) -> None:
    """Rows that the detector was fitted on, or that lie in its bank, are no calibration data."""
    if calibration is features or _keys(features) & _keys(calibration):
        raise InputError(
            "the calibration data is the data to fit on: scores of data they were fitted on promise nothing"
        )
    if not isinstance(detector, Banked) or detector.store is None:
        return
    if calibration is None or (
        isinstance(calibration, FeatureStore) and calibration.path.resolve() == Path(detector.store).resolve()
    ):
        raise InputError(
            f"{detector.record.title} keeps every row of {detector.store} as its bank, so none of them can "
            f"be held out to calibrate on: pass calibration= features of other samples"
        )


def _keys(data: object) -> set[str]:
    """The keys of the stores that data consists of."""
    parts = data.parts if isinstance(data, StoreParts) else (data,)
    return {part.key for part in parts if isinstance(part, FeatureStore)}


def trusted_spec(provenance: Provenance, model: str | None) -> str:
    """The spec of a guard's model, to be loaded; code only if the caller names it as well."""
    from ..models.registry import names_model

    if model is not None and not names_model(model, provenance.model):
        raise InputError(f"the guard was fitted on {provenance.model}, not on {model}")
    if model is None and provenance.model.startswith("python:"):
        raise InputError(
            f"the guard's model is code that would be run, {provenance.model}. If you trust the guard's "
            f"file, name it yourself: --model '{provenance.model}' (model= in Python)"
        )
    return provenance.model


def require_model(provenance: Provenance | None, loaded: LoadedModel) -> None:
    """Refuse a model other than the one whose features a guard knows."""
    if provenance is None:
        return
    if provenance.weights != loaded.digest:
        raise InputError(
            f"the weights of {loaded.spec} are not those the guard was fitted on: "
            f"sha256 {loaded.digest[:12]}…, expected {provenance.weights[:12]}…. "
            f"Remedy: pass the same checkpoint (--weights), or fit again"
        )
    if provenance.preprocess != loaded.preprocess_id:
        raise InputError(
            f"{loaded.spec} prepares images as {loaded.preprocess_id!r}, but the guard was fitted on "
            f"{provenance.preprocess!r}. Remedy: fit again"
        )
