"""Training of small classifiers from scratch, on one core."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

_BATCH = 64
_LEARNING_RATE = 2e-3
Network = TypeVar("Network", bound=nn.Module)


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
    progress: Callable[[float], None] = lambda _: None,
) -> Network:
    """Train from scratch with Adam and a cosine schedule; ``progress`` gets the loss after each epoch."""
    torch.manual_seed(seed)
    model = make()
    steps = -(-len(images) // _BATCH) * epochs
    optimiser = torch.optim.Adam(model.parameters(), lr=_LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    shuffle = torch.Generator().manual_seed(seed)
    for _ in range(epochs):
        total = 0.0
        order = torch.randperm(len(images), generator=shuffle)
        for start in range(0, len(order), _BATCH):
            batch = order[start : start + _BATCH]
            loss = functional.cross_entropy(model(images[batch]), labels[batch])
            optimiser.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            schedule.step()
            total += float(loss.detach()) * len(batch)
        progress(total / len(images))
    return model.eval()
