"""Training of small classifiers from scratch, on one core."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

Network = TypeVar("Network", bound=nn.Module)


@dataclass(frozen=True)
class Recipe:
    """Adam with so many images a step; the learning rate falls to zero along a cosine, or stays as it is."""

    batch: int = 64
    learning_rate: float = 2e-3
    falling: bool = True


@contextmanager
def one_thread() -> Iterator[None]:
    """Work on one core: at this size threads wait for each other longer than they work, the more so on a
    busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def train(
    make: Callable[[], Network],
    images: Tensor,
    labels: Tensor,
    *,
    epochs: int,
    seed: int,
    recipe: Recipe | None = None,
    progress: Callable[[float], None] = lambda _: None,
) -> Network:
    """Train from scratch by a recipe; ``progress`` gets the loss after each epoch."""
    recipe = recipe or Recipe()
    torch.manual_seed(seed)
    model = make()
    steps = -(-len(images) // recipe.batch) * epochs
    optimiser = torch.optim.Adam(model.parameters(), lr=recipe.learning_rate)
    lowest = 0.0 if recipe.falling else recipe.learning_rate
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps, eta_min=lowest)
    shuffle = torch.Generator().manual_seed(seed)
    for _ in range(epochs):
        total = 0.0
        order = torch.randperm(len(images), generator=shuffle)
        for start in range(0, len(order), recipe.batch):
            batch = order[start : start + recipe.batch]
            loss = functional.cross_entropy(model(images[batch]), labels[batch])
            optimiser.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            schedule.step()
            total += float(loss.detach()) * len(batch)
        progress(total / len(images))
    return model.eval()
