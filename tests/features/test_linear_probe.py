"""The linear probe: it reaches the optimum that scikit-learn finds, from arrays and from stores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sklearn.linear_model import LogisticRegression

from command_server import run
from synthetic import Problem, make_problem
from theodolite import Head
from theodolite.core.errors import InputError
from theodolite.evaluation import head_accuracy
from theodolite.features import linear_probe
from theodolite.features.linear_probe import save_probe, train_probe
from theodolite.features.manifest import Recipe, listing_digest
from theodolite.features.store import FeatureStore
from theodolite.features.writer import Rows, StoreWriter

CLASSES = 6
MODEL = "python:small_models:Tiny?mean=0&size=8"


def overlapping() -> Problem:
    """Classes that no line separates, so that the best head is finite."""
    problem = make_problem(width=8, classes=CLASSES, rows=600)
    noise = 3 * torch.randn(600, 8, generator=torch.Generator().manual_seed(1))
    return Problem(problem.head, problem.train + noise, problem.labels, problem.test, problem.ood)


def loss(head: Head, problem: Problem) -> float:
    return float(torch.nn.functional.cross_entropy(head(problem.train), problem.labels))


def test_reaches_the_optimum_of_scikit_learn() -> None:
    problem = overlapping()
    head = train_probe(problem.train, problem.labels, epochs=600, learning_rate=0.02, batch_size=600)
    best = LogisticRegression(C=np.inf, max_iter=5000, tol=1e-8).fit(problem.train.numpy(), problem.labels)
    theirs = Head(torch.tensor(best.coef_), torch.tensor(best.intercept_)).float()
    assert loss(head, problem) == pytest.approx(loss(theirs, problem), rel=1e-3)
    agree = head(problem.train).argmax(1) == theirs(problem.train).argmax(1)
    assert agree.double().mean() > 0.99


def test_the_schedule_is_the_papers() -> None:
    """Thirty epochs of Adam at 1e-4, halved at 10 and 20, batches of 512: written out with torch alone."""
    problem = make_problem(width=8, classes=CLASSES, rows=700)
    torch.manual_seed(5)
    layer = torch.nn.Linear(8, CLASSES)
    optimiser = torch.optim.Adam(layer.parameters(), lr=1e-4)
    order = torch.Generator().manual_seed(5)
    for epoch in range(30):
        for group in optimiser.param_groups:
            group["lr"] = 1e-4 / (1 if epoch < 10 else 2 if epoch < 20 else 4)
        rows = torch.randperm(700, generator=order)
        for part in (rows[:512], rows[512:]):
            optimiser.zero_grad()
            error = torch.nn.functional.cross_entropy(layer(problem.train[part]), problem.labels[part])
            error.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    head = train_probe(problem.train, problem.labels, seed=5)
    torch.testing.assert_close(head.weight, layer.weight.detach())
    torch.testing.assert_close(head.bias, layer.bias.detach())


def test_seeds_progress_and_the_callers_random_numbers() -> None:
    problem, told = overlapping(), []
    state = torch.random.get_rng_state()
    first = train_probe(
        problem.train.numpy(), problem.labels.numpy(), epochs=3, progress=lambda *part: told.append(part)
    )
    assert torch.equal(torch.random.get_rng_state(), state)
    again = train_probe(problem.train, problem.labels, epochs=3)
    other = train_probe(problem.train, problem.labels, epochs=3, seed=1)
    assert torch.equal(first.weight, again.weight)
    assert not torch.equal(first.weight, other.weight)
    assert [epoch for epoch, _, _ in told] == [1, 2, 3]
    assert told[-1][1] < told[0][1]


def test_more_classes_than_labels_show() -> None:
    problem = overlapping()
    assert train_probe(problem.train, problem.labels, classes=9, epochs=1).classes == 9
    with pytest.raises(InputError, match="labels go up to 5: a probe of 4 classes"):
        train_probe(problem.train, problem.labels, classes=4)
    with pytest.raises(InputError, match="labels go up to 0"):
        train_probe(problem.train, torch.zeros(600, dtype=torch.int64))
    with pytest.raises(InputError, match="labels are missing"):
        train_probe(problem.train)
    with pytest.raises(InputError, match="epochs and batch_size"):
        train_probe(problem.train, problem.labels, epochs=0)
    bad = problem.train.clone()
    bad[3, 2] = torch.nan
    with pytest.raises(InputError, match="NaN or infinity in row 3"):
        train_probe(bad, problem.labels)


# ---------------------------------------------------------------------- stores and the command


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Grey noise whose brightness is its class, through a small network."""
    folder = tmp_path_factory.mktemp("probe")
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, size=2500)
    images = rng.integers(0, 60, size=(2500, 8, 8)) + 80 * labels[:, None, None]
    np.savez(folder / "images.npz", images=images.astype(np.uint8), labels=labels)
    made = run("extract", "--model", MODEL, "--data", folder / "images.npz", "-o", folder / "store")
    assert made.code == 0, made.err
    return folder / "store"


def test_a_store_is_read_in_blocks_of_shards(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    features = FeatureStore(store)
    assert features.shards > 2
    together = train_probe(features, epochs=40, learning_rate=0.05)
    monkeypatch.setattr(linear_probe, "_BLOCK_ENTRIES", 1)
    apart = train_probe(features, epochs=40, learning_rate=0.05)
    for head in (together, apart):
        assert (head_accuracy(head, features) or 0) > 0.98
    with pytest.raises(InputError, match="labels of its own"):
        train_probe(features, torch.zeros(2500))


def test_a_shard_of_which_nothing_could_be_read(tmp_path: Path) -> None:
    names = [f"{index}.png" for index in range(60)]
    features = torch.randn(60, 5, generator=torch.Generator().manual_seed(0))
    recipe = Recipe(
        model="python:toy:make",
        weights="a" * 64,
        preprocess="plain",
        layer="fc",
        data=listing_digest(names),
        samples=60,
    )
    writer = StoreWriter.open(tmp_path / "s", recipe, Head(torch.eye(5)), source="toy", shard_rows=20)
    for shard in range(3):
        part = slice(20 * shard, 20 * shard + 20)
        read = Rows([features[part]], [index % 3 for index in range(20)], names[part])
        writer.write(shard, Rows(skipped=names[part]) if shard == 1 else read)
    assert train_probe(FeatureStore(tmp_path / "s"), epochs=1).classes == 3


def test_the_command_writes_a_head_that_models_and_folders_take(store: Path, tmp_path: Path) -> None:
    out = tmp_path / "probe.safetensors"
    fast = ("--epochs", "40", "--learning-rate", "0.05")
    made = run("probe", store, "-o", out, "--test", store, *fast)
    assert made.code == 0, made.err
    assert "linear probe of 3 classes on" in made.out
    assert "of 2,500 held-out ones" in made.out
    assert set(load_file(out)) == {"weight", "bias"}
    refused = run("probe", tmp_path / "nothing", "-o", out)
    assert refused.code == 2
    assert "Traceback" not in refused.err


def test_a_saved_probe_is_read_as_the_linear_head_of_a_model(tmp_path: Path) -> None:
    from theodolite.models.checkpoint import linear_weights

    problem = overlapping()
    head = train_probe(problem.train, problem.labels, epochs=1)
    save_probe(head, tmp_path / "probe.safetensors")
    read = linear_weights(tmp_path / "probe.safetensors")
    assert torch.equal(read["weight"], head.weight)
    assert torch.equal(read["bias"], head.bias)
