"""`theodolite inspect`: what a store, a guard or a fitted detector is, without running anything."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..errors import FormatError, InputError


def inspect(
    file: Annotated[str, typer.Argument(help="A feature store, a guard, or a fitted detector.")],
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare every shard of a store with its checksum.")
    ] = False,
) -> None:
    """Show what a file of ours holds, and where it comes from."""
    from ..features.store import is_store

    console = Console()
    facts = _store_facts(Path(file), verify) if is_store(file) else _file_facts(file)
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(name, Text(str(value)))
    console.print(table)


def _store_facts(folder: Path, verify: bool) -> dict[str, Any]:
    from ..features.store import FeatureStore, damaged_error

    store = FeatureStore(folder, incomplete_ok=True)
    manifest, recipe = store.manifest, store.manifest.recipe
    if verify and (damaged := store.damaged()):
        raise damaged_error(folder, damaged)
    state = (
        "complete" if manifest.complete else f"{manifest.samples_done:,} of {recipe.samples:,} samples so far"
    )
    checked = ", every checksum is right" if verify else ""
    return {
        "kind": "feature store",
        "state": state + checked,
        "features": f"{len(store):,} × {store.width}, {recipe.dtype}, {store.shards} shard{'' if store.shards == 1 else 's'}",
        "classes": manifest.classes,
        "labels": "every sample has one" if store.labelled else "not for every sample",
        "unreadable": f"{len(store.skipped):,} left out"
        + "".join(f"\n{name}" for name in store.skipped[:20]),
        "data": manifest.source,
        "model": recipe.model,
        "layer": recipe.layer or "(cosine head)",
        "weights": recipe.weights,
        "preprocessing": recipe.preprocess,
        "autocast": recipe.autocast,
        "limit": recipe.limit or "none",
        "key": recipe.key,
    }


def _file_facts(name: str) -> dict[str, Any]:
    from ..files import read_description
    from ..guard_storage import find

    path = find(name)
    if path.is_dir():
        raise InputError(f"{path} is a folder without manifest.json: not a feature store of theodolite")
    description = read_description(path)
    kind, _, version = description["format"].partition("/")
    describe = {"theodolite-guard": _guard_facts, "theodolite-detector": _detector_facts}.get(kind)
    if describe is None or version != "1":
        raise FormatError(f"{path} has format {description['format']!r}, which this version cannot show")
    size = path.stat().st_size
    return {
        **describe(path, description),
        "written by": f"theodolite {description['theodolite']}",
        "bytes": f"{size:,}",
    }


def _detector_facts(_: Path, description: dict[str, Any]) -> dict[str, Any]:
    from ..detectors import detector_record

    record = detector_record(description["detector"])
    return {
        "kind": "fitted detector",
        "score": f"{record.title}: {record.formula}",
        "paper": f"{record.paper} ({record.year})",
        "options": ", ".join(f"{name}={value!r}" for name, value in description["options"].items()) or "none",
        "feature width": description["width"],
    }


def _guard_facts(path: Path, description: dict[str, Any]) -> dict[str, Any]:
    from ..calibration import Calibration
    from ..files import read_tensors

    tensors, _ = read_tensors(path)
    calibration = Calibration(tensors["calibration.scores"])
    rate = description["false_alarm_rate"]
    origin = description["provenance"] or {}
    names = description["class_names"]
    facts = _detector_facts(path, description["detector"])
    facts["kind"] = "guard"
    facts["head"] = "in the file" if "head.weight" in tensors else "taken from the model"
    facts["calibration"] = f"{len(calibration):,} held-out scores"
    facts["threshold"] = f"{calibration.threshold(rate):.6g} at a false-alarm rate of {rate:g}"
    facts["class names"] = (
        "none" if names is None else f"{' | '.join(names[:5])}{' | …' if len(names) > 5 else ''}"
    )
    for name in ("model", "weights", "layer", "preprocess", "weights_file"):
        if origin.get(name):
            facts[name.replace("_", " ")] = origin[name]
    return facts
