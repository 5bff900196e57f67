"""`theodolite train`: a classifier from labelled pictures, by a contrastive loss or by cross-entropy."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from . import _options as options
from ._console import say, screen

if TYPE_CHECKING:
    from ..training import LearningProgress, TrainedClassifier

_INTERRUPTED = 130


def train(
    data: Annotated[
        str, typer.Option("--data", help="Labelled pictures: a folder a class, .npz, idx, CIFAR batches, …")
    ],
    model: Annotated[
        str,
        typer.Option("--model", help="What network: net:resnet20, timm:…, python:…; its weights are new."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the training.")],
    loss: Annotated[
        str, typer.Option("--loss", help="supcon (contrastive, then a linear head) or ce (cross-entropy).")
    ] = "supcon",
    test: Annotated[
        str | None, typer.Option("--test", help="Labelled pictures to measure accuracy on at the end.")
    ] = None,
    epochs: Annotated[int, typer.Option("--epochs", min=1, help="Passes over the pictures.")] = 100,
    batch_size: Annotated[int, typer.Option("--batch-size", min=1, help="Pictures a step.")] = 256,
    views: Annotated[
        int, typer.Option("--views", min=1, help="Augmented views of a picture in a step, for either loss.")
    ] = 2,
    augment: Annotated[
        str | None,
        typer.Option(
            "--augment",
            help="Kinds with commas out of crop,flip,colour,grey, or none (default: all; ce: crop,flip).",
        ),
    ] = None,
    padding: Annotated[int, typer.Option("--padding", min=1, help="Of the crop, in pixels.")] = 4,
    optimiser: Annotated[str, typer.Option("--optimiser", help="sgd or adamw.")] = "sgd",
    learning_rate: Annotated[
        float, typer.Option("--learning-rate", help="At its highest; it falls to zero along a cosine.")
    ] = 0.1,
    momentum: Annotated[float, typer.Option("--momentum", help="Of sgd.")] = 0.9,
    weight_decay: Annotated[float, typer.Option("--weight-decay", help="Of all weights.")] = 1e-4,
    warm_up: Annotated[float, typer.Option("--warm-up", help="Epochs over which the rate rises.")] = 1.0,
    temperature: Annotated[float, typer.Option("--temperature", help="Of the contrastive loss.")] = 0.1,
    projection: Annotated[
        int, typer.Option("--projection", min=1, help="Width of what the contrastive loss is taken of.")
    ] = 128,
    head_steps: Annotated[
        int, typer.Option("--head-steps", min=1, help="Steps of the linear head, after supcon.")
    ] = 3_000,
    head_rate: Annotated[float, typer.Option("--head-rate", help="Its learning rate (Adam).")] = 1e-2,
    weights: Annotated[
        Path | None, typer.Option("--weights", help="Begin with these weights (.safetensors or .pt).")
    ] = None,
    channels_last: Annotated[
        bool, typer.Option("--channels-last", help="How pictures lie in memory: often faster on a CPU.")
    ] = False,
    layer: options.Layer = None,
    kind: options.Kind = None,
    limit: options.Limit = None,
    seed: options.Seed = 0,
    device: options.Device = "auto",
) -> None:
    """Train a classifier; the same command again goes on where it was stopped, to the same weights."""
    from ..data import open_source
    from ..data.sampling import sample_of
    from ..features.device import choose_device
    from ..training import TrainingSettings, Watching, accuracy_on, train_classifier
    from ..training.pictures import require_to_test_on, warn_of_empty_classes

    console = screen()
    settings = TrainingSettings(
        loss=loss,
        epochs=epochs,
        batch_size=batch_size,
        views=views,
        optimiser=optimiser,
        learning_rate=learning_rate,
        momentum=momentum,
        weight_decay=weight_decay,
        warm_up=warm_up,
        temperature=temperature,
        projection=projection,
        head_steps=head_steps,
        head_rate=head_rate,
        augment=augment,
        padding=padding,
        channels_last=channels_last,
        seed=seed,
    )
    chosen = choose_device(device)
    source = sample_of(open_source(data, kind=kind), limit)
    held_out = None if test is None else open_source(test, kind=kind)
    warn_of_empty_classes(source)
    if held_out is not None:
        require_to_test_on(held_out, source)
    with ExitStack() as bars:
        told = _Bars(console, f"{model} with {loss}", bars)
        try:
            trained = train_classifier(
                model,
                source,
                output,
                settings=settings,
                weights=weights,
                layer=layer,
                device=chosen,
                watching=Watching(told.reading, told.learning, told.say),
            )
        except KeyboardInterrupt:
            bars.close()
            say(screen(stderr=True), f"stopped: {output} goes on from its last state with the same command.")
            raise typer.Exit(_INTERRUPTED) from None
    right = None if held_out is None else accuracy_on(trained, held_out, chosen)
    _say_trained(trained, right, console)


class _Bars:
    """A bar for the pictures that are read, then one over all steps, and a line for every epoch."""

    def __init__(self, console: Console, model: str, bars: ExitStack) -> None:
        self.console, self.model, self.bars = console, model, bars
        self.unit = ""
        self.show: Callable[[int, int], None] = lambda _done, _total: None

    def reading(self, done: int, total: int) -> None:
        self._in("pictures")(done, total)

    def learning(self, now: LearningProgress) -> None:
        if now.resumed:
            say(self.console, f"going on from epoch {now.epoch + 1}, step {now.done:,} of {now.total:,}")
        self._in("steps")(now.done, now.total)
        if now.loss is not None:
            say(self.console, f"epoch {now.epoch} of {now.epochs}: loss {now.loss:.4f}")

    def say(self, text: str) -> None:
        self.bars.close()
        say(self.console, text)

    def _in(self, unit: str) -> Callable[[int, int], None]:
        """The bar that counts these; another is taken down."""
        from ._progress import progress_bar

        if unit != self.unit:
            self.bars.close()
            self.unit, self.show = (
                unit,
                self.bars.enter_context(progress_bar(self.console, self.model, unit=unit)),
            )
        return self.show


def _say_trained(trained: TrainedClassifier, right: float | None, console: Console) -> None:
    if trained.again:
        say(console, "this training had ended already")
    found = f"{100 * trained.learnt.accuracy:.2f} % of the training labels are given"
    if right is not None:
        found += f", {100 * right:.2f} % of the held-out ones"
    say(console, f"{found}. Use it: --model '{trained.loaded.spec}' --weights {trained.weights}")
