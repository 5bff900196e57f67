"""The guard: a classifier's head, a fitted detector and its calibration, ready to give verdicts.

    guard = Guard.fit(store, head=store.head)
    verdicts = guard.verdicts(features)               # or images, where the guard has its model
    for rows in guard.score_paths(["pictures/new"]):  # pictures, folders, feature stores
        ...

A sample is flagged when its conformal p-value is at most ``false_alarm_rate``: of ID data like the
calibration data, at most that share is flagged, in finite samples (see `calibration`). How features are
judged is in `judge`, how a model gives them in `model_judge`, how files are judged in `path_judge`; here are
fits, reasons and the guard's own file.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict, Unpack

from PIL.Image import Image
from torch import Tensor, nn

from ..core.arrays import ArrayLike
from ..core.errors import CalibrationWarning, FormatError, InputError
from ..core.files import undamaged
from ..detectors import Detector, create
from ..detectors._storage import PackedDetector
from ..features.checked import checked_capture
from ..features.encoder import OUTPUT
from ..reference.head import Head
from ..reference.reference import Batches, Reference
from .calibrated import Calibrated, calibrate
from .calibration import Calibration
from .choice import choose_detector, require_head
from .explain import NEIGHBOURS, TOP, Explainer
from .explanation import Explanation
from .export import Exported, ExportOptions, export_guard
from .holdout import require_rows, require_unseen, split
from .martingale import MARTINGALE
from .monitor import Monitor
from .nearest import BankLike
from .origin import Origin, origin_of, require_one_model
from .path_judge import PathJudge
from .provenance import Provenance, load_trusted
from .repeated import RowCheck
from .shown import require_shown_alike, shown_of, suited
from .state import description_bytes, restore
from .storage import REMEDY, GuardParts, find, read_guard, write_guard

CALIBRATION_SHARE = 0.2


class Description(TypedDict, total=False):
    """What a guard is told beside what it learns: further arguments of `Guard` and `Guard.fit`."""

    model: nn.Module | None
    class_names: Sequence[str] | None
    provenance: Provenance | None
    false_alarm_rate: float
    origin: Origin | None
    calibrated: Calibrated | None


class Guard(PathJudge):
    """Verdicts on features, on batches of images, on pictures, or on whatever lies at a path.

    Features are enough for `verdicts`; for images the guard needs its model (`attach`). Detector, calibration
    and head are copied: a guard owns its parts, and nothing that happens to the originals changes it.

    >>> means, labels, rng = 4 * np.eye(3, 8), np.arange(300) % 3, np.random.default_rng(0)
    >>> train, val = (means[labels] + rng.normal(size=(300, 8)) for _ in range(2))
    >>> guard = th.Guard.fit(train, labels, head=th.Head(means), calibration=val)
    >>> guard.verdicts(np.stack([means[0], np.full(8, 9.0)])).is_ood
    array([False,  True])
    >>> guard.save("guard.safetensors")  # th.Guard.load
    """

    def __init__(
        self,
        detector: Detector,
        calibration: Calibration,
        *,
        head: Head | None = None,
        **description: Unpack[Description],
    ) -> None:
        if not isinstance(detector, Detector):
            raise InputError(f"detector must be a Detector, got {type(detector).__name__}")
        super().__init__(copy.deepcopy(detector), copy.deepcopy(calibration), head, **description)
        if (tied := calibration.doubt(self.false_alarm_rate)) is not None:
            warnings.warn(tied, CalibrationWarning, stacklevel=2)
        self.register_load_state_dict_pre_hook(restore)  # type: ignore[no-untyped-call]

    @classmethod
    def of_own(
        cls,
        detector: Detector,
        calibration: Calibration,
        head: Head | None,
        **description: Unpack[Description],
    ) -> Guard:
        """A guard of parts that nobody else holds: large ones need not be there twice."""
        guard = cls.__new__(cls)
        PathJudge.__init__(guard, detector, calibration, head, **description)
        guard.register_load_state_dict_pre_hook(restore)  # type: ignore[no-untyped-call]
        return guard

    @classmethod
    def fit(
        cls,
        features: ArrayLike | Batches | Reference,
        labels: ArrayLike | None = None,
        *,
        head: Head | nn.Linear | None = None,
        detector: Detector | str | None = None,
        ids: ArrayLike | None = None,
        calibration: ArrayLike | Batches | None = None,
        calibration_share: float = CALIBRATION_SHARE,
        per_class: bool | int = False,
        **description: Unpack[Description],
    ) -> Guard:
        """Fit a detector on ID features and calibrate it on others that it did not see.

        ``detector`` is by default the recommended one; as text it may have options, ``"knn?k=50+react:90"``.
        A score that looks at features alone (KNN, MDS, SSD+, …) needs no ``head``; without one the guard
        predicts no class.
        A collected `Reference` needs ``calibration`` data, of samples that it did not see: its own are not
        there to be held out, or to be compared.
        Without ``calibration`` data a share of the features is held out, chosen by a hash of the sample ids.
        The promise is about data like the calibration data: where the network was trained on the features'
        images, pass others as ``calibration``. ``per_class`` keeps the promise for every predicted class with
        100 calibration scores or more, or as many as it says; smaller ones are pooled, see `by_class`.
        A score that changes the model's inputs (ODIN) does so where the features are of such inputs, those of
        ``Capture(model, score=detector).over(loader)``; on others it takes its form on features (ε = 0).
        Features of several layers are scored layer by layer, see `Layered`.
        ``description`` are further arguments of `Guard`: ``class_names``, ``false_alarm_rate``, ….
        """
        detector = copy.deepcopy(choose_detector(detector))
        head = Head.from_linear(head) if isinstance(head, nn.Linear) else copy.deepcopy(head)
        if isinstance(features, Reference):
            head = features.seen_through(head).head
        detector = suited(detector, shown_of(features))
        require_head(detector, head)
        require_shown_alike(features, calibration)
        fitted = require_unseen(detector, features, calibration)
        require_one_model(features, calibration)
        to_fit: ArrayLike | Batches | Reference = features
        own_share = calibration is None
        if calibration is None:
            to_fit, calibration = split(require_rows(features), labels, ids, head, calibration_share)
            labels, ids, fitted = None, None, [to_fit]
        rows = RowCheck(fitted, calibration, head, share=own_share)
        detector.fit(rows.read(to_fit), labels, head=head, ids=ids)
        held_out = rows.read(calibration)
        scores, calibrated = calibrate(detector, held_out, head, own_share=own_share, per_class=per_class)
        description.setdefault("calibrated", calibrated)
        if description.get("origin") is None and description.get("provenance") is None:
            description["origin"] = origin_of(features, head, detector.width, description.get("model"))
        guard = cls.of_own(detector, scores, head, **description)
        tied = guard.calibration.doubt(guard.false_alarm_rate)
        for doubt in filter(None, (rows.doubt(), calibrated.doubt, tied)):
            warnings.warn(doubt, CalibrationWarning, stacklevel=2)
        return guard

    # ------------------------------------------------------------------ reasons

    def explain(
        self,
        inputs: ArrayLike | Sequence[Image],
        *,
        bank: BankLike | None = None,
        names: Sequence[str] | None = None,
        top: int = TOP,
        neighbours: int = NEIGHBOURS,
        false_alarm_rate: float | None = None,
    ) -> list[Explanation]:
        """Why the verdicts are what they are, a record a sample; ``inputs`` are as for `verdicts`.

        ``bank`` are ID features of the guard's model (a feature store, or a file of features), for the
        nearest ID samples and for what the guard does not keep itself. An `Explainer` is worth keeping for
        more than one call.
        """
        told = Explainer(self, bank=bank, top=top, neighbours=neighbours, false_alarm_rate=false_alarm_rate)
        return told(inputs, names=names)

    def monitor(self, *, alarm: float | None = None, kind: str = MARTINGALE, seed: int = 0) -> Monitor:
        """A monitor of a stream of this guard's scores: whether it is still like the calibration data."""
        return Monitor(self.calibration, alarm=alarm, kind=kind, seed=seed)

    # ------------------------------------------------------------------ files

    def save(self, path: str | Path, *, with_head: bool = True) -> None:
        """Write the guard as one safetensors file; without the head, `load` takes it from the model."""
        if not with_head and self.provenance is not None and self.provenance.layer == OUTPUT:
            raise InputError("the guard's model is an encoder without a head: save the guard with its own")
        write_guard(path, self.parts(self.head if with_head else None))

    def export(self, path: str | Path, **options: Unpack[ExportOptions]) -> Exported:
        """Write one graph for other runtimes, ``.onnx`` or ``.pt2``, with score, calibration and verdict
        inside.

        It ``takes`` prepared ``"images"`` where the guard has or knows its model, else ``"features"``;
        ``with_preprocessing`` pictures in bytes, where a graph can prepare them. The graph is compared with
        PyTorch on made inputs and on real ones, ``check``: a path, features, images or pictures. One that
        differs is not written. ``model`` and ``weights`` are as in `load`. `load_exported` reads it.
        """
        return export_guard(self, path, **options)

    def parts(self, head: Head | None) -> GuardParts:
        """All that a file has of the guard, with this head or without one."""
        return GuardParts(
            detector=PackedDetector.of(self.detector),
            calibration=self.calibration,
            head=head,
            provenance=self.provenance,
            class_names=self.class_names,
            false_alarm_rate=self.false_alarm_rate,
            headless=self.head is None,
            origin=self.origin,
            calibrated=self.calibrated,
        )

    def get_extra_state(self) -> Tensor:
        """The part of `state_dict` that is no buffer: which score, whose features, which classes."""
        return description_bytes(self.parts(self.head))

    def set_extra_state(self, state: Tensor) -> None:
        """Nothing is left to do: `restore` has taken the state whole before any tensor is loaded."""

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        model: str | None = None,
        weights: str | Path | None = None,
        accept_code_change: bool = False,
    ) -> Guard:
        """A guard from a file, or a ready-made one by its name.

        A guard stored without its head takes it from its model, with the checkpoint ``weights`` if it is not
        where it was. If that model is code (``python:…``), the caller must name it: opening a file runs no
        code that only the file asks for. Code that has changed since the guard was fitted is refused, unless
        the caller knows that it computes the same: ``accept_code_change``.
        """
        parts, source = read_guard(path), find(path)
        return cls.of_parts(
            parts, source, model=model, weights=weights, accept_code_change=accept_code_change
        )

    @classmethod
    def of_parts(
        cls,
        parts: GuardParts,
        source: Path,
        *,
        model: str | None = None,
        weights: str | Path | None = None,
        accept_code_change: bool = False,
    ) -> Guard:
        """The guard of parts that were read from ``source``; the rest is as for `load`."""
        head, loaded = parts.head, None
        if head is None and not parts.headless:
            if parts.provenance is None:
                raise FormatError("the guard has neither a head nor a model to take it from")
            loaded = load_trusted(parts.provenance, model, weights, accept_code_change=accept_code_change)
            asking = create(parts.detector.name, **parts.detector.options)
            score = None if parts.provenance.model_score is None else asking
            head = checked_capture(loaded, parts.provenance.layer, score=score).head
        with undamaged(source, REMEDY):
            guard = cls.of_own(
                parts.detector.unpack(head=head),
                parts.calibration,
                head,
                class_names=parts.class_names,
                provenance=parts.provenance,
                false_alarm_rate=parts.false_alarm_rate,
                origin=parts.origin,
                calibrated=parts.calibrated,
            )
        guard.accept_code_change = accept_code_change
        return guard if loaded is None else guard.attach(loaded)
