"""Scores of words (NegLabel) whose words another model embedded than that of the features to be scored."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.errors import InputError
from ..detectors.spec import DetectorSpec
from ..features.importing import IMPORTED
from ..features.word_files import require_words_of
from .feature_sets import FeatureSet, StoreSet


def refused_words(rows: FeatureSet, specs: Sequence[DetectorSpec]) -> dict[str, str]:
    """Why scores of words do not fit the model of some rows, by their labels.

    Rows that are in no store, or that came from a file, do not say whose they are.
    """
    if not isinstance(rows, StoreSet) or rows.store.manifest.recipe.model == IMPORTED:
        return {}
    refused, manifest = {}, rows.store.manifest
    for spec in specs:
        file = spec.options.get("negatives")
        if not spec.template.of_words or file is None:
            continue
        try:
            require_words_of(str(file), manifest.recipe.model, manifest.weights_file)
        except InputError as error:
            refused[spec.label] = str(error)
    return refused
