"""The loop: batches of views through a network, a loss, a step; resumed from wherever it stopped.

What a step draws depends on its place alone (`seeds`), so that a training which is killed and resumed ends
with the weights of one that was not. On one machine with one version of torch and as many threads, that is to
the bit.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

from ..core.errors import ModelError, TheodoliteError
from ..core.memory import kept
from ..core.plain import JsonObject
from .classifier import Classifier
from .contrastive import Projection, supcon_loss
from .pictures import LabelledPictures
from .seeds import generator_at, seed_at
from .settings import TrainingSettings
from .state import Learners, Place, resume, save

# Within an epoch the state is written so often.
SAVE_SECONDS = 120.0


@dataclass(frozen=True)
class LearningProgress:
    """How far it is, in steps of all epochs; ``loss`` is the mean of an epoch that has just ended."""

    epoch: int
    epochs: int
    done: int
    total: int
    loss: float | None = None
    resumed: bool = False


Watch: TypeAlias = Callable[[LearningProgress], None]


class Learning:
    """A network, its pictures and its settings on the way through the epochs."""

    def __init__(
        self,
        classifier: Classifier,
        pictures: LabelledPictures,
        settings: TrainingSettings,
        device: torch.device,
    ) -> None:
        self.classifier, self.pictures, self.settings, self.device = classifier, pictures, settings, device
        self.augmentation = settings.augmentation
        self.projection = self._projection()
        self.steps = math.ceil(len(pictures) / settings.batch_size)
        self.learners = Learners(classifier.model, self.projection, self._optimiser())

    def run(
        self,
        state: Path,
        plan: JsonObject,
        *,
        progress: Watch = lambda _: None,
        save_seconds: float = SAVE_SECONDS,
    ) -> tuple[float, ...]:
        """Learn, and give the mean loss of each epoch. ``state`` is the file to resume from."""
        place = Place()
        if state.is_file():
            place = resume(state, self.learners, plan)
            progress(self._told(place, resumed=True))
        self.classifier.model.train()
        # On a CPU a batch asks for the memory that the one before gave back.
        with kept() if self.device.type == "cpu" else nullcontext():
            place = self._learnt(place, state, plan, progress, save_seconds)
        self.classifier.model.eval()
        return place.losses

    def _learnt(
        self, place: Place, state: Path, plan: JsonObject, progress: Watch, save_seconds: float
    ) -> Place:
        saved = time.monotonic()
        while place.epoch < self.settings.epochs:
            order = self._batches(place.epoch)
            while place.step < self.steps:
                batch = order[place.step]
                loss = self._step(place, batch)
                place = replace(
                    place,
                    step=place.step + 1,
                    total=place.total + loss * len(batch),
                    seen=place.seen + len(batch),
                )
                progress(self._told(place))
                if time.monotonic() - saved >= save_seconds:
                    save(state, self.learners, place, plan)
                    saved = time.monotonic()
            mean = place.total / place.seen
            place = Place(place.epoch + 1, losses=(*place.losses, mean))
            save(state, self.learners, place, plan)
            saved = time.monotonic()
            progress(replace(self._told(place), loss=mean))
        return place

    @property
    def blank_loss(self) -> float:
        """The loss of a network that tells nothing apart: log C, or log of the rows beside an anchor."""
        if self.projection is None:
            return math.log(self.pictures.classes)
        return math.log(self.settings.views * len(self.pictures) / self.steps - 1)

    def _step(self, place: Place, batch: Tensor) -> float:
        settings, at = self.settings, (place.epoch, place.step)
        views = [
            self.augmentation(self.pictures.images[batch], generator_at(settings.seed, *at, "view", view))
            for view in range(settings.views)
        ]
        images = self.pictures.prepared(torch.cat(views), self.device)
        labels = self.pictures.labels[batch].repeat(settings.views).to(self.device)
        for group in self.learners.optimiser.param_groups:
            group["lr"] = settings.rate(place.epoch * self.steps + place.step, self.steps)
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices):  # what a model draws itself, as dropout does
            torch.manual_seed(seed_at(settings.seed, *at, "model"))
            value = self._gradients(images, labels)
        if not math.isfinite(value):
            raise ModelError(
                f"the loss is {value} in epoch {place.epoch + 1}, step {place.step + 1}: lower the learning "
                f"rate (it is {settings.learning_rate:g}), or warm up for longer"
            )
        self.learners.optimiser.step()
        return value

    def _gradients(self, images: Tensor, labels: Tensor) -> float:
        """The loss of a batch; its gradients are then in the weights."""
        self.learners.optimiser.zero_grad(set_to_none=True)
        try:
            loss = self._loss(images, labels)
            loss.backward()  # type: ignore[no-untyped-call]
        except (RuntimeError, ValueError) as error:
            if isinstance(error, TheodoliteError):
                raise
            said = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise ModelError(
                f"the model cannot be trained on {len(images)} pictures at once: {said}"
            ) from error
        return float(loss.detach())

    def _loss(self, images: Tensor, labels: Tensor) -> Tensor:
        features, logits = self.classifier(images)
        if self.projection is None:
            return functional.cross_entropy(logits, labels)
        return supcon_loss(self.projection(features), labels, temperature=self.settings.temperature)

    def _batches(self, epoch: int) -> tuple[Tensor, ...]:
        """Every picture once, in batches of almost one size: none is too small for its statistics."""
        order = torch.randperm(len(self.pictures), generator=generator_at(self.settings.seed, epoch, "order"))
        return torch.tensor_split(order, self.steps)

    def _projection(self) -> Projection | None:
        if not self.settings.contrastive:
            return None
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed_at(self.settings.seed, "projection"))
            return Projection(self.classifier.width, self.settings.projection).to(self.device)

    def _optimiser(self) -> torch.optim.Optimizer:
        settings = self.settings
        if self.projection is None:
            parameters = self.classifier.parameters()
        else:
            parameters = [*self.classifier.encoder_parameters(), *self.projection.parameters()]
        if settings.optimiser == "adamw":
            return torch.optim.AdamW(parameters, settings.learning_rate, weight_decay=settings.weight_decay)
        return torch.optim.SGD(
            parameters, settings.learning_rate, momentum=settings.momentum, weight_decay=settings.weight_decay
        )

    def _told(self, place: Place, *, resumed: bool = False) -> LearningProgress:
        done, total = place.epoch * self.steps + place.step, self.settings.epochs * self.steps
        return LearningProgress(place.epoch, self.settings.epochs, done, total, resumed=resumed)
