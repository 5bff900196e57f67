"""Rules that make one score of several: of the layers of a network (`Layered`), of models (`guard.Ensemble`).

    sum            s = Σ_k s_k
    standardised   s = 1/K · Σ_k (s_k − m_k) / σ_k
    p-values       s = 1/K · Σ_k (1 + #{i : s_k(x_i) ≤ s_k}) / (n + 1)

The first is for scores that have one scale. For the others m_k and σ_k are mean and deviation, and x_1 … x_n
samples, of ID data that the k-th score was not fitted on.
"""

from __future__ import annotations

from ..core.errors import InputError

SUM, STANDARDISED, P_VALUES = "sum", "standardised", "p-values"
COMBINATIONS = (SUM, STANDARDISED, P_VALUES)


def check_combination(rule: str) -> str:
    """``rule`` itself, if it is one."""
    if rule not in COMBINATIONS:
        raise InputError(f"combine must be one of {', '.join(COMBINATIONS)}, got {rule!r}")
    return rule
