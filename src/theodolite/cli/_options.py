"""Options that several commands share, with one wording."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from ..core.errors import InputError

if TYPE_CHECKING:
    from ..features.engine import RayEngine

GuardName: TypeAlias = Annotated[
    str, typer.Argument(help="A guard file, or a ready-made one: imagenet-lite0, imagenet-lite0-ora.")
]
Paths: TypeAlias = Annotated[
    list[str], typer.Argument(help="Images, folders, data files, features, feature stores.")
]
OwnModel: TypeAlias = Annotated[
    str | None, typer.Option("--model", help="The guard's model, if it is code of your own (python:…).")
]
OwnModels: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--model", help="The guard's model, if it is code of your own (python:…); of an ensemble, repeated."
    ),
]
Weights: TypeAlias = Annotated[
    Path | None, typer.Option("--weights", help="Checkpoint for the model (.safetensors or .pt).")
]
Layer: TypeAlias = Annotated[
    str | None, typer.Option("--layer", help="Name of the last linear layer; found by itself if not given.")
]
Layers: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--layer",
        help="Name of the last linear layer, found by itself if not given; or several layers to be scored.",
    ),
]
Kind: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--kind",
        help="What kind of data it is; recognised by itself if not given, an unknown kind lists all.",
    ),
]
From: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--from", help="features or pictures: what the data holds, where its shape does not show it."
    ),
]
HeadFile: TypeAlias = Annotated[
    Path | None,
    typer.Option("--head", help="The last layer of features in files: safetensors with weight and bias."),
]
BatchSize: TypeAlias = Annotated[
    int | None, typer.Option("--batch-size", min=1, help="Images a forward pass (default 64).")
]
Workers: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=0,
        help="Processes that read images (default: threads, one for two cores; 0: the model waits for them).",
    ),
]
Seed: TypeAlias = Annotated[
    int,
    typer.Option("--seed", min=0, max=2**63 - 1, help="The same seed draws the same by chance."),
]
Device: TypeAlias = Annotated[str, typer.Option("--device", help="cpu, cuda, or auto.")]
Autocast: TypeAlias = Annotated[bool, typer.Option("--autocast", help="Run the model in bfloat16.")]
ChannelsLast: TypeAlias = Annotated[
    bool | None,
    typer.Option(
        "--channels-last/--no-channels-last",
        help="Layout of images in memory (default: the faster one, measured); decides the last digits.",
    ),
]
Compile: TypeAlias = Annotated[
    bool, typer.Option("--compile", help="Have torch compile the model; takes a minute, and a C++ compiler.")
]
Timings: TypeAlias = Annotated[
    bool, typer.Option("--timings", help="Say how long each part of the start took.")
]
Limit: TypeAlias = Annotated[
    int | None,
    typer.Option("--limit", min=1, help="A sample of so many, every class in proportion; always the same."),
]
Repair: TypeAlias = Annotated[
    bool, typer.Option("--repair", help="Extract damaged shards of kept features again.")
]
Verify: TypeAlias = Annotated[
    bool,
    typer.Option("--verify", help="Read all pictures to see what changed, instead of trusting dates."),
]
AcceptCodeChange: TypeAlias = Annotated[
    bool,
    typer.Option("--accept-code-change", help="A python: model whose code has changed computes the same."),
]
SkipUnreadable: TypeAlias = Annotated[
    bool,
    typer.Option("--skip-unreadable", help="Leave out images and texts that cannot be read, and list them."),
]
FlagUnscorable: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--flag-unscorable",
        help="Flag samples whose features hold NaN or infinity, and go on with the others.",
    ),
]
Root: TypeAlias = Annotated[
    Path | None, typer.Option("--root", help="Folder of all data sets (default: THEODOLITE_DATA).")
]
Cache: TypeAlias = Annotated[
    Path | None, typer.Option("--cache", help="Folder of features and scores that are kept.")
]
Engine: TypeAlias = Annotated[
    str | None,
    typer.Option("--engine", help="Where it runs: local, ray (one of its own), or ray:ADDRESS of a cluster."),
]
Concurrency: TypeAlias = Annotated[
    int | None,
    typer.Option("--concurrency", min=1, help="Models that run at once on Ray (default: as many as fit)."),
]
Cpus: TypeAlias = Annotated[
    float | None, typer.Option("--cpus", help="Cores of each model on Ray (default 1).")
]
Gpus: TypeAlias = Annotated[
    float | None, typer.Option("--gpus", help="GPUs of each model on Ray (default 0; 0.5 shares one).")
]
FalseAlarmRate: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--false-alarm-rate", help="Largest share of in-distribution inputs to flag (default 0.05)."
    ),
]


def layers_of(names: list[str] | None) -> str | None:
    """What --layer names, as one text."""
    return ",".join(names) if names else None


def engine_of(
    engine: str | None, concurrency: int | None, cpus: float | None, gpus: float | None
) -> RayEngine | None:
    """What --engine names, with the options that are only for Ray; None is this process."""
    from ..features.engine import engine_of as named_engine

    known = named_engine(engine)
    given = {"--concurrency": concurrency, "--cpus": cpus, "--gpus": gpus}
    asked = [option for option, value in given.items() if value is not None]
    if known is None:
        if asked:
            raise InputError(f"{asked[0]} is for --engine ray: add it, or leave {asked[0]} out")
        return None
    return replace(
        known,
        concurrency=concurrency,
        cpus=known.cpus if cpus is None else cpus,
        gpus=known.gpus if gpus is None else gpus,
    )


def kind_of(kind: str | None, holds: str | None) -> str | None:
    """What --kind and --from together say of the data."""
    if holds is None:
        return kind
    if holds not in ("features", "pictures"):
        raise InputError(f"--from must be features or pictures, got {holds!r}")
    if kind is not None:
        if holds == "features":
            raise InputError(f"--kind {kind} is a kind of pictures: leave it out, or --from features")
        return kind
    return holds
