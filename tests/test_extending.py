"""One of each from outside: a score, a model source, a data format, a protocol, a figure, a metric.

Everything is in one module of the user's own, which the command imports with `--import`: nothing in the
package has to be edited for any of them.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from command_server import run as command
from small_models import TinyConv

MINE = '''
"""Things of one's own."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import torch

from theodolite import Detector, MultiLayer, Needs, register
from theodolite.benchmarks import Dataset, Split, on_dataset, register_dataset, register_protocol
from theodolite.data import data_format
from theodolite.data.stacks import ImageStack
from theodolite.evaluation import Metric, register_metric
from theodolite.features.asking import input_gradient
from theodolite.models import LoadedModel, Request, source
from theodolite.models.preprocess import Pixels
from theodolite.paper import Context, Need, paper_figure
from small_models import Tiny, TinyConv


@register("gap", title="Gap", paper="ours", year=2026, formula="l_1 - l_2")
class Gap(Detector):
    def _score(self, features, logits):
        first, second = logits.topk(2, dim=1).values.unbind(1)
        return first - second


@register("spread", title="Spread", paper="ours", year=2026, formula="-sum_l |z_l - mu_l| / sqrt(D_l)")
class Spread(MultiLayer):
    """A score of several layers: how far each is from its mean."""

    layer_needs = Needs(mean=True)

    def _fit_layers(self, references):
        for place, reference in enumerate(references.values()):
            self.register_buffer(f"mean_{place}", reference.statistics.moments.mean)

    def _score_layers(self, layers, logits):
        far = [
            (rows - getattr(self, f"mean_{place}").to(rows)).norm(dim=1) / rows.shape[1] ** 0.5
            for place, rows in enumerate(layers.values())
        ]
        return -torch.stack(far).sum(dim=0)


@register("steep", title="Steep", paper="ours", year=2026, formula="-|d lse(f(x)) / dx|_1")
class Steep(MultiLayer):
    """A score from the model and its inputs: numbers of its own stand before the features."""

    observes = ("steepness",)

    def observe(self, model, inputs):
        slope = input_gradient(lambda shown: model(shown).logsumexp(dim=1), inputs)
        return {"steepness": slope.flatten(1).abs().sum(dim=1, keepdim=True)}

    def _score_layers(self, layers, logits):
        return -layers["steepness"][:, 0]


@source("mine")
def load(request: Request) -> LoadedModel:
    pixels = Pixels(size=8, mean=(0.0,), std=(1.0,))
    model = TinyConv() if request.name == "conv" else Tiny()
    return LoadedModel(request.spec, model, pixels, repr(pixels), pixels.input_shape, layer="fc")


@data_format("raw8", suffixes=(".raw8",), title="bytes of 8x8 pictures (.raw8)")
def open_raw8(path: Path) -> ImageStack:
    images = np.fromfile(path, dtype=np.uint8).reshape(-1, 8, 8)
    return ImageStack(path.name, images, np.arange(len(images)) % 3)


SPLITS = {"train": Split(90, ("train.raw8",)), "test": Split(60, ("test.raw8",))}
register_dataset(Dataset("bytes", "Bytes", SPLITS, "made"))
register_dataset(Dataset("dark", "Dark bytes", {"test": Split(45, ("dark.raw8",))}, "made"))
register_protocol(on_dataset("bytes", "Bytes against dark bytes", "bytes", {"dark": None}))


@paper_figure("fig:mine", "A figure of mine", Need("train.raw8"))
def mine(context: Context, subjects: object) -> dict[str, Figure]:
    figure = Figure()
    figure.subplots().hist(np.fromfile(context.root / "train.raw8", dtype=np.uint8))
    return {"figure-mine": figure}


def middle(curve):
    accepted = curve.id_counts.cumsum(axis=-1)
    at = (accepted >= accepted[..., -1:] / 2).argmax(axis=-1)
    false = curve.ood_counts.cumsum(axis=-1)
    return np.take_along_axis(false, at[..., None], axis=-1)[..., 0] / false[..., -1]


FPR50 = Metric("fpr50", "FPR50", True, "share of OOD accepted when half of ID is", middle, tabled=True)
register_metric(FPR50)
'''


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mine")
    (folder / "mine.py").write_text(MINE, encoding="utf-8")
    rng = np.random.default_rng(0)
    for name, count, top in (("train", 90, 256), ("test", 60, 256), ("dark", 45, 128)):
        rng.integers(0, top, (count, 8, 8), dtype=np.uint8).tofile(folder / f"{name}.raw8")
    return folder


def run(place: Path, *arguments: str) -> str:
    done = command("--import", "mine", *arguments, folder=place, env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert done.code == 0, done.err
    return done.out


def test_a_protocol_a_source_a_format_a_score_and_a_metric_meet_in_a_bench(place: Path) -> None:
    shown = run(
        place, "bench", "bytes", "--model", "mine:tiny", "--root", ".", "--cache", "cache", "-o", "out",
        "--detector", "gap", "--detector", "ora", "--workers", "0", "--force",
    )  # fmt: skip
    assert "Gap" in shown
    assert "FPR50 ↓ in %" in shown
    results = json.loads((place / "out" / "results.json").read_text(encoding="utf-8"))
    assert results["title"] == "Bytes against dark bytes"
    (cell,) = (cell for cell in results["cells"] if (cell["entry"], cell["ood"]) == ("Gap", "dark"))
    assert 0 <= cell["fpr50"] <= cell["fpr95"]
    with (place / "out" / "results.csv").open(encoding="utf-8", newline="") as file:
        assert "fpr50" in {row["metric"] for row in csv.DictReader(file)}
    assert "FPR50" in (place / "out" / "report.html").read_text(encoding="utf-8")
    assert "bytes: everything is here" in run(place, "data", "--root", ".")


def test_a_figure_is_listed_and_drawn(place: Path) -> None:
    assert "fig:mine" in run(place, "reproduce", "--root", ".")
    run(place, "reproduce", "fig:mine", "--root", ".", "-o", "drawn", "--cache", "cache")
    assert (place / "drawn" / "figure-mine.png").stat().st_size > 1_000


def test_a_score_and_a_source_make_a_guard(place: Path) -> None:
    model = ("--model", "mine:tiny")
    run(place, "extract", *model, "--data", "train.raw8", "-o", "features", "--workers", "0")
    fit = ("fit", "--data", "features", "--detector", "gap", "-o", "guard.safetensors")
    run(place, *fit, "--calibration-share", "0.5", "--force")  # labels that mean nothing
    assert "of 45 flagged as OOD" in run(place, "score", "guard.safetensors", "dark.raw8", "--workers", "0")


def test_scores_of_layers_and_of_the_model_itself(place: Path) -> None:
    """A plug-in of each: `fit`, `score` and `bench` know what they need, and give what the formulas do."""
    model, few = ("--model", "mine:conv"), ("--workers", "0")
    for name, layers in (("spread", ("--layer", "stem", "--layer", "block")), ("steep", ())):
        fit = (
            "fit",
            *model,
            "--data",
            "train.raw8",
            "--detector",
            name,
            *layers,
            "-o",
            f"{name}.safetensors",
        )
        run(place, *fit, "--calibration-share", "0.5", "--force", *few)
        run(place, "score", f"{name}.safetensors", "dark.raw8", "-o", f"{name}.csv", *few)
    shown = run(
        place, "bench", "bytes", *model, "--root", ".", "--cache", "cache", "-o", "views", *few,
        "--detector", "spread", "--detector", "steep", "--layer", "stem", "--layer", "block", "--force",
    )  # fmt: skip
    assert "left out" not in shown
    assert "Spread" in shown
    found = {
        name: [float(row["score"]) for row in csv.DictReader(texts.splitlines())]
        for name in ("spread", "steep")
        if (texts := (place / f"{name}.csv").read_text(encoding="utf-8"))
    }
    images = torch.from_numpy(np.fromfile(place / "dark.raw8", dtype=np.uint8).reshape(-1, 1, 8, 8)) / 255
    net = TinyConv().double().eval()
    for row, image in enumerate(images.double()[:6]):
        steps = 1e-5 * torch.eye(64, dtype=torch.float64).reshape(64, 1, 8, 8)
        with torch.no_grad():
            above, below = (net(image + sign * steps).logsumexp(dim=1) for sign in (1, -1))
        slope = float(((above - below) / 2e-5).abs().sum())
        assert found["steep"][row] == pytest.approx(-slope, rel=1e-4)
    assert len(set(found["spread"])) == len(images)
