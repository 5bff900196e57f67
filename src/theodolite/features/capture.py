"""Capture: the features and logits of any classifier, by a hook on its last linear layer.

The head of a classifier is the layer whose output is the logits; its input is the feature. Which layer that
is shows in one forward pass: all linear layers are listened to, and the one that said what the model says is
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..core.batches import Inputs, called, moved, rows_in
from ..core.errors import CaptureError
from ..reference.head import Head
from .agreement import agree, explain_head, explain_none
from .asking import AsksModel, asked
from .hearing import hearing, require_free, require_layers, require_unpadded
from .layer_rows import LayerRows, layer_names
from .layers import Call, HeadLayer, head_layers, head_of, is_head_layer, logits_of
from .listening import listening, turn, untouched

_LABELS = ("labels", "label")


class Capture:
    """Features and logits of a classifier, by a hook on its last linear layer.

        capture = Capture(model)
        features, logits = capture(images)      # capture.head(features) equals logits
        features, logits = capture(tokenizer(texts, padding=True, return_tensors="pt"))

    A batch is whatever the model takes: a tensor, a tuple of arguments, a mapping of named ones (`Inputs`).

    ``layer`` names the head where it shall not be searched for. The first batch decides: `head` and `layer`
    are known after it, and a model whose logits do not follow from head and features is refused with the
    reason. The head is a copy of the weights at that moment.

    Several layers (``["layer2", "layer3"]``) give the outputs of these, pooled (see `hearing`), and behind
    them the features in front of the head: rows of all, as `rows` says, with a head over whole rows.
    ``score`` is a detector that changes the model's inputs, or computes from them (see `asking`).

    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))
    >>> capture = th.Capture(model)
    >>> features, logits = capture((torch.ones(5, 4),))
    >>> features.shape, logits.shape, capture.layer
    (torch.Size([5, 3]), torch.Size([5, 2]), '2')
    """

    headless = False

    def __init__(
        self, model: nn.Module, layer: str | Sequence[str] | None = None, score: AsksModel | None = None
    ) -> None:
        self.model = model
        self.score = None if score is None or score.model_score is None else score
        self._layer: str | None = None
        self._head: Head | None = None
        self._over: Head | None = None
        self._rows: LayerRows | None = None
        self._expected = LayerRows.parse(layer) if isinstance(layer, str) else None
        self._checked = False
        observed = () if self.score is None else tuple(self.score.observes)
        require_free(model, observed)
        names = [name for name in layer_names(layer) if name not in observed]
        self._asked = names if len(names) > 1 else []
        self._several = bool(self._asked or observed)
        require_layers(model, self._asked)
        layer = names[0] if len(names) == 1 else None
        self._named = bool(layer)
        if layer:
            named = dict(model.named_modules()).get(layer)
            if named is None or not is_head_layer(named):
                raise CaptureError(_not_a_head(model, layer, named))
            self._layer, self._head = layer, head_of(head_layers(model)[layer], layer)

    @property
    def layer(self) -> str:
        """Dotted name of the head, empty for the cosine head of a zero-shot model; of several layers the text
        of their `rows`."""
        self._require_known()
        if self._rows is not None:
            return str(self._rows)
        return "" if self.head.unit_features else str(self._layer)

    @property
    def rows(self) -> LayerRows | None:
        """Which columns are whose, of several layers; None where there is one."""
        self._require_known()
        return self._rows

    @property
    def several(self) -> bool:
        """Whether rows are made of more than the features in front of the head."""
        return self._several

    @property
    def model_score(self) -> str | None:
        """What a score asked of the model; None where the features are those of inputs as they are."""
        return None if self.score is None else self.score.model_score

    @property
    def head(self) -> Head:
        """The head of the rows: of several layers it looks at the last one."""
        self._require_known()
        assert self._head is not None
        return self._head if self._over is None else self._over

    @property
    def name(self) -> str:
        """Dotted name of the layer that is listened to, whatever the head is."""
        self._require_known()
        return str(self._layer)

    def __call__(
        self, inputs: Inputs, *, finite: bool = True, run: Callable[..., object] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Features (N, D) and logits (N, C) of a batch; mode, hooks and gradients stay as they were.

        They are those of what the score shows the model, where it changes the inputs.
        Rows that the model has no ``finite`` logits for are an error, or the caller's business. Threads that
        share a model take turns: a hook hears every call of its layer. ``run`` runs the model, where it shall
        not be called itself: one that was compiled.
        """
        layers, rows = head_layers(self.model, self._layer), rows_in(inputs)
        if self._several:
            require_unpadded(inputs)
        calls, heard = dict[str, Call](), dict[str, Tensor]()
        with turn(self.model), untouched(self.model):
            shown, own = asked(self.score, self.model, inputs)
            with listening(layers, calls), hearing(self.model, self._others(), heard):
                output = called(self.model if run is None else run, shown)
        logits = logits_of(output, rows, finite=finite)
        if not self._checked:
            whole = torch.isfinite(logits).all(dim=1)
            if self._layer is None or bool(whole.any()):
                self._settle(layers, *_rows_of(calls, logits, whole))
        call = calls.get(str(self._layer))
        if call is None or len(call.features) != rows:
            raise CaptureError(
                f"layer {self._layer!r} was not called once for each input: it is not the head of this "
                f"model. Leave out the layer's name to have the head found"
            )
        return self._joined(call.features, heard, own), logits

    def recorded(self, inputs: Tensor) -> Tensor:
        """Features (N, D) alone, while a graph is recorded, which can check nothing.

        The head must be known from a batch before, and the model in eval mode.
        """
        self._require_known()
        if self.score is not None:
            raise CaptureError(f"{self.model_score} asks more of the model than a graph can hold")
        name, calls, heard = str(self._layer), dict[str, Call](), dict[str, Tensor]()
        own = {name: head_layers(self.model)[name]}
        with listening(own, calls), hearing(self.model, self._others(), heard):
            self.model(inputs)
        others = [heard[other] for other in self._others()]
        return torch.cat([*others, calls[name].features], dim=1) if others else calls[name].features

    def over(self, batches: Iterable[Any]) -> Captured:
        """The features of batches of a loader, inputs or (inputs, labels, …), for `fit` and `Guard.fit`:

            capture = Capture(model)
            guard = Guard.fit(capture.over(loader), head=capture.head, calibration=capture.over(others))

        They are computed anew in every pass; the head is known at once. Of a mapping, ``labels`` or ``label``
        are the labels, and not shown to the model.
        """
        return Captured(self, batches)

    def _others(self) -> list[str]:
        """The layers to be heard beside the head."""
        return [name for name in self._asked if name != self._layer]

    def _joined(self, features: Tensor, heard: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> Tensor:
        """Whole rows: what the layers say, then a score's own numbers, then the features before the head."""
        if not self._several:
            return features
        parts = {**{name: heard[name] for name in self._others()}, **own}
        widths = tuple(int(part.shape[1]) for part in (*parts.values(), features))
        rows = LayerRows((*parts, str(self._layer)), widths)
        short = [name for name, part in parts.items() if len(part) != len(features)]
        if short:
            raise CaptureError(f"layer {short[0]!r} does not give one row for each input")
        if rows != (self._rows or self._expected or rows):
            raise CaptureError(f"the layers are {rows}, expected {self._rows or self._expected}")
        if self._rows is None:
            assert self._head is not None
            self._rows, self._over = rows, rows.head_over(self._head)
        return torch.cat([*parts.values(), features], dim=1)

    def _settle(self, layers: dict[str, HeadLayer], calls: dict[str, Call], logits: Tensor) -> None:
        """Find the head on the first batch, and check that it explains the logits."""
        if self._layer is None:
            name = _the_one(calls, logits, self._asked)
            self._layer, self._head = name, head_of(layers[name], name)
        call = calls.get(self._layer)
        if call is None:
            raise CaptureError(
                f"layer {self._layer!r} is not used when the model runs, so it cannot be its head. "
                f"Leave out the layer's name to have the head found"
            )
        assert self._head is not None
        problem = explain_head(self._head, call, logits, self._layer)
        if problem is not None:
            if not self._named:
                self._layer = self._head = None
            raise CaptureError(problem)
        self._checked = True

    @property
    def known(self) -> bool:
        """Whether a batch, or the layer's name, has said what the head is."""
        return self._head is not None and (self._rows is not None or not self._several)

    def _require_known(self) -> None:
        if not self.known:
            raise CaptureError(
                "the head is not known yet: call the capture on one batch first, or name the layer "
                "(Capture(model, layer='fc'))"
            )


class Captured:
    """The batches of a loader as (features, labels), as often as it is read."""

    def __init__(self, capture: Capture, batches: Iterable[Any]) -> None:
        if isinstance(batches, Iterator):
            raise CaptureError(
                "the batches are an iterator, which can be read once: pass the DataLoader, or a list"
            )
        self.capture = capture
        self.batches = batches
        if not capture.known:
            for _ in self:
                break

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor | None]]:
        for batch in self.batches:
            inputs, labels = _with_labels(batch)
            home = next(self.capture.model.parameters(), None)
            features, _ = self.capture(inputs if home is None else moved(inputs, home))
            yield features, labels


def _with_labels(batch: Any) -> tuple[Inputs, Any]:
    """The inputs of a loader's batch, and its labels if it has any."""
    if isinstance(batch, Mapping):
        known = next((name for name in _LABELS if name in batch), None)
        return {name: value for name, value in batch.items() if name != known}, batch.get(known)
    inputs, *rest = batch if isinstance(batch, tuple | list) else (batch,)
    return inputs, rest[0] if rest else None


def _rows_of(calls: dict[str, Call], logits: Tensor, whole: Tensor) -> tuple[dict[str, Call], Tensor]:
    """The rows of a batch that the head can be found and checked on: those with finite logits."""
    if bool(whole.all()):
        return calls, logits
    if not bool(whole.any()):
        raise CaptureError(
            "the model's logits hold NaN or infinity in every row: check weights and precision"
        )
    kept = {
        name: Call(call.features[whole], call.output[whole])
        for name, call in calls.items()
        if len(call.features) == len(call.output) == len(whole)
    }
    return kept, logits[whole]


def _the_one(calls: dict[str, Call], logits: Tensor, named: Sequence[str] = ()) -> str:
    """The only layer whose output is the logits, of several the only one that was named."""
    matching = [name for name, call in calls.items() if agree(call.output, logits)]
    if len(matching) > 1:
        matching = [name for name in matching if name in named] or matching
    if not matching:
        raise CaptureError(explain_none(calls, logits))
    if len(matching) > 1:
        names = ", ".join(repr(name) for name in matching)
        raise CaptureError(
            f"{len(matching)} layers give the model's logits: {names}. Name the one whose input is the "
            f"feature, for example Capture(model, layer={matching[-1]!r})"
        )
    return matching[0]


def _not_a_head(model: nn.Module, name: str, found: nn.Module | None) -> str:
    known = ", ".join(list(head_layers(model))[-3:]) or "none"
    problem = "is no layer of the model" if found is None else f"is a {type(found).__name__}"
    return (
        f"layer {name!r} {problem}, expected a linear layer or a 1×1 convolution: its input is the feature. "
        f"The model's last ones are: {known}. Other layers are named beside it, two or more in all"
    )
