"""Guards over several models on disk: the files of all members in one, with what binds them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .._version import __version__
from ..core.errors import FormatError
from ..core.files import read_tensors, undamaged, write_tensors
from ..core.plain import JsonObject, JsonValue, from_plain
from ..detectors.combination import SUM
from .calibration import Calibration
from .ensemble import below
from .storage import GuardParts, describe, find, guard_parts, tensors_of

FORMAT = "theodolite-ensemble-guard/1"
_REMEDY = "calibrate the ensemble again"


@dataclass(frozen=True)
class EnsembleParts:
    """What a guard over several models is made of."""

    members: Sequence[GuardParts]
    combine: str
    scales: Sequence[Calibration] | None
    calibration: Calibration
    false_alarm_rate: float


@dataclass(frozen=True)
class _Description:
    format: str
    theodolite: str
    combine: str
    false_alarm_rate: float
    members: tuple[JsonValue, ...]


def write_ensemble(path: str | Path, parts: EnsembleParts) -> None:
    """Write all of it atomically."""
    tensors = {
        f"member.{place}.{name}": tensor
        for place, member in enumerate(parts.members)
        for name, tensor in tensors_of(member).items()
    }
    tensors |= {f"scale.{place}": scale.sorted_scores for place, scale in enumerate(parts.scales or ())}
    tensors["calibration"] = parts.calibration.sorted_scores
    description: JsonObject = {
        "format": FORMAT,
        "theodolite": __version__,
        "combine": parts.combine,
        "false_alarm_rate": parts.false_alarm_rate,
        "members": [describe(member) for member in parts.members],
    }
    write_tensors(Path(path), tensors, description)


def read_ensemble(path: str | Path) -> EnsembleParts:
    """The parts in a file that `write_ensemble` wrote; nothing is run for it."""
    source = find(path)
    tensors, description = read_tensors(source, FORMAT)
    with undamaged(source, _REMEDY):
        said = from_plain(_Description, description, "the ensemble")
        members = []
        for place, one in enumerate(said.members):
            if not isinstance(one, dict):
                raise FormatError(f"member {place} has no description")
            members.append(guard_parts(below(tensors, f"member.{place}."), one))
        scaled = range(0 if said.combine == SUM else len(members))
        scales = [Calibration(tensors[f"scale.{place}"]) for place in scaled]
        return EnsembleParts(
            members,
            said.combine,
            scales or None,
            Calibration(tensors["calibration"]),
            said.false_alarm_rate,
        )
