"""Capture: the features and logits of any classifier, by a hook on its last linear layer.

The head of a classifier is the layer whose output is the logits; its input is the feature. Which layer that
is shows in one forward pass: all linear layers are listened to, and the one that said what the model says is
it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from ..core.errors import CaptureError
from ..reference.head import Head
from .agreement import agree, explain_head, explain_none
from .layers import Call, HeadLayer, as_rows, head_layers, head_of, is_head_layer, logits_of


class Capture:
    """Features and logits of a classifier, by a hook on its last linear layer.

        capture = Capture(model)
        features, logits = capture(images)      # capture.head(features) equals logits

    ``layer`` names the head where it shall not be searched for. The first batch decides: `head` and `layer`
    are known after it, and a model whose logits do not follow from head and features is refused with the
    reason. The head is a copy of the weights at that moment.
    """

    headless = False

    def __init__(self, model: nn.Module, layer: str | None = None) -> None:
        self.model = model
        self._layer: str | None = None
        self._head: Head | None = None
        self._checked = False
        self._named = bool(layer)
        if layer:
            named = dict(model.named_modules()).get(layer)
            if named is None or not is_head_layer(named):
                raise CaptureError(_not_a_head(model, layer, named))
            self._layer, self._head = layer, head_of(head_layers(model)[layer], layer)

    @property
    def layer(self) -> str:
        """Dotted name of the head; empty for the cosine head of a zero-shot model."""
        self._require_known()
        return "" if self.head.unit_features else str(self._layer)

    @property
    def head(self) -> Head:
        self._require_known()
        assert self._head is not None
        return self._head

    @property
    def name(self) -> str:
        """Dotted name of the layer that is listened to, whatever the head is."""
        self._require_known()
        return str(self._layer)

    def __call__(
        self, inputs: Tensor, *, finite: bool = True, run: Callable[[Tensor], object] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Features (N, D) and logits (N, C) of a batch; mode, hooks and gradients stay as they were.

        Rows that the model has no ``finite`` logits for are an error, or the caller's business. Threads that
        share a model take turns: a hook hears every call of its layer. ``run`` runs the model, where it shall
        not be called itself: one that was compiled.
        """
        layers = head_layers(self.model, self._layer)
        calls: dict[str, Call] = {}
        with _turn(self.model), untouched(self.model), _listening(layers, calls):
            output = (self.model if run is None else run)(inputs)
        logits = logits_of(output, len(inputs), finite=finite)
        if not self._checked:
            whole = torch.isfinite(logits).all(dim=1)
            if self._layer is None or bool(whole.any()):
                self._settle(layers, *_rows_of(calls, logits, whole))
        call = calls.get(str(self._layer))
        if call is None or len(call.features) != len(inputs):
            raise CaptureError(
                f"layer {self._layer!r} was not called once for each input: it is not the head of this "
                f"model. Leave out the layer's name to have the head found"
            )
        return call.features, logits

    def recorded(self, inputs: Tensor) -> Tensor:
        """Features (N, D) alone, while a graph is recorded, which can check nothing.

        The head must be known from a batch before, and the model in eval mode.
        """
        self._require_known()
        name, calls = str(self._layer), dict[str, Call]()
        with _listening({name: head_layers(self.model)[name]}, calls):
            self.model(inputs)
        return calls[name].features

    def over(self, batches: Iterable[Any]) -> Captured:
        """The features of batches of a loader, images or (images, labels, …), for `fit` and `Guard.fit`:

            capture = Capture(model)
            guard = Guard.fit(capture.over(loader), head=capture.head, calibration=capture.over(others))

        They are computed anew in every pass; the head is known at once.
        """
        return Captured(self, batches)

    def _settle(self, layers: dict[str, HeadLayer], calls: dict[str, Call], logits: Tensor) -> None:
        """Find the head on the first batch, and check that it explains the logits."""
        if self._layer is None:
            name = _the_one(calls, logits)
            self._layer, self._head = name, head_of(layers[name], name)
        call = calls.get(self._layer)
        if call is None:
            raise CaptureError(
                f"layer {self._layer!r} is not used when the model runs, so it cannot be its head. "
                f"Leave out the layer's name to have the head found"
            )
        problem = explain_head(self.head, call, logits, self._layer)
        if problem is not None:
            if not self._named:
                self._layer = self._head = None
            raise CaptureError(problem)
        self._checked = True

    def _require_known(self) -> None:
        if self._head is None:
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
        if capture._head is None:
            for _ in self:
                break

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor | None]]:
        for batch in self.batches:
            images, *rest = batch if isinstance(batch, tuple | list) else (batch,)
            home = next(self.capture.model.parameters(), images)
            dtype = home.dtype if images.is_floating_point() else images.dtype
            features, _ = self.capture(images.to(home.device, dtype))
            yield features, rest[0] if rest else None


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


def _the_one(calls: dict[str, Call], logits: Tensor) -> str:
    """The only layer whose output is the logits."""
    matching = [name for name, call in calls.items() if agree(call.output, logits)]
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
        f"The model's last ones are: {known}"
    )


_turns: WeakKeyDictionary[nn.Module, threading.RLock] = WeakKeyDictionary()
_giving_turns = threading.Lock()


def _turn(model: nn.Module) -> threading.RLock:
    """The lock of a model, the same for every capture of it."""
    with _giving_turns:
        return _turns.setdefault(model, threading.RLock())


def _modules(model: nn.Module) -> list[nn.Module]:
    """All modules, one that is shared twice: without the names that `nn.Module.modules` makes up for each."""
    found = [model]
    for module in found:
        found += [child for child in module._modules.values() if child is not None]
    return found


@contextmanager
def untouched(model: nn.Module) -> Iterator[None]:
    """Eval mode without gradients; afterwards every module has the mode it had, whatever happened."""
    training = [module for module in _modules(model) if module.training]
    for module in training:
        module.training = False
    try:
        with torch.no_grad():
            yield
    finally:
        for module in training:
            module.training = True


@contextmanager
def _listening(layers: dict[str, HeadLayer], calls: dict[str, Call]) -> Iterator[None]:
    """Write down the last call of each layer in this thread; others may run the model meanwhile."""
    here = threading.get_ident()

    def listener(name: str, layer: HeadLayer) -> Callable[..., None]:
        def listen(_: nn.Module, args: tuple[Any, ...], *rest: Any) -> None:
            # A hook that was just removed may be called once more, then without the named arguments.
            *named, output = rest
            if threading.get_ident() != here or not named:
                return
            inputs = args[0] if args else next(iter(named[0].values()), None)
            if isinstance(inputs, Tensor) and isinstance(output, Tensor) and output.ndim > 1:
                calls[name] = Call(as_rows(inputs.detach(), layer), as_rows(output.detach(), layer))

        return listen

    hooks = [
        layer.register_forward_hook(listener(name, layer), with_kwargs=True) for name, layer in layers.items()
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
