"""The paper's tables, figures and experiments, run on the data at hand.

Importing this package enters the figures and the experiments in their registries.
"""

from . import figures
from ._figure_registry import PaperFigure, paper_figure, paper_figures
from .experiments import Context, Experiment, Need, Produced, experiment, experiments
from .items import Item, items, resolve, run_item
from .studies import RunStudy, Study, TableStudy, read_study

__all__ = [
    "Context",
    "Experiment",
    "Item",
    "Need",
    "PaperFigure",
    "Produced",
    "RunStudy",
    "Study",
    "TableStudy",
    "experiment",
    "experiments",
    "figures",
    "items",
    "paper_figure",
    "paper_figures",
    "read_study",
    "resolve",
    "run_item",
]
