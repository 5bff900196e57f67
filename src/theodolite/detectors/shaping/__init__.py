"""Activation shaping: features in, shaped features out, before any score looks at them.

Statistics are collected on the shaped features and logits are recomputed from them, so every score that works
from features composes with every shaping: ``ORA(shaping=ReAct(percentile=80))``.
"""

from __future__ import annotations

from ...core.errors import InputError, did_you_mean
from .._options import option_names
from ._base import Learner, Shaping
from .ash import ASHB, ASHP, ASHS
from .ras import RAS
from .react import ReAct
from .scale import Scale
from .vra import VRA, VRAAt, VRAClip, VRAClipUnits

SHAPINGS: dict[str, type[Shaping]] = {
    kind.name: kind for kind in (ReAct, ASHS, ASHB, ASHP, Scale, VRA, VRAAt, VRAClip, VRAClipUnits, RAS)
}

__all__ = [
    "ASHB",
    "ASHP",
    "ASHS",
    "RAS",
    "SHAPINGS",
    "VRA",
    "Learner",
    "ReAct",
    "Scale",
    "Shaping",
    "VRAAt",
    "VRAClip",
    "VRAClipUnits",
    "parse_shaping",
]


def parse_shaping(spec: str) -> Shaping:
    """A shaping from text: ``"react"``, ``"react:80"``, ``"ash-s:90"``, ``"vra:60,90"``."""
    name, _, numbers = spec.partition(":")
    key = name.strip().lower().replace("_", "-")
    matches = [kind for known, kind in SHAPINGS.items() if known.replace("-", "") == key.replace("-", "")]
    if not matches:
        hint = did_you_mean(key, SHAPINGS)
        raise InputError(f"no shaping is called {name!r}{hint} Known: {', '.join(SHAPINGS)}")
    kind = matches[0]
    return kind(**_options(spec, kind, numbers)) if numbers else kind()


def _options(spec: str, kind: type[Shaping], numbers: str) -> dict[str, float]:
    """The options of a shaping from the numbers after the colon, in the order of its constructor."""
    takes = option_names(kind.__init__)
    if not takes:
        raise InputError(f"shaping {spec!r}: {kind.title} has no numbers after a colon")
    given = numbers.split(",")
    words = "a percentile" if takes == ("percentile",) else f"{len(takes)} numbers, {','.join(takes)}"
    if len(given) != len(takes):
        raise InputError(f"shaping {spec!r}: the part after the colon must be {words}, got {numbers!r}")
    try:
        return {name: float(number) for name, number in zip(takes, given, strict=True)}
    except ValueError as error:
        raise InputError(f"shaping {spec!r}: the part after the colon must be {words}, {error}") from error
