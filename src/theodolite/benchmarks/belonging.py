"""Whether the head of a subject belongs to its features, as far as the labels of its ID sets can tell.

A head of another model or another layer gives whole tables, of a classifier that answers at random. The
rule is that of `evaluation.agreement`, by which `fit` goes as well; it is asked of the held-out ID rows, and
of those to fit on.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..core.errors import InputError
from ..evaluation.agreement import OF_FEATURES, OF_PICTURES, agreement
from ..reference.head import Head
from .feature_sets import FIT, TEST, FeatureSet, StoreSet
from .subject import Subject


def doubt_about(subject: Subject) -> str | None:
    """Why the head seems not to belong to the features; None where nothing says so, or nothing has labels."""
    return _doubt(subject.name, subject.head, {TEST: subject.test, FIT: subject.fit})


def require_belonging(subject: Subject, *, force: bool) -> str | None:
    """Refuse a subject whose head is in doubt; where it is measured all the same, the doubt."""
    return _overruled(doubt_about(subject), force=force)


def require_head_of(name: str, head: Head, fit: FeatureSet, *, force: bool) -> str | None:
    """The same of rows to fit on alone, where no other may be looked at."""
    return _overruled(_doubt(name, head, {FIT: fit}), force=force)


def _doubt(name: str, head: Head, sets: Mapping[str, FeatureSet]) -> str | None:
    for part, rows in sets.items():
        if not rows.labelled:
            continue
        try:
            agreed = agreement(head, rows, len(rows))
        except InputError as error:
            return f"{name}, {part}: {error}."
        causes = OF_PICTURES if isinstance(rows, StoreSet) else OF_FEATURES
        problem = None if agreed is None else agreed.explained(causes)
        if problem is not None:
            return f"{name}, {part}: {problem}"
    return None


def _overruled(doubt: str | None, *, force: bool) -> str | None:
    if doubt is not None and not force:
        raise InputError(f"{doubt} To measure all the same: --force (force=True in Python)")
    return doubt
