"""From the name of a guard to what the service needs of it."""

from __future__ import annotations

import warnings
from pathlib import Path

from ..core.errors import InputError, TheodoliteWarning
from ..guard import Guard, load_exported
from .judging import Judging
from .judging_exported import JudgingExported
from .judging_guard import JudgingGuard

# Of these load_exported refuses what it would have to trust.
_EXPORTED = (".onnx", ".pt2")


def judging_of(
    guard: Guard | str | Path,
    *,
    model: str | None = None,
    weights: str | Path | None = None,
    device: str = "auto",
    accept_code_change: bool = False,
) -> Judging:
    """A guard, its file or its name, ready to be served; its model is loaded later, by `Judging.warm`.

    An exported guard (``.onnx``) has its model inside. Otherwise the arguments are those of `theodolite
    score`: code is run only if the caller names it as ``model``.
    """
    if not isinstance(guard, Guard) and Path(guard).suffix.lower() in _EXPORTED:
        if model is not None or weights is not None or accept_code_change:
            raise InputError(f"{guard} has its model inside: leave out --model, --weights and the like")
        return JudgingExported(load_exported(guard))
    if not isinstance(guard, Guard):
        guard = Guard.load(guard, model=model, weights=weights, accept_code_change=accept_code_change)
    if guard.loaded is None and guard.provenance is None and (model is not None or weights is not None):
        raise InputError("the guard knows no model: it is served for features, without --model and --weights")
    if guard.loaded is None and guard.provenance is None:
        warnings.warn(
            "the guard knows no model: it is served for features, and refuses pictures",
            TheodoliteWarning,
            stacklevel=2,
        )
    return JudgingGuard(guard, model=model, weights=weights, device=device)
