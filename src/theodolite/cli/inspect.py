"""`theodolite inspect`: what a store, a guard or a fitted detector is, without running anything."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..core.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor


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
        "features": f"{len(store):,} × {store.width}, {recipe.dtype}",
        "shards": f"{store.shards} of at most {manifest.shard_rows:,} samples",
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
    from ..core.files import read_tensors
    from ..detectors import _storage as storage
    from ..guard import storage as guard_storage

    path = guard_storage.find(name)
    if path.is_dir():
        raise InputError(f"{path} is a folder without manifest.json: not a feature store of theodolite")
    tensors, description = read_tensors(path, guard_storage.FORMAT, storage.FORMAT)
    is_guard = description["format"] == guard_storage.FORMAT
    facts = _guard_facts(tensors, description) if is_guard else _detector_facts(description)
    size = f"{path.stat().st_size:,}"
    return {**facts, "written by": f"theodolite {description['theodolite']}", "bytes": size}


def _detector_facts(description: dict[str, Any]) -> dict[str, Any]:
    from ..detectors import detector_record

    record = detector_record(description["detector"])
    return {
        "kind": "fitted detector",
        "score": f"{record.title}: {record.formula}",
        "paper": f"{record.paper} ({record.year})",
        "options": ", ".join(f"{name}={value!r}" for name, value in description["options"].items()) or "none",
        "feature width": description["width"],
    }


def _guard_facts(tensors: dict[str, Tensor], description: dict[str, Any]) -> dict[str, Any]:
    from ..guard.calibration import Calibration

    calibration = Calibration(tensors["calibration.scores"])
    rate = description["false_alarm_rate"]
    origin = description["provenance"] or {}
    names = description["class_names"]
    facts = _detector_facts(description["detector"])
    facts["kind"] = "guard"
    facts["head"] = "in the file" if "head.weight" in tensors else "taken from the model"
    facts["calibration"] = f"{len(calibration):,} held-out scores"
    facts["threshold"] = f"{calibration.threshold(rate):.6g} at a false-alarm rate of {rate:g}"
    low, high = calibration.rate_interval(rate)
    facts["its own rate"] = f"between {100 * low:.1f} and {100 * high:.1f} % with probability 0.9"
    facts["class names"] = (
        "none" if names is None else f"{' | '.join(names[:5])}{' | …' if len(names) > 5 else ''}"
    )
    for name in ("model", "weights", "layer", "preprocess", "weights_file"):
        if origin.get(name):
            facts[name.replace("_", " ")] = origin[name]
    return facts
