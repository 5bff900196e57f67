"""Figures (matplotlib, without a display): each takes numbers and returns a figure; `save` writes it.

All stand on opaque white, so that they read the same in print and on dark pages, and tell ID from OOD by
filling and outline as well as by colour.
"""

from .bars import metric_bars
from .curves import roc_curves
from .evidence import evidence_over_time
from .explanation import explanation_figure
from .histograms import ensemble_histograms, score_histograms
from .median import median_view
from .sines import Sines, sine_evaluation, sine_histograms, sines
from .style import ID_COLOUR, INK, OOD_COLOUR, QUIET, save
from .triangle import TriangleView, triangles

__all__ = [
    "ID_COLOUR",
    "INK",
    "OOD_COLOUR",
    "QUIET",
    "Sines",
    "TriangleView",
    "ensemble_histograms",
    "evidence_over_time",
    "explanation_figure",
    "median_view",
    "metric_bars",
    "roc_curves",
    "save",
    "score_histograms",
    "sine_evaluation",
    "sine_histograms",
    "sines",
    "triangles",
]
