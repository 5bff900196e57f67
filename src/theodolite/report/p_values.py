"""P-values in words: however small, none looks like zero."""

from __future__ import annotations


def p_value_text(p_value: float) -> str:
    """Three significant digits. The smallest p-value against n calibration scores is 1 / (n + 1), never 0."""
    return f"{p_value:#.3g}"
