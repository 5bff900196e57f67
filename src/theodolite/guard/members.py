"""The guards of an ensemble: checked, copied, and what they know in common."""

from __future__ import annotations

import copy
from collections.abc import Sequence

from ..core.errors import InputError
from ..models.registry import names_model
from .guard import Guard


def checked_members(members: object) -> tuple[Guard, ...]:
    """At least two guards, as copies: what happens to the originals changes nothing. Models are shared."""
    if not isinstance(members, list | tuple):
        raise InputError(f"members must be a list of guards, got {type(members).__name__}")
    wrong = next((one for one in members if not isinstance(one, Guard)), None)
    if wrong is not None:
        raise InputError(f"members must be guards, got {type(wrong).__name__}")
    if len(members) < 2:
        raise InputError(f"an ensemble needs at least two guards, got {len(members)}")
    return tuple(_copied(one) for one in members)


def _copied(guard: Guard) -> Guard:
    shared = (guard.model, guard.loaded, guard._capture)
    copied: Guard = copy.deepcopy(guard, {id(part): part for part in shared})
    return copied


def why_no_class(members: Sequence[Guard]) -> str | None:
    """Why members predict no class together; None if all of them know the same classes, in the same order."""
    counts = {None if one.head is None else one.head.classes for one in members}
    names = {one.class_names for one in members}
    if None in counts:
        return "not all members predict a class"
    if len(counts) > 1 or len(names - {None}) > 1:
        return "the members know different classes"
    if len(names) > 1:
        return "only some of the members name their classes, so that the others may have another order"
    return None


def models_of(members: Sequence[Guard], model: str | Sequence[str] | None) -> list[str | None]:
    """For each member the one of the ``model`` specs that names its model, or None.

    Refused where a spec names the model of no member: it would be ignored.
    """
    asked = [model] if isinstance(model, str) else list(model or ())
    stored = [None if one.provenance is None else one.provenance.model for one in members]
    for spec in asked:
        if not any(known is not None and names_model(spec, known) for known in stored):
            known = ", ".join(name or "a model without a name" for name in stored)
            raise InputError(f"the members were fitted on {known}, and none of them on {spec}")
    return [
        next((spec for spec in asked if known is not None and names_model(spec, known)), None)
        for known in stored
    ]
