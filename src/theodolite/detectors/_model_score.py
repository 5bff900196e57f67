"""The name of what a score asks of a model: the score, its options, and its code where it is not ours.

    odin?noise=0.0014&temperature=1000.0

Features are kept under it. A score of one's own whose code has changed asks something else.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from ..core.reach import reached_digest

if TYPE_CHECKING:
    from ._base import Detector

# Options that say nothing of what is asked.
_OTHER = ("shaping", "layers")
_OURS = __name__.split(".")[0]
_DIGITS = 16


def model_score_text(detector: Detector) -> str:
    """The name, the same in every process."""
    options = {key: value for key, value in sorted(detector.options().items()) if key not in _OTHER}
    name = detector.record.name if hasattr(type(detector), "record") else type(detector).__qualname__
    kind, query = type(detector), f"?{urlencode(options)}" if options else ""
    return f"{name}{query}{_own_code(kind.__module__, kind.__qualname__)}"


@cache
def _own_code(module: str, name: str) -> str:
    if module.partition(".")[0] == _OURS:
        return ""
    digest = reached_digest(module, name.partition(".")[0])
    return "" if digest is None else f"#{digest[:_DIGITS]}"
