"""The sum of several models' scores on the same samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..core.arrays import FloatArray
from ..core.errors import InputError
from .feature_sets import TEST
from .subject import Subject


def ensemble_name(subjects: Sequence[Subject]) -> str:
    return f"ensemble of {len(subjects)}: " + " + ".join(subject.name for subject in subjects)


def ensemble_scores(
    subjects: Sequence[Subject], scores: Sequence[Mapping[str, Mapping[str, FloatArray]]]
) -> dict[str, dict[str, FloatArray]]:
    """The plain sum of the members' scores, as in the paper; refused unless all saw the same samples."""
    if len(subjects) < 2:
        raise InputError("an ensemble needs at least two models: pass --model twice")
    common = [name for name in subjects[0].ood if all(name in subject.ood for subject in subjects)]
    for name in (TEST, *common):
        if len({subject.judged[name].samples for subject in subjects}) > 1:
            raise InputError(
                f"the models did not see the same samples of {name}, in the same order: an ensemble adds "
                f"their scores sample by sample"
            )
    labels = [label for label in scores[0] if all(label in member for member in scores)]
    return {
        label: {name: np.sum([member[label][name] for member in scores], axis=0) for name in (TEST, *common)}
        for label in labels
    }
