"""Whether the head of a subject belongs to its features, as far as the labels of its ID sets can tell.

A head of another model or another layer gives whole tables, of a classifier that answers at random. The
rule is that of `evaluation.agreement`, by which `fit` goes as well; it is asked of the held-out ID rows, and
of those to fit on.
"""

from __future__ import annotations

from ..core.errors import InputError
from ..evaluation.agreement import OF_FEATURES, OF_PICTURES, agreement
from .feature_sets import FIT, TEST, StoreSet
from .subject import Subject


def doubt_about(subject: Subject) -> str | None:
    """Why the head seems not to belong to the features; None where nothing says so, or nothing has labels."""
    for name, rows in ((TEST, subject.test), (FIT, subject.fit)):
        if not rows.labelled:
            continue
        try:
            agreed = agreement(subject.head, rows, len(rows))
        except InputError as error:
            return f"{subject.name}, {name}: {error}."
        causes = OF_PICTURES if isinstance(rows, StoreSet) else OF_FEATURES
        problem = None if agreed is None else agreed.explained(causes)
        if problem is not None:
            return f"{subject.name}, {name}: {problem}"
    return None


def require_belonging(subject: Subject, *, force: bool) -> str | None:
    """Refuse a subject whose head is in doubt; where it is measured all the same, the doubt."""
    doubt = doubt_about(subject)
    if doubt is not None and not force:
        raise InputError(f"{doubt} To measure all the same: --force (force=True in Python)")
    return doubt
