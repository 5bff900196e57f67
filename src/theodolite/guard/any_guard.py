"""A guard of one model or of several, whichever a file holds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..core.files import format_of
from .ensemble_files import FORMAT
from .ensemble_guard import EnsembleGuard, require_no_weights
from .guard import Guard
from .provenance import only_model
from .storage import find


def load_judge(
    path: str | Path,
    *,
    model: str | Sequence[str] | None = None,
    weights: str | Path | None = None,
    accept_code_change: bool = False,
) -> Guard | EnsembleGuard:
    """The guard in a file; options are as for `Guard.load`, of an ensemble several models may be named."""
    if format_of(find(path)) != FORMAT:
        return Guard.load(
            path, model=only_model(model), weights=weights, accept_code_change=accept_code_change
        )
    require_no_weights(weights)
    return EnsembleGuard.load(path, accept_code_change=accept_code_change)
