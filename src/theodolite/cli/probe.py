"""`theodolite probe`: a linear head trained on the features of a store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import _options as options
from ._console import say, screen


def probe(
    store: Annotated[str, typer.Argument(help="A feature store with labels: `theodolite extract`.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The head: probe.safetensors.")],
    test: Annotated[
        str | None, typer.Option("--test", help="A store of the same model, to measure accuracy on.")
    ] = None,
    classes: Annotated[
        int | None, typer.Option("--classes", min=2, help="How many (default: the highest label plus one).")
    ] = None,
    epochs: Annotated[int, typer.Option("--epochs", min=1, help="Passes over the data.")] = 30,
    learning_rate: Annotated[
        float, typer.Option("--learning-rate", help="Of Adam; halved after each third.")
    ] = 1e-4,
    rows: Annotated[int, typer.Option("--rows", min=1, help="Rows a step.")] = 512,
    seed: options.Seed = 0,
    device: options.Device = "auto",
) -> None:
    """Train a linear probe on stored features: a head for CLIP's image tower, or for any encoder."""
    from ..evaluation import head_accuracy
    from ..features.device import choose_device
    from ..features.linear_probe import save_probe, train_probe
    from ..features.store import FeatureStore
    from ..features.store_checks import require_same_classes, require_same_model
    from ._progress import progress_bar

    console = screen()
    source = FeatureStore(store)
    judged = None if test is None else FeatureStore(test)
    if judged is not None:
        require_same_model(source, judged)
        require_same_classes(source, judged)
    last = 0.0
    with progress_bar(console, f"probe on {source.path.name}", unit="epochs") as show:

        def told(epoch: int, _loss: float, accuracy: float) -> None:
            nonlocal last
            last = accuracy
            show(epoch, epochs)

        head = train_probe(
            source,
            classes=classes,
            epochs=epochs,
            learning_rate=learning_rate,
            batch_size=rows,
            seed=seed,
            device=choose_device(device),
            progress=told,
        )
    save_probe(head, output)
    found = f"{100 * last:.1f} % of {len(source):,} training samples right"
    if judged is not None:
        right = head_accuracy(head, judged)
        found += "" if right is None else f", {100 * right:.1f} % of {len(judged):,} held-out ones"
    say(
        console, f"linear probe of {head.classes} classes on {head.width} features: {found}. Head in {output}"
    )
