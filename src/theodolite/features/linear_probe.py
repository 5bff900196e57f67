"""A linear probe: a head trained on frozen features, which makes a classifier of any encoder.

The settings are those of the paper's CLIP experiments: Adam with a rate of 1e-4, halved after each third of
30 epochs, batches of 512. O(epochs · N · D · C) time; memory holds one block of a store's shards. The optimum
that such training goes towards is `logistic_probe.solve_probe`'s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

from ..core.arrays import ArrayLike
from ..core.errors import InputError
from ..core.files import write_tensors
from ..core.plain import JsonValue
from ..reference.head import CLASS_NAMES, Head
from ..reference.unit_features import UNIT_FEATURES
from .probe_data import ProbeData, Told
from .store import FeatureStore

FORMAT = "theodolite-probe/1"
EPOCHS, LEARNING_RATE, BATCH_SIZE = 30, 1e-4, 512


def train_probe(
    features: ArrayLike | FeatureStore,
    labels: ArrayLike | None = None,
    *,
    classes: int | None = None,
    epochs: int = EPOCHS,
    learning_rate: float = LEARNING_RATE,
    batch_size: int = BATCH_SIZE,
    seed: int = 0,
    unit_features: bool = False,
    device: torch.device | str = "cpu",
    progress: Told = lambda _epoch, _loss, _accuracy: None,
) -> Head:
    """A head trained on features (N, D) and labels (N,), or on a feature store whose samples have labels.

    ``classes`` is by default the highest label plus one. With ``unit_features`` it learns from features
    divided by their norm, and divides those it is given; without, from features as they are. ``progress``
    gets the epoch (from 1), the mean loss and the accuracy on the training data during it. The same seed
    gives the same head.

    >>> means, labels = 4 * np.eye(3, 8), np.arange(150) % 3
    >>> train = means[labels] + np.random.default_rng(0).normal(size=(150, 8))
    >>> head = th.train_probe(train, labels, epochs=60, learning_rate=0.1)
    >>> answers = head(torch.from_numpy(train)).argmax(dim=1).numpy()
    >>> bool((answers == labels).mean() > 0.95)
    True
    """
    if min(epochs, batch_size) < 1 or not learning_rate > 0:
        raise InputError(
            f"epochs and batch_size must be at least 1 and learning_rate above 0, "
            f"got {epochs}, {batch_size} and {learning_rate}"
        )
    data = ProbeData(features, labels, classes, unit_features=unit_features)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layer = nn.Linear(data.width, data.classes).to(device)
    optimiser = torch.optim.Adam(layer.parameters(), lr=learning_rate)
    milestones = [max(1, round(epochs / 3)), max(1, round(2 * epochs / 3))]
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimiser, milestones, gamma=0.5)
    rng = torch.Generator().manual_seed(seed)
    for epoch in range(1, epochs + 1):
        loss, right, seen = 0.0, 0, 0
        for rows, targets in data.shuffled(batch_size, rng):
            batch, wanted = rows.to(device, layer.weight.dtype), targets.to(device)
            logits = layer(batch)
            error = functional.cross_entropy(logits, wanted)
            optimiser.zero_grad(set_to_none=True)
            error.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            loss += float(error.detach()) * len(batch)
            right += int((logits.argmax(dim=1) == wanted).sum())
            seen += len(batch)
        schedule.step()
        progress(epoch, loss / seen, right / seen)
    return Head(layer.weight.cpu(), layer.bias.cpu(), unit_features=unit_features)


def save_probe(
    head: Head,
    path: str | Path,
    *,
    model: str | None = None,
    class_names: Sequence[str] | None = None,
    more: Mapping[str, JsonValue] | None = None,
) -> None:
    """Write a head as a file for ``?linear=`` of a model, or for ``head.safetensors`` of a feature folder.

    A cosine head stays one. ``model`` is the one whose features it is for, where that is known;
    ``class_names`` are those of its classes, in the order of its rows; ``more`` is what else the file shall
    say.
    """
    if class_names is not None and len(class_names) != head.classes:
        raise InputError(f"{len(class_names)} class names for a head of {head.classes} classes")
    said: dict[str, JsonValue] = {"format": FORMAT, **(more or {})}
    if model is not None:
        said["model"] = model
    if head.unit_features:
        said[UNIT_FEATURES] = True
    if class_names is not None:
        said[CLASS_NAMES] = list(class_names)
    write_tensors(Path(path), {"weight": head.weight, "bias": head.bias}, said)
