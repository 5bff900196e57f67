"""`theodolite tune`: settings of scores, chosen on validation data and never on a test set."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import _options as options
from ._console import say, screen
from ._progress import progress_bar
from .bench import command_line, parse_pairs
from .fit import require_place


def tune(
    features: Annotated[
        str, typer.Argument(help="features:FOLDER; of it the head, id_fit, id_val and ood_val are read.")
    ],
    detector: Annotated[
        list[str],
        typer.Option("--detector", help="Scores to choose from: 'knn?k={10,50,200}', 'ora+react:{80,90}'."),
    ],
    validation_ood: Annotated[
        list[str] | None,
        typer.Option(
            "--validation-ood",
            help="NAME=FEATURES: OOD features to choose on, a store or a file. Default: the folder's "
            "ood_val, or ID classes play OOD.",
        ),
    ] = None,
    held_out: Annotated[
        Path | None,
        typer.Option("--held-out", help="ID features the network did not learn, to choose on; no test set."),
    ] = None,
    folds: Annotated[
        int | None, typer.Option("--folds", min=1, help="How many folds (default 5, or a fold a class).")
    ] = None,
    seed: options.Seed = 0,
    force: Annotated[
        bool, typer.Option("--force", help="Choose although the head hardly agrees with the labels.")
    ] = False,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The record, for `theodolite bench --ranking`.")
    ] = Path("ranking.json"),
) -> None:
    """Choose settings of scores on a validation OOD set, or on ID data alone; test sets are not read."""
    from ..benchmarks import tune as choose
    from ..core.places import data_root
    from ..report.tables import ranking_table, terminal

    console = screen()
    require_place(output)
    outliers = parse_pairs(validation_ood or [], "--validation-ood", "NAME=FEATURES")
    with progress_bar(console, "folds", unit="folds") as progress:
        ranking = choose(
            features,
            detector,
            validation_ood=outliers or None,
            held_out=held_out,
            folds=folds,
            seed=seed,
            command=command_line(data_root(None)),
            force=force,
            progress=progress,
        )
    console.print(terminal(ranking_table(ranking)))
    for label, reason in ranking.refused.items():
        say(console, f"left out: {label}: {reason}", "yellow")
    say(console, ranking.statement)
    if ranking.close:
        behind = ", ".join(ranking.close)
        say(console, f"not clearly behind (within the standard error over folds): {behind}", "yellow")
    ranking.save(output)
    say(console, f"record in {output}: theodolite bench … --ranking {output}")
    say(console, ranking.chosen, "bold", title="--detector ")
