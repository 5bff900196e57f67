"""Experiments on the data at hand: what stands in for the paper's tables where its data is not public.

Importing this package enters them all in the registry, in the order they are listed and run.
"""

from ._registry import Context, Experiment, Need, Produced, experiment, experiments

from . import advice, angles, class_alarms, class_count, confirmation, contrastive, false_alarms, upstream  # isort: skip
from . import feature_folders, literature, merging, mnist, mnist_recipe, monitor, recommendation  # isort: skip
from . import real_resnet50, regret  # isort: skip

__all__ = [
    "Context",
    "Experiment",
    "Need",
    "Produced",
    "advice",
    "angles",
    "class_alarms",
    "class_count",
    "confirmation",
    "contrastive",
    "experiment",
    "experiments",
    "false_alarms",
    "feature_folders",
    "literature",
    "merging",
    "mnist",
    "mnist_recipe",
    "monitor",
    "real_resnet50",
    "recommendation",
    "regret",
    "upstream",
]
