"""`theodolite probe`: a linear head trained on the features of a store."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from ..core.errors import InputError
from . import _options as options
from ._console import say, screen

OPTIMISERS = ("adam", "lbfgs")


def probe(
    store: Annotated[str, typer.Argument(help="A feature store with labels: `theodolite extract`.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The head: probe.safetensors.")],
    test: Annotated[
        str | None, typer.Option("--test", help="A store of the same model, to measure accuracy on.")
    ] = None,
    classes: Annotated[
        int | None, typer.Option("--classes", min=2, help="How many (default: the highest label plus one).")
    ] = None,
    optimiser: Annotated[
        str,
        typer.Option("--optimiser", help="adam, as in the paper, or lbfgs: the optimum, without settings."),
    ] = "adam",
    unit_features: Annotated[
        bool,
        typer.Option("--unit-features", help="Divide features by their norm first (default: as they are)."),
    ] = False,
    epochs: Annotated[
        int | None, typer.Option("--epochs", min=1, help="Of adam: passes over the data (default 30).")
    ] = None,
    learning_rate: Annotated[
        float | None,
        typer.Option("--learning-rate", help="Of adam; halved after each third (default 1e-4)."),
    ] = None,
    rows: Annotated[int | None, typer.Option("--rows", min=1, help="Of adam: rows a step (512).")] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, max=2**63 - 1, help="Of adam: of its chances (default 0).")
    ] = None,
    penalty: Annotated[
        float | None,
        typer.Option("--penalty", min=0, help="Of lbfgs: on the squared weights, 1/C of scikit-learn (1)."),
    ] = None,
    passes: Annotated[
        int | None, typer.Option("--passes", min=1, help="Of lbfgs: at most so many over the data (1000).")
    ] = None,
    device: options.Device = "auto",
) -> None:
    """Train a linear probe on stored features: a head for CLIP's image tower, or for any encoder."""
    from ..evaluation import head_accuracy
    from ..features.device import choose_device
    from ..features.importing import IMPORTED
    from ..features.linear_probe import BATCH_SIZE, EPOCHS, LEARNING_RATE, save_probe, train_probe
    from ..features.logistic_probe import PASSES, PENALTY, solve_probe
    from ..features.store import FeatureStore
    from ..features.store_checks import require_same_classes, require_same_model
    from ..models.registry import request_for
    from ._progress import progress_bar

    console = screen()
    of_adam: dict[str, float | None] = {"--epochs": epochs, "--learning-rate": learning_rate}
    of_adam |= {"--rows": rows, "--seed": seed}
    _require_of(optimiser, {"adam": of_adam, "lbfgs": {"--penalty": penalty, "--passes": passes}})
    source = FeatureStore(store)
    judged = None if test is None else FeatureStore(test)
    if judged is not None:
        require_same_model(source, judged)
        require_same_classes(source, judged)
    last, at_most = 0.0, (passes or PASSES) if optimiser == "lbfgs" else (epochs or EPOCHS)
    unit = "epochs" if optimiser == "adam" else "passes"
    with progress_bar(console, f"probe on {source.path.name}", unit=unit) as show:

        def told(done: int, _loss: float, accuracy: float) -> None:
            nonlocal last
            last = accuracy
            show(done, at_most)

        if optimiser == "lbfgs":
            head = solve_probe(
                source,
                classes=classes,
                penalty=PENALTY if penalty is None else penalty,
                passes=at_most,
                unit_features=unit_features,
                device=choose_device(device),
                progress=told,
            )
        else:
            head = train_probe(
                source,
                classes=classes,
                epochs=at_most,
                learning_rate=LEARNING_RATE if learning_rate is None else learning_rate,
                batch_size=rows or BATCH_SIZE,
                seed=seed or 0,
                unit_features=unit_features,
                device=choose_device(device),
                progress=told,
            )
    made_by, named = source.manifest.recipe.model, source.manifest.folders
    save_probe(
        head,
        output,
        model=None if made_by == IMPORTED else request_for(made_by)[1].base,
        class_names=named if named is not None and len(named) == head.classes else None,
    )
    found = f"{100 * last:.1f} % of {len(source):,} training samples right"
    if judged is not None:
        right = head_accuracy(head, judged)
        found += "" if right is None else f", {100 * right:.1f} % of {len(judged):,} held-out ones"
    say(
        console, f"linear probe of {head.classes} classes on {head.width} features: {found}. Head in {output}"
    )


def _require_of(optimiser: str, asked: Mapping[str, Mapping[str, float | None]]) -> None:
    """Refuse an optimiser that there is not, and settings of another one."""
    if optimiser not in OPTIMISERS:
        raise InputError(f"--optimiser must be {' or '.join(OPTIMISERS)}, got {optimiser!r}")
    for name, options_of in asked.items():
        for option, value in options_of.items():
            if value is not None and name != optimiser:
                raise InputError(f"{option} is of --optimiser {name}, and {optimiser} has no use for it")
