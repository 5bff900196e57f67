"""What `theodolite inspect` tells of parts, of references and of guards over several models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from ..detectors import detector_record
from ..guard.ensemble_files import FORMAT as ENSEMBLE_FORMAT
from ..guard.ensemble_files import read_ensemble
from ..guard.part import Part
from ..guard.part_files import FORMAT as PART_FORMAT
from ..reference.reference import FORMAT as REFERENCE_FORMAT
from ..reference.reference import Reference
from ._calibration import threshold_text

_LOTS = 10


def _part_facts(path: Path) -> Mapping[str, object]:
    part = Part.load(path)
    source, share = part.source, f"{100 * part.share:g} % of the samples"
    kept = f"{len(part.held_out):,} rows" if part.offered == len(part.held_out) else _kept(part)
    model = source.provenance.model if source.provenance is not None else "not known"
    layer = "" if source.provenance is None else f" ({source.provenance.layer})"
    return {
        "kind": "first look of a part" if part.first_look else "part",
        "of": [*map(str, source.lots[:_LOTS]), *(["…"] if len(source.lots) > _LOTS else [])],
        "scores": ", ".join(one.record.title for one in part.detectors),
        "fitted on": f"{part.fitted_on:,} samples",
        "held out": f"{share}: {kept}" if part.share and not part.first_look else "nothing",
        "labels": "every sample has one" if source.labelled else "not for every sample",
        "model": model + layer,
        "statistics": [_statistics(reference) for reference in part.references] or "none",
        "samples": _account(part.samples.whole),
        "bytes": f"{path.stat().st_size:,}",
    }


def _kept(part: Part) -> str:
    return f"{part.offered:,} rows, of which {len(part.held_out):,} are kept"


def _reference_facts(path: Path) -> Mapping[str, object]:
    reference = Reference.load(path)
    samples = reference.samples
    return {
        "kind": "reference",
        "fitted on": f"{reference.count:,} samples",
        "statistics": _statistics(reference),
        "head": "none" if reference.head is None else f"{reference.head.classes} classes, in the file",
        "samples": "not known: they came without ids" if samples is None else _account(samples.whole),
        "bytes": f"{path.stat().st_size:,}",
    }


def _statistics(reference: Reference) -> str:
    known = reference.statistics
    names = ", ".join(known.needs.names()) or "nothing"
    return f"{names} of {reference.view} features of width {known.width}"


def _account(whole: bool) -> str:
    return "each is known by its id" if whole else "some are known by their ids, chosen by a hash"


def _ensemble_facts(path: Path) -> Mapping[str, object]:
    parts = read_ensemble(path)
    models = [
        "not known" if one.provenance is None else f"{one.provenance.model} ({one.provenance.layer})"
        for one in parts.members
    ]
    rate = parts.false_alarm_rate
    return {
        "kind": f"guard over {len(parts.members)} models",
        "scores": [detector_record(one.detector.name).title for one in parts.members],
        "models": models,
        "combined by": parts.combine,
        "calibrated on": f"{len(parts.calibration):,} samples",
        "false-alarm rate": f"{100 * rate:g} %: score below {threshold_text(parts.calibration, rate)} is OOD",
        "bytes": f"{path.stat().st_size:,}",
    }


FACTS: Mapping[str, Callable[[Path], Mapping[str, object]]] = {
    PART_FORMAT: _part_facts,
    REFERENCE_FORMAT: _reference_facts,
    ENSEMBLE_FORMAT: _ensemble_facts,
}
