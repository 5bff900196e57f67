"""A guard for engines that call a function over batches: dicts of columns in, the same with verdicts out.

    judge = BatchGuard("guard.safetensors", column="features")
    dataset.map_batches(judge)                       # Ray; see docs/serving.md for Spark and MLflow

Such engines pickle the function and call it elsewhere, in other threads and processes. A `BatchGuard` travels
as the bytes of its guard's file, sealed by their checksum: whoever unpickles it has the same guard. The model
does not travel; where pictures are judged, it is loaded there by its name, and its weights must have the
digest that the guard knows.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from ..core.arrays import Array, ArrayLike
from ..core.errors import InputError, UnreadableImageError
from ..data.sample import TEXTS
from ..features.device import choose_device
from .columns import Column, Rows, rows_of
from .guard import Guard
from .owned import own_copy
from .verdicts import FLAG, NO_CLASS, RAISE, Verdicts, check_unscorable

Columns: TypeAlias = dict[str, Array]
ADDED = ("predicted", "name", "score", "p_value", "is_ood", "unscorable")
_BATCH = 64
_FILE = "guard.safetensors"


class _Packed(NamedTuple):
    """What of a `BatchGuard` travels."""

    guard: bytes
    column: str
    prefix: str
    model: str | None
    weights: str | None
    false_alarm_rate: float | None
    unscorable: str
    device: str | None
    batch_size: int
    accept_code_change: bool


class BatchGuard:
    """Verdicts as further columns of a batch. Calls may come from several threads.

    ``guard`` is a guard, its file, or the name of a ready-made one; of a guard it makes a copy, which shares
    no more than the numbers of a model with it: what happens to one changes nothing for the other. ``column``
    holds features (N, D), or a row of numbers each; or pictures: encoded (the bytes of PNG or JPEG files), as
    uint8 arrays (height, width, channels), or PIL images; or a batch (N, 3, H, W) of floats as the model
    takes them; or, for a model of texts, strings. What is added is called `ADDED`, after a ``prefix``.
    ``model`` and ``weights`` are as in `Guard.load`; samples go through the model ``batch_size`` at a time.
    ``device`` is where it is moved to.

    A row that is missing, holds NaN or infinity, or is a picture that cannot be read or an empty text is
    flagged and unscorable; with ``unscorable="raise"`` it is an error.

    >>> means, labels, rng = 4 * np.eye(3, 8), np.arange(300) % 3, np.random.default_rng(0)
    >>> train, val = (means[labels] + rng.normal(size=(300, 8)) for _ in range(2))
    >>> guard = th.Guard.fit(train, labels, head=th.Head(means), calibration=val)
    >>> judge = th.BatchGuard(guard, column="features")
    >>> judged = judge({"id": np.array([7, 8]), "features": np.stack([means[0], np.full(8, 9.0)])})
    >>> judged["id"], judged["is_ood"]
    (array([7, 8]), array([False,  True]))
    """

    def __init__(
        self,
        guard: Guard | str | Path,
        *,
        column: str = "features",
        prefix: str = "",
        model: str | None = None,
        weights: str | Path | None = None,
        false_alarm_rate: float | None = None,
        unscorable: str = FLAG,
        device: str | None = None,
        batch_size: int = _BATCH,
    ) -> None:
        check_unscorable(unscorable)
        if batch_size < 1:
            raise InputError(f"batch_size must be at least 1, got {batch_size}")
        if isinstance(guard, Guard):
            guard = own_copy(guard)
        else:
            guard = Guard.load(guard, model=model, weights=weights)
        if false_alarm_rate is not None:
            guard.calibration.require_rate(false_alarm_rate)
        self.guard = guard if device is None else guard.to(choose_device(device))
        self.column, self.prefix = column, prefix
        self.model, self.weights = model, None if weights is None else str(weights)
        self.false_alarm_rate, self.unscorable = false_alarm_rate, unscorable
        self.device, self.batch_size = device, batch_size
        self._loading = threading.Lock()

    def __call__(self, batch: Mapping[str, Column]) -> dict[str, Column]:
        """The batch with the added columns; a column of that name must not be there."""
        if self.column not in batch:
            raise InputError(
                f"the batch has no column {self.column!r}, it has {', '.join(map(repr, batch)) or 'none'}: "
                f"say which holds the features or pictures, BatchGuard(…, column='NAME')"
            )
        taken = [name for name in map(self._added, ADDED) if name in batch]
        if taken:
            raise InputError(
                f"the batch has a column {taken[0]!r} already, which would be lost: choose a prefix for what "
                f"is added, BatchGuard(…, prefix='guard_')"
            )
        return {**batch, **self.columns(batch[self.column])}

    def columns(self, values: Column) -> Columns:
        """The added columns alone, for a column of features or pictures; of no rows, columns of no rows."""
        rows = rows_of(values, self.column, bad_is_error=self.unscorable == RAISE)
        count = len(rows.good)
        columns: list[Array] = [
            np.full(count, NO_CLASS, np.int64),
            np.full(count, np.nan),
            np.full(count, np.nan),
            np.ones(count, np.bool_),
        ]
        for places, verdicts in self._judged(rows):
            for column, found in zip(columns, verdicts, strict=True):
                column[places] = np.asarray(torch.as_tensor(found).cpu())
        predicted, score, p_value, is_ood = columns
        names = np.array(
            [None if label == NO_CLASS else self.guard.class_name(label) for label in predicted.tolist()],
            object,
        )
        made = (predicted, names, score, p_value, is_ood, np.isnan(p_value))
        return {self._added(name): column for name, column in zip(ADDED, made, strict=True)}

    def _judged(self, rows: Rows) -> list[tuple[npt.NDArray[np.int64], Verdicts]]:
        """Verdicts on the rows there are, by their places; a batch of the model at a time."""
        places = np.flatnonzero(rows.good)
        if len(places) == 0:
            return []
        if isinstance(rows.content, np.ndarray) and rows.content.ndim == 2:
            return [(places, self._verdicts(rows.content))]
        self._with_model(pictures=isinstance(rows.content, list))
        if isinstance(rows.content, list) and isinstance(rows.content[0], str):
            places, rows = self._readable(places, rows)
        steps = range(0, len(places), self.batch_size)
        parts = ((places[start : start + self.batch_size], start) for start in steps)
        return [(part, self._verdicts(rows.content[start : start + len(part)])) for part, start in parts]

    def _readable(self, places: npt.NDArray[np.int64], rows: Rows) -> tuple[npt.NDArray[np.int64], Rows]:
        """The texts of which the model's preprocessing leaves something, and their places."""
        loaded = self.guard.loaded
        assert loaded is not None
        loaded.require_content(TEXTS, f"column {self.column!r}")
        kept: list[tuple[int, str]] = []
        for place, text in zip(places.tolist(), rows.content, strict=True):
            try:
                loaded.preprocess(text)
            except UnreadableImageError as error:
                if self.unscorable == RAISE:
                    raise InputError(f"row {place} of column {self.column!r}: {error}") from error
                continue
            kept.append((place, str(text)))
        return np.array([place for place, _ in kept], np.int64), Rows([text for _, text in kept], rows.good)

    def _verdicts(self, inputs: ArrayLike | Sequence[object]) -> Verdicts:
        rate, policy = self.false_alarm_rate, self.unscorable
        return self.guard.verdicts(inputs, false_alarm_rate=rate, unscorable=policy)

    def _with_model(self, *, pictures: bool) -> None:
        """Load the guard's model at the first image: once, whichever thread comes first."""
        with self._loading:
            if (self.guard.loaded if pictures else self.guard.model) is None:
                self.guard._own_model(self.model, self.weights)
                self.guard.to(self.guard.rate.device)

    def _added(self, name: str) -> str:
        return f"{self.prefix}{name}"

    # ------------------------------------------------------------------ the way to other processes

    def __reduce__(self) -> tuple[Callable[[_Packed], BatchGuard], tuple[_Packed]]:
        return _unpacked, (self._packed(),)

    def _packed(self) -> _Packed:
        guard = self.guard
        if guard.model is not None and guard.provenance is None:
            raise InputError(
                f"this BatchGuard cannot be pickled: its model, a {type(guard.model).__name__} in memory, "
                f"has no name by which another process could load it. Remedy: guard.attach(model, "
                f"spec='python:my_module:factory') names it; or pass features, and leave the model out: "
                f"BatchGuard('guard.safetensors')"
            )
        model = self.model
        if model is None and guard.loaded is not None and guard.provenance is not None:
            model = guard.provenance.model  # it runs here already: whoever unpickles this trusts it as much
        with tempfile.TemporaryDirectory() as folder:
            guard.save(Path(folder) / _FILE)
            content = (Path(folder) / _FILE).read_bytes()
        return _Packed(
            content,
            self.column,
            self.prefix,
            model,
            self.weights,
            self.false_alarm_rate,
            self.unscorable,
            self.device,
            self.batch_size,
            guard.accept_code_change,
        )


def _unpacked(packed: _Packed) -> BatchGuard:
    """The same in another process; bytes that are not those which were packed are refused by their seal."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / _FILE).write_bytes(packed.guard)
        guard = Guard.load(
            Path(folder) / _FILE, model=packed.model, accept_code_change=packed.accept_code_change
        )
    return BatchGuard(
        guard,
        column=packed.column,
        prefix=packed.prefix,
        model=packed.model,
        weights=packed.weights,
        false_alarm_rate=packed.false_alarm_rate,
        unscorable=packed.unscorable,
        device=packed.device,
        batch_size=packed.batch_size,
    )
