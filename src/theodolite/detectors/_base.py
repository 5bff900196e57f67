"""The contract of a detector. Validation, tiles, devices, precision and files live here, once."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from ..core.arrays import AnyArray, ArrayLike, as_matrix, like
from ..core.errors import InputError, NotFittedError
from ..core.graphs import fixed, recording
from ..core.once import once
from ..core.plain import JsonValue
from ..reference.head import Head, Move, keeping_precision
from ..reference.reference import Batches, Reference, collect_views
from ..reference.statistics import Needs
from ..reference.view import PLAIN, View
from ._common import in_precision, unit
from ._fitting import fit_many
from ._model_score import model_score_text
from ._options import CheckedOptions, option_names
from ._precision import require_finite_state, unit_view, within_float64
from ._registry import OptionValue, Record
from ._state import own_buffers, rebuild
from ._storage import save
from ._tiled import Tiled
from .shaping import Learner, Shaping, parse_shaping

# Entries of one tile of logits. On a CPU 4 MiB of float32: large enough for the product to run at full speed,
# small enough for the tile and its temporaries to stay in the last cache. Elsewhere enough to fill a device.
_TILE_ENTRIES_CPU = 2**20
_TILE_ENTRIES_DEVICE = 2**24
_MIN_TILE_ROWS = 16


class Detector(CheckedOptions, Tiled):
    """A score of features: fit on in-distribution data, then `score`. HIGHER = MORE IN-DISTRIBUTION.

    The constructor stores hyper-parameters; everything learnt is in buffers. A subclass writes `needs`,
    `_fit` and `_score`, its mathematics on one tile of float rows, and nothing else.

    >>> class Mean(th.Detector):
    ...     def _score(self, features, logits): return features.mean(dim=1)
    >>> Mean().fit(np.zeros((4, 2)), head=th.Head(np.eye(2))).score(np.array([[1.0, 3.0]]))
    array([2.])
    """

    record: ClassVar[Record]
    uses_logits: ClassVar[bool] = True
    reads_head: ClassVar[bool] = False  # looks at the rows of a head, though not at logits
    unit: ClassVar[bool] = False  # look at features divided by their norm
    of_layers: ClassVar[bool] = False  # takes rows of several layers (`MultiLayer`)
    of_words: ClassVar[bool] = False  # takes words beside the names of the classes (`NegLabel`)
    observes: tuple[str, ...] = ()  # what the numbers that `observe` gives are called
    bank_seed: int = 0
    exact_directions: bool = False  # what was learnt from unit features needs more than float32's digits

    def __init__(self, *, shaping: Shaping | str | None = None) -> None:
        super().__init__()
        self.head: Head | None = None
        self.width: int | None = None
        # A copy: what one detector teaches a shaping is not another's business.
        self.shaping = parse_shaping(shaping) if isinstance(shaping, str) else copy.deepcopy(shaping)
        self.register_load_state_dict_pre_hook(own_buffers)  # type: ignore[no-untyped-call]
        self.register_load_state_dict_post_hook(rebuild)  # type: ignore[no-untyped-call]

    # ------------------------------------------------------------------ for subclasses

    @property
    def needs(self) -> Needs:
        """The statistics `fit` must collect."""
        return Needs()

    def _fit(self, reference: Reference) -> None:
        """Turn the reference's statistics into buffers (`register_buffer`)."""

    def _build(self) -> None:
        """Derive tables from buffers and head alone; called after a fit and after a load."""

    def _tile_rows(self, device: torch.device) -> int:
        """Rows scored at once, so that extra memory does not grow with N."""
        entries = _TILE_ENTRIES_CPU if device.type == "cpu" else _TILE_ENTRIES_DEVICE
        columns = max(self.head.classes if self.head is not None else 1, (self.width or 1) // 4)
        return max(_MIN_TILE_ROWS, entries // columns)

    # ------------------------------------------------------------------ fit

    def fit(
        self,
        features: ArrayLike | Batches | Reference | None = None,
        labels: ArrayLike | None = None,
        *,
        head: Head | None = None,
        ids: ArrayLike | None = None,
    ) -> Self:
        """Learn from ID features: arrays, tensors, an iterable of batches, or a collected `Reference`.

        ``head`` is the classifier's last layer. ``ids`` number the samples where a bank is kept; they make
        its choice independent of the order of the data. A score that needs no data takes ``fit(head=head)``.
        """
        if isinstance(features, Reference):
            reference = features.seen_through(head)
        elif features is None:
            reference = self._without_data(head)
        else:
            fit_many([self], features, labels, head=head, ids=ids)
            return self
        return self._adopt(reference)

    def collect(
        self,
        features: ArrayLike | Batches,
        labels: ArrayLike | None = None,
        *,
        head: Head | None = None,
        ids: ArrayLike | None = None,
    ) -> Reference:
        """What `fit` would learn from, as a reference that merges with others: ``fit(first + second)``.

        For data in parts, on one machine or many; ids must be distinct across the parts.
        """
        if isinstance(self.shaping, Learner):
            self.shaping.require_learnt_with(head)
        view = View(self.view_key, self._shape, self.needs, self.bank_seed, self.seen_width)
        return collect_views(features, labels, head=head, views=[view], ids=ids, account=True)[0]

    def save(self, path: str | Path) -> None:
        """Write the fitted detector as one safetensors file; `theodolite.load` reads it back."""
        save(self, path)

    def _without_data(self, head: Head | None) -> Reference:
        if self.needs.anything:
            raise InputError(f"features are missing: {self._name} needs {', '.join(self.needs.names())}")
        if head is None:
            raise InputError(f"{self._name} needs a head: pass head=Head(weight, bias)")
        if self.shaping is not None and self.shaping.learns:
            raise InputError(f"features are missing: {self.shaping.title} needs them for what it learns")
        return Reference.empty(head, self.view_key)

    def _adopt(self, reference: Reference) -> Self:
        if reference.view != self.view_key:
            raise InputError(
                f"the reference holds statistics of {reference.view!r} features, {self._name} needs "
                f"{self.view_key!r}: pass the features themselves, or use fit_many"
            )
        have, needs = reference.statistics.needs, self.needs
        if have | needs != have:
            raise InputError(f"the reference lacks what {self._name} needs: {', '.join(needs.names())}")
        if reference.statistics.width != (self.seen_width or reference.width):
            raise InputError(
                f"the reference holds statistics of width {reference.statistics.width}, {self._name} needs "
                f"{self.seen_width or reference.width}"
            )
        if (needs.bank or needs.bank_share) and reference.statistics.seed != self.bank_seed:
            raise InputError(
                f"the reference's bank was drawn with seed {reference.statistics.seed}, "
                f"{self._name} asks for seed {self.bank_seed}"
            )
        if needs.by_class and int((reference.statistics.moments.counts > 0).sum()) < 2:
            raise InputError("labels hold one class only: class means need samples of at least two classes")
        if reference.head is None and self.uses_logits:
            raise InputError(f"{self._name} needs a head: pass head=Head(weight, bias)")
        asked = needs.answers or needs.class_accuracy
        if asked and reference.statistics.answers.rows != reference.count:
            raise InputError(
                f"the reference was collected without the head, whose answers {self._name} learns from, or "
                f"by a version that did not count them: collect it again with head=Head(weight, bias)"
            )
        before = {
            name: copy.copy(value) if isinstance(value, dict) else value
            for name, value in self.__dict__.items()
        }
        try:
            self.head = None if reference.head is None else reference.head.twin()
            self.width, self._frozen = reference.width, False
            with within_float64(self._name):
                self._fit(reference)
                require_finite_state(self)
                self._build()
            self._frozen = True
        except BaseException:
            # A fit that was refused leaves the detector as it was.
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def _wear(self, shaping: Shaping | None) -> None:
        """Put on a shaping that has learnt, whatever is frozen."""
        nn.Module.__setattr__(self, "shaping", shaping)  # type: ignore[arg-type]

    def _apply(self, fn: Move, recurse: bool = True) -> Self:
        """Move buffers to another device. Their precision stays: it is what the score needs."""
        super()._apply(keeping_precision(fn), recurse)  # type: ignore[no-untyped-call]
        rebuild(self)
        return self

    # ------------------------------------------------------------------ score

    def score(self, features: AnyArray, logits: ArrayLike | None = None) -> AnyArray:
        """Scores (N,) of features (N, D), higher = more in-distribution.

        NumPy in, NumPy out; torch in, torch out on the same device. Logits the model has already computed
        save the product with the head. Rows are worked in tiles: any split of the rows gives the same scores.
        A row with NaN or infinity is refused; in a recorded graph, which cannot refuse, its score is NaN.
        """
        rows = self._checked(features)
        given = self._checked_logits(logits, rows)
        if self.shaping is not None:
            given = None  # they belong to the features as they were before shaping
        if recording():
            return like(self._recorded(rows, given), features)
        return like(self._scores(rows, given), features)

    def forward(self, features: Tensor, logits: Tensor | None = None) -> Tensor:
        return self.score(features, logits)

    def _checked(self, features: ArrayLike) -> Tensor:
        if self.width is None:
            raise NotFittedError(f"{self._name} is not fitted: call fit(features, labels, head=head) first")
        expected = f"{self._name} was fitted on {self.width}: pass the input of the last linear layer"
        return as_matrix(features, "features", self.width, expected)

    def _checked_logits(self, logits: ArrayLike | None, rows: Tensor) -> Tensor | None:
        if logits is None or self.head is None:
            return None
        classes = fixed(self.head.classes)
        given = as_matrix(logits, "logits", classes, f"the head has {classes} classes")
        if not recording() and len(given) != len(rows):
            raise InputError(f"logits have {len(given)} rows, but features have {len(rows)}")
        return given

    def _view(self, features: Tensor) -> Tensor:
        """The features as this score sees them."""
        shaped = self._shaped(features if self.head is None else once(self.head.prepare, features))
        seen = in_precision(shaped, torch.float64) if self.unit and self.exact_directions else shaped
        return unit(seen) if self.unit else seen

    def _shape(self, prepared: Tensor) -> Tensor:
        """Features that went through `Head.prepare` as a fit sees them: the same, in the digits it needs."""
        shaped = self._shaped(prepared)
        return unit_view(shaped) if self.unit else shaped

    def _shaped(self, prepared: Tensor) -> Tensor:
        return prepared if self.shaping is None else once(self.shaping, prepared)

    @property
    def view_key(self) -> str:
        """Names what `_shape` does; detectors with the same key can share statistics."""
        parts = [self.shaping.view_key] if self.shaping is not None else []
        return "+".join([*parts, "unit"] if self.unit else parts) or PLAIN

    @property
    def seen_width(self) -> int | None:
        """The width of what `_shape` gives, where it is not that of the features."""
        return None

    def _logits(self, features: Tensor) -> Tensor:
        """Logits of features that went through `_view`; none for a score that does not look at them."""
        if self.head is None or not self.uses_logits:
            return features[:, :0]
        return once(self.head.logits, features)

    # ------------------------------------------------------------------ description

    def options(self) -> dict[str, OptionValue]:
        """The hyper-parameters, as the constructor takes them."""
        chosen = {name: getattr(self, name) for name in option_names(type(self).__init__)}
        if self.shaping is not None:
            chosen["shaping"] = self.shaping.spec
        return chosen

    @classmethod
    def caution(cls, options: Mapping[str, JsonValue], classes: int) -> str | None:  # noqa: ARG003
        """What to know before this score with these options is trusted on so many classes; mostly nothing."""
        return None

    def prepare(self, model: nn.Module, inputs: Tensor) -> Tensor:  # noqa: ARG002
        """What the model should be shown instead of ``inputs``: the same, but for scores that perturb it."""
        return inputs

    def observe(self, model: nn.Module, inputs: Tensor) -> Mapping[str, Tensor]:  # noqa: ARG002
        """Numbers (N, E) computed from the model and what it is shown, for each name in `observes`.

        For scores of several layers (`MultiLayer`), which find them among their layers.
        """
        return {}

    @property
    def model_score(self) -> str | None:
        """Names what `prepare` and `observe` ask of a model; None for a score that works from features."""
        asks = type(self).prepare is not Detector.prepare or self.observes
        return model_score_text(self) if asks else None

    @property
    def _name(self) -> str:
        record = getattr(type(self), "record", None)
        return type(self).__name__ if record is None else str(record.title)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self.options().items())
