"""The distances of LeNet-5 on MNIST, trained as the authors' own program trains it, for several seeds.

The paper's appendix does not say how its network was trained; the program released with it does: no padding
before the first layer, pixels normalised by mean 0.1307 and deviation 0.3081, Adam at 0.001, 128 images a
step, ten epochs. It sets no seed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ...detectors import Distance
from ...evaluation import accuracy
from ...features.capture import Capture
from ...models.nets.lenet import LeNet5
from ...models.training import Recipe, one_thread, train
from ...report.tables import Table, printed
from ..studies import Spread, TableStudy
from ._registry import Context, Need, Produced, experiment
from .mnist import CLASSES, published_distances
from .pictures import features_of, pictures

SEEDS = 5
EPOCHS = 10
RECIPE = Recipe(batch=128, learning_rate=1e-3, falling=False)
MEAN, DEVIATION = 0.1307, 0.3081
KNOWN, STRANGE = "mnist", "fashion-mnist"


@dataclass(frozen=True)
class Trained:
    """One network: its accuracy on MNIST in per cent, and the mean of its largest distances by data set."""

    seed: int
    accuracy: float
    known: float
    strange: float


@dataclass(frozen=True, kw_only=True)
class RecipeDistances(TableStudy):
    format = "theodolite-recipe-distances/1"

    epochs: int
    recipe: Recipe
    rows: tuple[Trained, ...]
    published: tuple[str, str]

    def spread(self, name: str) -> Spread:
        values = [getattr(row, name) for row in self.rows]
        return Spread(float(np.mean(values)), float(np.std(values, ddof=1)))

    def tables(self) -> list[Table]:
        columns = ("accuracy", "known", "strange")
        rows = [[f"seed {row.seed}", *(printed(getattr(row, name)) for name in columns)] for row in self.rows]
        rows.append(["mean ± deviation", *(self.spread(name).text() for name in columns)])
        rows.append(["published", "", *self.published])
        return [Table.of_texts(self.title, ["network", "accuracy, %", "MNIST", "Fashion-MNIST"], rows)]


@experiment(
    "mnist-recipe",
    "LeNet-5 trained as the authors' program does, several seeds: distances to the boundary",
    Need(KNOWN, "train"),
    Need(KNOWN, "test"),
    Need(STRANGE, "test"),
)
def mnist_recipe(context: Context) -> Produced:
    rows = tuple(_trained(context, context.seed + number) for number in range(SEEDS))
    study = RecipeDistances(
        title="Mean of the largest distance to a boundary, LeNet-5 by the authors' recipe",
        command="theodolite reproduce mnist-recipe",
        epochs=EPOCHS,
        recipe=RECIPE,
        rows=rows,
        published=(published_distances(None)["mean"], published_distances(STRANGE)["mean"]),
    )
    return {"mnist-recipe": study}


@one_thread()
def _trained(context: Context, seed: int) -> Trained:
    context.say(f"mnist-recipe: training with seed {seed}")
    images, labels = pictures(context.root, KNOWN, "train")
    model = train(
        lambda: LeNet5(CLASSES, padding=0),
        _normalised(images),
        labels,
        epochs=EPOCHS,
        seed=seed,
        recipe=RECIPE,
    )
    capture = Capture(model, layer="head")
    distance = Distance().fit(head=capture.head)
    known, truth = pictures(context.root, KNOWN)
    seen = features_of(capture, _normalised(known))
    strange = features_of(capture, _normalised(pictures(context.root, STRANGE)[0]))
    right = accuracy(capture.head.logits(seen), truth)
    means = [float(torch.as_tensor(distance.score(rows)).double().mean()) for rows in (seen, strange)]
    return Trained(seed, round(100 * right, 4), *(round(value, 6) for value in means))


def _normalised(pixels: Tensor) -> Tensor:
    return (pixels - MEAN) / DEVIATION
