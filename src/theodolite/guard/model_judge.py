"""A judge with a model in front of it: images in, features by its model, verdicts out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import torch
from torch import Tensor, nn

from ..core.arrays import ArrayLike, as_float, as_tensor, like
from ..core.batches import Inputs, is_batch, moved
from ..core.errors import InputError, TheodoliteError
from ..core.graphs import exporting, recording
from ..detectors import Detector
from ..features.asking import inputs_of
from ..features.capture import Capture
from ..features.encoder import OUTPUT, OutputCapture
from ..models import LoadedModel
from ..models.registry import Preprocess
from ..reference.head import Head
from .calibrated import Calibrated
from .calibration import FALSE_ALARM_RATE, Calibration
from .discoveries import check_rules, discoveries
from .in_memory import (
    Named,
    as_loaded,
    as_named,
    provenance_of,
    require_known,
    require_own_head,
    require_same_head,
)
from .inputs import images_for, look_at_matrix, prepared, refused_by_model, require_samples
from .judge import Judge
from .origin import Origin
from .provenance import Provenance, load_trusted, require_model
from .shown import require_own_inputs, title_of
from .verdicts import FLAG, RAISE, Verdicts, check_unscorable


class ModelJudge(Judge):
    """Verdicts on features, on batches of images, or on pictures; for the latter it needs its model.

    ``accept_code_change`` says that the code of a model of one's own may be another than when it was fitted.
    """

    accept_code_change = False

    def __init__(
        self,
        detector: Detector,
        calibration: Calibration,
        head: Head | None,
        *,
        model: nn.Module | None = None,
        class_names: Sequence[str] | None = None,
        provenance: Provenance | None = None,
        false_alarm_rate: float = FALSE_ALARM_RATE,
        origin: Origin | None = None,
        calibrated: Calibrated | None = None,
    ) -> None:
        head = head or detector.head
        if class_names is not None and head is None:
            raise InputError("class names are for a guard with a head: without one no class is predicted")
        if class_names is not None and head is not None and len(class_names) != head.classes:
            raise InputError(f"{len(class_names)} class names for a head of {head.classes} classes")
        require_own_inputs(detector, provenance, origin)
        super().__init__(detector, calibration, head, false_alarm_rate)
        self.model = model
        self.loaded: LoadedModel | None = None
        self._capture: Capture | None = None
        self.class_names = None if class_names is None else tuple(class_names)
        self.provenance = provenance
        self.origin = origin
        self.calibrated = calibrated

    def verdicts(
        self,
        inputs: ArrayLike | Sequence[object] | Inputs,
        *,
        false_alarm_rate: float | None = None,
        fdr: float | None = None,
        unscorable: str = RAISE,
    ) -> Verdicts:
        """Verdicts on features (N, D), on prepared images (N, 3, H, W), or on a list of pictures; of a model
        that takes something else, on a list of that, texts for one, or on a batch as it takes it (`Inputs`).

        With ``fdr`` the batch is flagged as a whole: of those flagged, in expectation at most that share is
        ID (see `discoveries`).

        Rows of features with NaN or infinity are an error that names them; with ``unscorable="flag"`` they
        are flagged and marked as unscorable, and the others are judged as if they were alone.
        A guard whose score changes the model's inputs takes no features: it could not know of which inputs.
        """
        check_unscorable(unscorable)
        check_rules(fdr, false_alarm_rate)
        features, logits = self._seen(inputs, finite=unscorable != FLAG)
        template = inputs if isinstance(inputs, Tensor | np.ndarray) else features
        return self.verdicts_of_own(
            features, template, logits, rate=false_alarm_rate, fdr=fdr, unscorable=unscorable
        )

    def verdicts_of_own(
        self,
        features: Tensor,
        template: ArrayLike | None = None,
        logits: Tensor | None = None,
        *,
        rate: float | None = None,
        fdr: float | None = None,
        unscorable: str = RAISE,
    ) -> Verdicts:
        """Verdicts on features that the guard's own model gave, as its score asks for them."""
        columns = self.judge(features, rate, flag=unscorable == FLAG, logits=logits)
        if fdr is not None:
            p_values = as_tensor(columns.p_value, "p_values")
            found = discoveries(p_values, fdr, self.calibration)
            columns = columns._replace(is_ood=torch.isnan(p_values) | found)
        given = features if template is None else template
        return Verdicts(*(like(as_tensor(column, "verdicts"), given) for column in columns))

    def forward(self, inputs: Tensor, *, unscorable: str = RAISE) -> Verdicts:
        """`verdicts`; features may be recorded as a graph, in which unscorable rows are always flagged.

        A graph that was traced or exported gives the columns as a plain tuple: it needs nothing of ours.
        """
        if not recording():
            return self.verdicts(inputs, unscorable=unscorable)
        if inputs.ndim != 2:
            raise InputError(
                f"inputs have {inputs.ndim} dimensions: a guard is traced, exported or compiled on features "
                f"(N, {self.width}); record its model by itself"
            )
        self._require_images()
        columns = self.graph(inputs)
        return cast(Verdicts, tuple(columns)) if exporting() else columns

    @property
    def model_score(self) -> str | None:
        """What the score asks of the model, and was calibrated on; None: features of inputs as they are."""
        return require_own_inputs(self.detector, self.provenance, self.origin)

    @property
    def title(self) -> str:
        """The score by name, marked where it leaves out what it would ask of a model."""
        return title_of(self.detector, self.model_score)

    def _require_images(self) -> None:
        if self.model_score is not None:
            raise InputError(
                f"inputs are features, and do not say of which inputs they are: the guard was calibrated on "
                f"{inputs_of(self.model_score)}. Pass images, and attach(…) its model"
            )

    def class_name(self, index: int) -> str:
        """The name of a class, or its number."""
        if index < 0:
            raise InputError(f"there is no class {index}: an unscorable sample, or a guard without head")
        return str(index) if self.class_names is None else self.class_names[index]

    def attach(
        self,
        loaded: LoadedModel | nn.Module,
        *,
        preprocess: Preprocess | None = None,
        spec: str | None = None,
        weights: str | Path | None = None,
    ) -> Self:
        """Give the guard its model; refused unless its weights are those the guard was fitted on.

        A plain `nn.Module` will do for batches of prepared images; with its ``preprocess``, a function from
        a picture to a tensor, also for pictures and folders. ``spec`` (``python:my_module:factory``) and the
        checkpoint ``weights`` say how to build it again: they are checked now, and a guard saved afterwards
        knows where a command finds its model. A guard fitted on features alone cannot compare weights, and
        warns; the model's logits must be those of the guard's head with the first batch in any case.
        """
        if isinstance(loaded, LoadedModel):
            if preprocess is not None or spec is not None:
                raise InputError("preprocess and spec are for a plain nn.Module: a LoadedModel has its own")
            if self.provenance is None:
                require_known(self.origin, None, loaded.model, loaded.digest)
            require_model(self.provenance, loaded, accept_code_change=self.accept_code_change)
            return self._take(loaded.model, loaded)
        require_known(self.origin, self.provenance, loaded)
        if spec is not None:
            named = Named(spec, weights)
            known = as_named(loaded, preprocess, named)
            require_model(self.provenance, known, accept_code_change=self.accept_code_change)
            self._take(loaded, known)
            capture = self._own_capture(loaded)
            seen = capture(_look(loaded, known))
            if not capture.headless:
                self._checked_first(capture, *seen)
            self.provenance = self.provenance or provenance_of(known, capture, named)
            return self
        return self._take(
            loaded, None if preprocess is None else as_loaded(loaded, preprocess, self.provenance)
        )

    def _take(self, model: nn.Module, loaded: LoadedModel | None) -> Self:
        self.model, self.loaded, self._capture = model, loaded, None
        return self

    def _own_model(self, model: str | None, weights: str | Path | None) -> LoadedModel:
        """The model that the guard was fitted on: attached, or loaded and attached now."""
        if self.loaded is None:
            if self.provenance is None:
                raise InputError(
                    "the guard does not know its model: it can score feature stores and arrays of features, "
                    "not images. With its model in memory: attach(model, preprocess=…)"
                )
            accept = self.accept_code_change
            self.attach(load_trusted(self.provenance, model, weights, accept_code_change=accept))
        assert self.loaded is not None
        return self.loaded

    def _features(self, inputs: Any, *, finite: bool) -> Tensor:
        return self._seen(inputs, finite=finite)[0]

    def _seen(self, inputs: Any, *, finite: bool) -> tuple[Tensor, Tensor | None]:
        """Features, and the model's logits where it was run and they are as exact as the guard's would be."""
        values = self._batch_of(inputs)
        if isinstance(values, Tensor) and values.ndim == 2:
            self._require_images()
            look_at_matrix(self.model, values, self.width)
            return values, None
        model, images = images_for(self.model, values, self.width)
        capture = self._own_capture(model)
        first = capture is not self._capture
        try:
            features, logits = capture(images, finite=finite)
        except (RuntimeError, ValueError, TypeError, LookupError, AttributeError) as error:
            if isinstance(error, TheodoliteError | torch.OutOfMemoryError):
                raise
            raise refused_by_model(self.loaded, images, error) from error
        if capture.headless:
            self._capture = capture
            return features, None
        check = self._checked_first if first else self._checked_again
        if finite or math.isfinite(float(logits.sum())):  # the capture has looked, or it is done now
            check(capture, features, logits)
        elif bool((whole := torch.isfinite(logits).all(dim=1)).any()):
            check(capture, features[whole], logits[whole])
        exact = logits.dtype == features.dtype == as_float(features[:0]).dtype
        return features, logits if exact and self.head is not None else None

    def _batch_of(self, inputs: Any) -> Inputs:
        """Inputs as a tensor, or as whatever else the model takes; samples are prepared."""
        require_samples(self.loaded, inputs)
        if isinstance(inputs, list | tuple) and not is_batch(inputs):
            turn = self.provenance is not None and self.provenance.turns
            return prepared(self.loaded, inputs, turn=turn)
        return inputs if not isinstance(inputs, Tensor) and is_batch(inputs) else as_tensor(inputs, "inputs")

    def _own_capture(self, model: nn.Module) -> Capture:
        """The capture of the guard's model: the one that was checked, or a new one."""
        if self._capture is not None and self._capture.model is model:
            return self._capture
        known = self.provenance or self.origin
        if known is not None and known.layer == OUTPUT:
            return OutputCapture(model, force=True)
        score = None if self.model_score is None else self.detector
        return Capture(model, known.layer if known is not None else None, score)

    def _checked_first(self, capture: Capture, features: Tensor, logits: Tensor) -> None:
        """Keep a capture whose first batch shows that it looks at the guard's own model."""
        require_own_head(self.head, features, logits)
        self._capture = capture

    def _checked_again(self, _: Capture, features: Tensor, logits: Tensor) -> None:
        require_same_head(self.head, features, logits)


def _look(model: nn.Module, known: LoadedModel) -> Inputs:
    """A batch for a first look, where the model is and in its precision."""
    look, home = known.first_look(), next(model.parameters(), None)
    return look if home is None else moved(look, home)
