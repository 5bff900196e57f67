"""Experiments on the data at hand: what stands in for the paper's tables where its data is not public."""

from ._registry import Context, Experiment, Need, experiment, experiments

__all__ = ["Context", "Experiment", "Need", "experiment", "experiments"]
