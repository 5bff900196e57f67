"""`theodolite inspect`: what a store, a guard, a fitted detector or a part is, without running anything."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer
from rich.table import Table
from rich.text import Text

from ._calibration import interval_text, threshold_text
from ._console import clean, screen

if TYPE_CHECKING:
    from ..detectors._storage import PackedDetector
    from ..guard.export.record import Preprocessing
    from ..guard.storage import GuardParts

Facts: TypeAlias = Mapping[str, object]


def inspect(
    file: Annotated[
        str, typer.Argument(help="A feature store, a guard, an exported guard, a fitted detector, a part.")
    ],
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare every shard of a store with its checksum.")
    ] = False,
) -> None:
    """Show what a file of ours holds, and where it comes from."""
    from ..core.files import format_of
    from ..features.store import is_store
    from ._part_facts import FACTS

    console = screen()
    told = FACTS.get(format_of(Path(file)) or "")
    if told is not None:
        facts = told(Path(file))
    elif Path(file).suffix.lower() in (".onnx", ".pt2"):
        facts = _exported_facts(file)
    else:
        facts = _store_facts(Path(file), verify) if is_store(file) else _file_facts(file)
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        lines = value if isinstance(value, list) else str(value).split("\n")
        table.add_row(name, Text("\n".join(clean(str(line)) for line in lines)))
    console.print(table)


def _store_facts(folder: Path, verify: bool) -> Facts:
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
        "unreadable": [f"{len(store.skipped):,} left out", *store.skipped[:20]],
        **({} if store.cut == 0 else {"cut off": f"{store.cut:,} samples longer than the model takes"}),
        "data": manifest.source,
        "model": recipe.model,
        "layer": recipe.layer or "(cosine head)",
        **({} if recipe.model_score is None else {"model score": recipe.model_score}),
        "weights": recipe.weights,
        "preprocessing": recipe.preprocess,
        "autocast": recipe.autocast,
        "limit": recipe.limit or "none",
        "key": recipe.key,
    }


def _file_facts(name: str) -> Facts:
    from ..guard.storage import GuardParts, inspect_file

    stored = inspect_file(name)
    content = stored.content
    facts = _guard_facts(content) if isinstance(content, GuardParts) else _detector_facts(content)
    size = f"{stored.path.stat().st_size:,}"
    return {**facts, "written by": f"theodolite {stored.written_by}", "bytes": size}


def _exported_facts(name: str) -> Facts:
    """What an exported file says; nothing of it is run."""
    from ..guard.exported import read_record

    record = read_record(name)
    shape = ", ".join("N" if side == 0 else str(size or "any") for side, size in enumerate(record.shape))
    options = ", ".join(f"{key}={value!r}" for key, value in record.options.items() if value is not None)
    prepared, names = record.preprocessing, record.class_names or ()
    known = record.provenance or record.origin
    opset = "" if record.versions.opset is None else f", opset {record.versions.opset}"
    return {
        "kind": "exported guard",
        "takes": f"{record.takes} ({shape})",
        "gives": ", ".join(record.outputs),
        "score": record.title + (f" ({options})" if options else ""),
        "feature width": record.width,
        "calibration": f"{record.calibration.count:,} held-out scores",
        "false-alarm rate": f"{record.false_alarm_rate:g}, an optional input",
        "class names": " | ".join([*names[:5], *(["…"] if len(names) > 5 else [])]) or "none",
        "model": "not known"
        if known is None
        else getattr(known, "model", None) or getattr(known, "source", ""),
        **({} if prepared is None else {"preprocessing": _prepared_fact(prepared)}),
        "compared": [
            f"{one.rows} {one.inputs}: scores within {one.score_difference:.1e}, p-values within "
            f"{one.ranks} ranks"
            for one in record.compared
        ],
        "written by": f"theodolite {record.versions.theodolite}, torch {record.versions.torch}{opset}",
        "bytes": f"{Path(name).stat().st_size:,}",
    }


def _prepared_fact(prepared: Preprocessing) -> str:
    where = "inside the graph" if prepared.inside else "outside"
    return f"{where}: {prepared.pixels or prepared.name or 'not known'}" + (
        f"; {prepared.note}" if prepared.note else ""
    )


def _detector_facts(packed: PackedDetector) -> Facts:
    from ..detectors import detector_record
    from ..detectors._approximation import Approximation

    record, approximation = detector_record(packed.name), Approximation.of(packed.tensors)
    return {
        "kind": "fitted detector",
        "score": f"{record.title}: {record.formula}",
        "paper": f"{record.paper} ({record.year})",
        "options": ", ".join(f"{name}={value!r}" for name, value in packed.options.items()) or "none",
        "feature width": packed.width,
        **({} if approximation is None else {"search": str(approximation)}),
    }


def _guard_facts(guard: GuardParts) -> Facts:
    calibration, rate, names = guard.calibration, guard.false_alarm_rate, guard.class_names or ()
    origin = {} if guard.provenance is None else dataclasses.asdict(guard.provenance)
    return {
        **_detector_facts(guard.detector),
        "kind": "guard",
        "head": _head_fact(guard),
        "calibration": _calibration_fact(guard),
        "threshold": f"{threshold_text(calibration, rate)} at a false-alarm rate of {rate:g}",
        "its own rate": interval_text(calibration, rate),
        "class names": " | ".join([*names[:5], *(["…"] if len(names) > 5 else [])]) or "none",
        **{
            name.replace("_", " "): origin[name]
            for name in ("model", "weights", "layer", "model_score", "preprocess", "weights_file")
            if origin.get(name)
        },
        **_origin_facts(guard),
    }


def _head_fact(guard: GuardParts) -> str:
    if guard.headless:
        return "none: it predicts no class"
    return "taken from the model" if guard.head is None else "in the file"


def _calibration_fact(guard: GuardParts) -> str:
    """On what the threshold was set, and what speaks against it."""
    count, known = f"{len(guard.calibration):,} held-out scores", guard.calibrated
    tied = guard.calibration.doubt(guard.false_alarm_rate)
    beware = "".join(f"\nbeware: {doubt}" for doubt in (known and known.doubt, tied) if doubt)
    if known is None:
        return f"{count}; the file does not say of what data{beware}"
    of = "a share of the data to fit on" if known.own_share else "other data than that to fit on"
    agreed = (
        ""
        if known.agreement is None
        else f"; the classifier gave {100 * known.agreement:.1f} % of its labels"
    )
    return f"{count}, of {of}{agreed}{beware}"


def _origin_facts(guard: GuardParts) -> Facts:
    """Where the features come from, if no model that can be loaded is known."""
    origin = guard.origin
    if guard.provenance is not None or origin is None:
        return {} if guard.provenance is not None else {"model": "not known"}
    source = f"{origin.source}, width {origin.width}" + (f", {origin.dtype}" if origin.dtype else "")
    model = (
        "not known: features say nothing of their model. Only their width can be checked"
        if origin.weights is None
        else f"in memory, weights {origin.weights}" + (f", layer {origin.layer}" if origin.layer else "")
    )
    return {
        "features": source,
        "model": model,
        **({} if origin.head is None else {"head digest": origin.head}),
    }
