"""What may replace the recommended score: registered scores, formulas of class means, and combinations.

Scores are combined by where they stand among those of ID rows: a fifth of the rows to fit on, at most 2,000,
scored by copies that are fitted on the rest (`benchmarks.scales`). Rows that a score was fitted on flatter
it, each in its own way, and held-out test rows are what the candidates are judged on. Three ways, none with
a weight to set:

- *standardised*: the mean of the scores in units of their ID deviation about their ID mean,
- *Fisher*: the sum of the logarithms of their conformal p-values,
- *least*: the smallest of the scores in those units, so that what is strange to one score is strange.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from ...benchmarks.feature_sets import FIT
from ...benchmarks.scales import apart, scales_of
from ...benchmarks.scoring import Scorer
from ...benchmarks.subject import Subject
from ...core.arrays import FloatArray
from ...core.errors import InputError
from ...detectors.combination import STANDARDISED
from ...detectors.spec import DetectorSpec, parse_specs
from ...guard.calibration import Calibration
from ...guard.ensemble import combined
from .regret_formulas import FORMULAS, Found, formula_scores
from .regret_rule import Candidate

# The library's scores on the day of the rule, by name: one that comes later has no part in it.
REGISTERED = (
    *("cop", "corp", "csi", "dice", "distance", "energy", "entropy", "fdbd", "gen", "gradnorm", "klm", "knn"),
    *("logitgap", "lts", "maha+", "maxlogit", "mcm", "mds", "msp", "nci", "neco", "nnguide", "odin"),
    *("openmax", "ora", "pcos", "rcos", "relative-energy", "residual", "rmaha+", "rmds", "she", "ssd+"),
    *("tempscale", "vim", "ora?aggregate=mean", "ora?metric=mahalanobis&aggregate=mean"),
)
# Numbers among a score's options that do not change what it says.
_NO_KNOBS = ("memory_limit", "seed")


@dataclass(frozen=True)
class Combination:
    """Scores of different kinds as one, and why."""

    way: str
    parts: tuple[str, ...]
    why: str

    @property
    def label(self) -> str:
        return f"{self.way}: {' + '.join(self.parts)}"


_ENERGY, _COSINE, _RESIDUAL, _BOUNDARY, _BANK = "Relative Energy", "P-Cos", "Residual", "fDBD", "KNN"
_MDS, _RMAH = "MDS, W shrunk", "R-Mah, W shrunk"
WAYS = ("standardised", "Fisher", "least")
COMBINATIONS = (
    Combination(WAYS[0], (_ENERGY, _COSINE), "evidence over deviation, and class cosines"),
    Combination(WAYS[0], (_ENERGY, _RMAH), "evidence, and deviations from classes less those from all"),
    Combination(WAYS[0], (_ENERGY, _MDS), "evidence, and deviations from classes"),
    Combination(WAYS[0], (_ENERGY, _RESIDUAL), "evidence, and what lies outside the principal space"),
    Combination(WAYS[0], (_ENERGY, _COSINE, _RMAH), "three kinds: the head, directions, deviations"),
    Combination(WAYS[0], (_ENERGY, _COSINE, _MDS), "the same, deviations as they are"),
    Combination(WAYS[0], (_ENERGY, _COSINE, _RESIDUAL), "three kinds: the head, directions, residuals"),
    Combination(WAYS[0], (_COSINE, _RESIDUAL), "directions and residuals: no logits"),
    Combination(WAYS[0], (_BOUNDARY, _COSINE), "boundaries and directions: no covariance"),
    Combination(WAYS[0], (_ENERGY, _BANK), "what a bank would bring: not eligible"),
    Combination(WAYS[1], (_ENERGY, _COSINE), "p-values, for scores with long tails"),
    Combination(WAYS[1], (_ENERGY, _COSINE, _MDS), "p-values of three kinds"),
    Combination(WAYS[1], (_ENERGY, _COSINE, _RESIDUAL), "p-values of three kinds"),
    Combination(WAYS[2], (_ENERGY, _COSINE, _MDS), "strange to one is strange: for the worst case"),
    Combination(WAYS[2], (_ENERGY, _COSINE, _RESIDUAL), "the same with residuals"),
)


def candidates() -> list[Candidate]:
    """All of them, in the order of their naming."""
    return [
        *(Candidate(spec.label, spec.record.formula, True, _without_knobs(spec)) for spec in _specs()),
        *(Candidate(label, formula.why, False, True) for label, formula in FORMULAS.items()),
        *(Candidate(one.label, one.why, False, _BANK not in one.parts) for one in COMBINATIONS),
    ]


def _specs() -> list[DetectorSpec]:
    return parse_specs(REGISTERED)


def _without_knobs(spec: DetectorSpec) -> bool:
    """No number among its options; the banks of KNN, NNGuide and CSI have some."""
    numbers = [
        name
        for name, value in spec.template.options().items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]
    return set(numbers) <= set(_NO_KNOBS)


# ---------------------------------------------------------------------- scores


@dataclass(frozen=True)
class CandidateScores:
    """Scores by candidate and judged set, and why some have none."""

    values: Found
    refused: dict[str, str]


def candidate_scores(subject: Subject, cache: Path | None) -> CandidateScores:
    """Every candidate on held-out ID rows and every OOD set; ``cache`` keeps registered ones."""
    scorer = Scorer(subject, _specs(), cache=cache)
    found = scorer.run()
    values, refused = dict(found.values), dict(found.refused)
    rest, held_back = apart(subject.fit, subject.head.classes)
    values |= formula_scores(subject.head, subject.fit, subject.judged)
    known = formula_scores(subject.head, rest, {FIT: held_back})
    parts = {part for one in COMBINATIONS for part in one.parts} - set(FORMULAS)
    scales = scales_of(scorer, sorted(parts))
    known |= scales.values
    without = {**refused, **scales.refused}
    for one in COMBINATIONS:
        try:
            missing = next((part for part in one.parts if part in without), None)
            if missing is not None:
                raise InputError(f"{missing}: {without[missing]}")
            values[one.label] = _combined(one, values, known, list(subject.judged))
        except InputError as error:
            refused[one.label] = str(error)
    return CandidateScores(values, refused)


def _combined(
    one: Combination, values: Mapping[str, Mapping[str, FloatArray]], known: Found, sets: list[str]
) -> dict[str, FloatArray]:
    scales = [Calibration(known[part][FIT]) for part in one.parts]

    def joined(name: str) -> FloatArray:
        pairs = zip(scales, (torch.from_numpy(values[part][name]) for part in one.parts), strict=True)
        if one.way == WAYS[1]:
            p_values = torch.stack([scale.p_values(scores) for scale, scores in pairs])
            return np.asarray(p_values.log().sum(dim=0))
        units = torch.stack([combined(STANDARDISED, [scores], [scale]) for scale, scores in pairs])
        return np.asarray(units.mean(dim=0) if one.way == WAYS[0] else units.amin(dim=0))

    return {name: joined(name) for name in sets}
