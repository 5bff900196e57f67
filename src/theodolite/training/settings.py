"""What a training is asked to do, in numbers; all of it is part of what the training is known by."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..core.errors import InputError, did_you_mean
from .augmentation import Augmentation

SUPCON, CE = "supcon", "ce"
LOSSES = (SUPCON, CE)
OPTIMISERS = ("sgd", "adamw")
NO_AUGMENTATION = "none"
# Beyond these nothing is trained, and the machine runs out of memory or time.
_LARGEST = {"epochs": 10**6, "batch_size": 10**7, "views": 100, "projection": 2**16, "head_steps": 10**8}
# What is done to pictures where nothing is said: colours teach a contrastive loss what not to look at.
_USUAL = {SUPCON: "crop,flip,colour,grey", CE: "crop,flip"}


@dataclass(frozen=True)
class TrainingSettings:
    """The loss, its budget and its optimiser.

    An epoch shows every picture once, as ``views`` augmented views in one batch, whatever the loss is: two
    losses with the same settings have the same batches and as many passes through the network. The rate rises
    over ``warm_up`` epochs and then falls to zero along a cosine. ``temperature`` and ``projection`` (its
    width) are the contrastive loss's; ``head_steps`` and ``head_rate`` those of the linear head that is then
    trained on the features of the pictures as they are. ``augment`` names kinds with commas, or is "none";
    None is the usual of the loss. ``channels_last`` is how pictures lie in memory: often faster on a CPU,
    with other roundings.
    """

    loss: str = SUPCON
    epochs: int = 100
    batch_size: int = 256
    views: int = 2
    optimiser: str = "sgd"
    learning_rate: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 1e-4
    warm_up: float = 1.0
    temperature: float = 0.1
    projection: int = 128
    head_steps: int = 3_000
    head_rate: float = 1e-2
    augment: str | None = None
    padding: int = 4
    channels_last: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        for name, value, known in (("loss", self.loss, LOSSES), ("optimiser", self.optimiser, OPTIMISERS)):
            if value not in known:
                hint = did_you_mean(value, known)
                raise InputError(f"{name} must be {' or '.join(known)}, got {value!r}{hint}")
        for name in ("epochs", "batch_size", "views", "projection", "head_steps"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name, most in _LARGEST.items():
            if getattr(self, name) > most:
                raise InputError(f"{name} must be at most {most:,}, got {getattr(self, name)}")
        for name in ("learning_rate", "temperature", "head_rate"):
            if not 0 < getattr(self, name) < math.inf:
                raise InputError(f"{name} must be a number above 0, got {getattr(self, name)}")
        for name in ("momentum", "weight_decay", "warm_up"):
            if not 0 <= getattr(self, name) < math.inf:
                raise InputError(f"{name} must be a number of 0 or more, got {getattr(self, name)}")
        if self.momentum >= 1:
            raise InputError(f"momentum must be below 1, got {self.momentum}")
        if self.warm_up >= self.epochs and self.warm_up > 0 and self.epochs > 1:
            raise InputError(f"warm_up must end before the {self.epochs} epochs do, got {self.warm_up}")
        if self.contrastive and self.views < 2:
            raise InputError(f"a contrastive loss compares at least two views of a picture, got {self.views}")
        if self.contrastive and self.batch_size < 2:
            raise InputError(
                "batch_size must be at least 2 for a contrastive loss, got 1: views of one picture are told "
                "apart from nothing, and it would learn nothing"
            )
        if self.contrastive and not self.augmentation.kinds:
            raise InputError(
                "a contrastive loss without augmentation would compare every picture with itself: name some "
                "kinds, augment='crop'"
            )

    @property
    def contrastive(self) -> bool:
        """Whether the head is trained after the encoder instead of with it."""
        return self.loss == SUPCON

    @property
    def augmentation(self) -> Augmentation:
        """What is done to pictures."""
        named = _USUAL[self.loss] if self.augment is None else self.augment
        kinds = () if named == NO_AUGMENTATION else tuple(kind.strip() for kind in named.split(","))
        return Augmentation(kinds, self.padding)

    def rate(self, step: int, steps_an_epoch: int) -> float:
        """The learning rate at a step, counted from 0 over all epochs."""
        warm, total = round(self.warm_up * steps_an_epoch), self.epochs * steps_an_epoch
        if step < warm:
            return self.learning_rate * (step + 1) / warm
        return self.learning_rate * (1 + math.cos(math.pi * (step - warm) / max(total - warm, 1))) / 2
