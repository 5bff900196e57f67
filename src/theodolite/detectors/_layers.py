"""The contract of a score of several layers: rows that hold the features of each, split by name.

    class Mine(MultiLayer):
        layer_needs = Needs(mean=True)                       # what is collected of every layer

        def _fit_layers(self, references):                   # layer → Reference
            for place, reference in enumerate(references.values()):
                self.register_buffer(f"mean_{place}", reference.statistics.moments.mean)

        def _score_layers(self, layers, logits):             # layer → features (n, D_l)
            ...

Rows, tiles, precision, files, guards and benchmarks are those of every detector.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NoReturn, Self

from torch import Tensor

from ..core.arrays import ArrayLike
from ..core.errors import InputError
from ..features.layer_rows import LayerRows
from ..reference.head import Head
from ..reference.reference import Batches, Reference, batches
from ..reference.statistics import Needs, Statistics
from ..reference.view import PLAIN
from ._base import Detector
from ._registry import create


class LayerReferences(Reference):
    """What ID data taught of each layer; the last one's reference has the head."""

    def __init__(self, head: Head | None, width: int, layers: Mapping[str, Reference]) -> None:
        super().__init__(head, Statistics(Needs(), width, classes=None if head is None else head.classes))
        self.layers = layers


class MultiLayer(Detector):
    """A score of the features of several layers. A subclass writes `_fit_layers` and `_score_layers`.

    layers: whose columns a row has, ``"layer2:128,fc:512"``; a guard and a benchmark fill it in from the
    features they are given.

    >>> class Total(th.MultiLayer):
    ...     uses_logits = False
    ...     def _fit_layers(self, references): pass
    ...     def _score_layers(self, layers, logits): return sum(rows.sum(dim=1) for rows in layers.values())
    >>> Total(layers="block:2,fc:1").fit(np.ones((4, 3))).score(np.array([[1.0, 2.0, 3.0]]))
    array([6.])
    """

    of_layers = True
    layer_needs: Needs = Needs()

    def __init__(self, *, layers: str = "") -> None:
        super().__init__()
        self.layers = layers
        self.layer_rows = LayerRows.parse(layers or None)
        if layers and self.layer_rows is None:
            raise InputError(f"layers are {layers!r}, expected names with their widths: layer2:128,fc:512")

    def for_rows(self, rows: LayerRows) -> Detector:
        """A new one, to be fitted, that knows whose columns the rows have."""
        if self.layers not in ("", str(rows)):
            raise InputError(f"{self._name} is for the layers {self.layers}, the rows are {rows}")
        return create(self.record.name, **{**self.options(), "layers": str(rows)})

    # ------------------------------------------------------------------ for subclasses

    def _fit_layers(self, references: Mapping[str, Reference]) -> None:
        """Turn what was collected of each layer into buffers (`register_buffer`)."""

    def _score_layers(self, layers: Mapping[str, Tensor], logits: Tensor) -> Tensor:
        """Scores (n,) of one tile: the features (n, D_l) of every layer, the last one's before the head."""
        raise NotImplementedError(f"{type(self).__name__} defines no score of layers")

    # ------------------------------------------------------------------ the contract of every detector

    def fit(
        self,
        features: ArrayLike | Batches | Reference | None = None,
        labels: ArrayLike | None = None,
        *,
        head: Head | None = None,
        ids: ArrayLike | None = None,
    ) -> Self:
        """Learn from ID rows of several layers. ``head`` is over whole rows (`Capture.head`)."""
        if features is None or isinstance(features, Reference | Iterator):
            self._refuse_once()
        references = self._collected(features, labels, head, ids)
        return self._adopt(LayerReferences(head, self._rows().width, references))

    def collect(
        self,
        features: ArrayLike | Batches,  # noqa: ARG002
        labels: ArrayLike | None = None,  # noqa: ARG002
        *,
        head: Head | None = None,  # noqa: ARG002
        ids: ArrayLike | None = None,  # noqa: ARG002
    ) -> Reference:
        """Refused: one pass is not enough."""
        self._refuse_once()

    def _fit(self, reference: Reference) -> None:
        assert isinstance(reference, LayerReferences)
        self._fit_layers(reference.layers)

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:
        return self._score_layers(self._rows().split(features), logits)

    def _rows(self) -> LayerRows:
        if self.layer_rows is None:
            raise InputError(
                f"{self._name} scores several layers, and does not know whose columns the rows have: "
                f"layers='layer2:128,fc:512', or fit a guard with --layer, more than once"
            )
        return self.layer_rows

    def _refuse_once(self) -> NoReturn:
        raise InputError(
            f"{self._name} scores several layers and reads its rows more than once: pass arrays, a list of "
            f"batches or a feature store, not an iterator, a part or a reference"
        )

    def _needs_of(self, layer: str) -> Needs:  # noqa: ARG002
        return self.layer_needs

    def _seen_of(self, layer: str, rows: Tensor) -> Tensor:  # noqa: ARG002
        """The features of a layer as they are counted."""
        return rows

    def _collected(
        self,
        features: ArrayLike | Batches,
        labels: ArrayLike | None,
        head: Head | None,
        ids: ArrayLike | None,
    ) -> dict[str, Reference]:
        """One pass for all layers."""
        rows, classes = self._rows(), None if head is None else head.classes
        if head is not None and head.width != rows.width:
            raise InputError(f"the head expects {head.width} features, but the rows are {rows}")
        statistics = {
            name: Statistics(self._needs_of(name), width, classes=classes, seed=self.bank_seed)
            for name, width in zip(rows.names, rows.widths, strict=True)
        }
        empty = True
        for batch, batch_labels, batch_ids in batches(features, labels, ids, head):
            self._require_width(batch)
            for name, part in rows.split(batch).items():
                if statistics[name].needs.anything:
                    statistics[name].update(self._seen_of(name, part), batch_labels, batch_ids)
            empty = False
        if empty:
            raise InputError("features are empty: the iterable gave no batch")
        for known in statistics.values():
            if known.needs.labels and int((known.moments.counts > 0).sum()) < 2:
                raise InputError(
                    "labels hold one class only: class means need samples of at least two classes"
                )
        last = rows.names[-1]
        return {
            name: Reference(
                rows.head_of_last(head) if name == last and head is not None else None, known, PLAIN
            )
            for name, known in statistics.items()
        }

    def _require_width(self, batch: Tensor) -> None:
        rows = self._rows()
        if batch.shape[1] != rows.width:
            raise InputError(
                f"features have width {batch.shape[1]}, but the layers {rows} have {rows.width} together"
            )
