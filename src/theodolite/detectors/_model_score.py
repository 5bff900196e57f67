"""The name of what a score asks of a model: the score, its options, and its code where it is not ours.

    odin?noise=0.0014&temperature=1000.0

Features are kept under it. A score of one's own whose code has changed asks something else; where the code
cannot be read, of a class that was typed in, the name is one that no other process and no other class has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode
from uuid import uuid4
from weakref import WeakKeyDictionary

from ..core.reach import reached_digest

if TYPE_CHECKING:
    from ._base import Detector

# Options that say nothing of what is asked.
_OTHER = ("shaping", "layers")
_OURS = __name__.split(".")[0]
_DIGITS = 16
_known: WeakKeyDictionary[type[Detector], str] = WeakKeyDictionary()


def model_score_text(detector: Detector) -> str:
    """The name; the same in every process where the code is ours or can be read."""
    options = {key: value for key, value in sorted(detector.options().items()) if key not in _OTHER}
    name = detector.record.name if hasattr(type(detector), "record") else type(detector).__qualname__
    query = f"?{urlencode(options)}" if options else ""
    return f"{name}{query}{_own_code(type(detector))}"


def _own_code(kind: type[Detector]) -> str:
    if kind.__module__.partition(".")[0] == _OURS:
        return ""
    if kind not in _known:
        digest = reached_digest(kind.__module__, kind.__qualname__.partition(".")[0])
        _known[kind] = uuid4().hex if digest is None else digest
    return f"#{_known[kind][:_DIGITS]}"
