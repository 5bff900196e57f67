"""Classifiers from labelled pictures: a contrastive encoder with a linear head, or cross-entropy."""

from .augmentation import Augmentation
from .contrastive import supcon_loss
from .learning import LearningProgress
from .settings import TrainingSettings
from .training import TrainedClassifier, Watching, accuracy_on, train_classifier

__all__ = [
    "Augmentation",
    "LearningProgress",
    "TrainedClassifier",
    "TrainingSettings",
    "Watching",
    "accuracy_on",
    "supcon_loss",
    "train_classifier",
]
