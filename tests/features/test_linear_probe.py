"""The linear probe: it reaches the optimum that scikit-learn finds, from arrays and from stores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner

from command_server import run
from synthetic import Problem, make_problem
from theodolite import Head
from theodolite.cli.app import app
from theodolite.core.errors import InputError, TheodoliteWarning
from theodolite.evaluation import head_accuracy
from theodolite.features import probe_data
from theodolite.features.head_files import read_head
from theodolite.features.linear_probe import save_probe, train_probe
from theodolite.features.logistic_probe import solve_probe
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
    monkeypatch.setattr(probe_data, "_BLOCK_ENTRIES", 1)
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


# ---------------------------------------------------------------------- the optimum


def theirs(problem: Problem, rows: torch.Tensor, penalty: float) -> Head:
    """scikit-learn's answer, solved further than it does by itself."""
    model = LogisticRegression(C=1 / penalty, max_iter=20_000, tol=1e-9)
    model.fit(rows.double().numpy(), problem.labels.numpy())
    return Head(torch.tensor(model.coef_), torch.tensor(model.intercept_))


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("penalty", [0.01, 1.0, 30.0])
def test_lbfgs_is_scikit_learns_logistic_regression(unit: bool, penalty: float) -> None:
    problem = overlapping()
    seen = problem.train / problem.train.norm(dim=1, keepdim=True) if unit else problem.train
    head = solve_probe(problem.train, problem.labels, penalty=penalty, unit_features=unit)
    best = theirs(problem, seen, penalty)
    assert head.unit_features == unit
    torch.testing.assert_close(head.weight, best.weight.float(), rtol=1e-3, atol=1e-3)
    answers = head(problem.train).argmax(1)
    assert torch.equal(answers, best(seen.double()).argmax(1))
    assert 0.2 < float((answers == problem.labels).double().mean()) < 1


def test_lbfgs_streams_from_a_store_and_needs_no_seed(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    features = FeatureStore(store)
    rows = torch.cat([features.shard(index).features for index in range(features.shards)]).float()
    labels = torch.cat([features.shard(index).labels for index in range(features.shards)]).long()
    held: list[int] = []
    reading = FeatureStore.shard

    def counted(self: FeatureStore, index: int) -> object:
        held.append(index)
        return reading(self, index)

    monkeypatch.setattr(probe_data, "_BLOCK_ENTRIES", 1)
    monkeypatch.setattr(FeatureStore, "shard", counted)
    told: list[tuple[int, float, float]] = []
    streamed = solve_probe(features, penalty=1.0, progress=lambda *said: told.append(said))
    # One shard after the other, in every pass; the first look was for the highest label.
    assert held == list(range(features.shards)) * (1 + len(told))
    whole = solve_probe(rows, labels, penalty=1.0)
    torch.testing.assert_close(streamed.weight, whole.weight, rtol=1e-4, atol=1e-5)
    best = LogisticRegression(C=1.0, max_iter=20_000, tol=1e-9).fit(rows.double().numpy(), labels.numpy())
    assert np.array_equal(streamed(rows).argmax(1).numpy(), best.predict(rows.double().numpy()))
    assert told[-1][1] < told[0][1] == pytest.approx(np.log(3))


def test_lbfgs_says_where_it_is_not_done() -> None:
    problem = overlapping()
    with pytest.warns(TheodoliteWarning, match="not solved after 4 passes over the data"):
        solve_probe(problem.train, problem.labels, passes=3)
    for bad in ({"penalty": -1.0}, {"passes": 0}, {"penalty": float("nan")}):
        with pytest.raises(InputError, match="penalty must be 0 or above and passes at least 1"):
            solve_probe(problem.train, problem.labels, **bad)


def test_adam_on_unit_features_is_adam_on_rows_divided_by_their_norm() -> None:
    problem = overlapping()
    seen = problem.train / problem.train.norm(dim=1, keepdim=True)
    head = train_probe(7 * problem.train, problem.labels, unit_features=True, epochs=3)
    plain = train_probe(seen, problem.labels, epochs=3)
    assert head.unit_features
    assert not plain.unit_features
    torch.testing.assert_close(head.weight, plain.weight, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(head(problem.train), plain(seen), rtol=1e-4, atol=1e-5)


def test_the_command_solves_and_keeps_optimisers_apart(store: Path, tmp_path: Path) -> None:
    out = tmp_path / "probe.safetensors"

    def probe(*words: str) -> None:
        done = CliRunner().invoke(app, ["probe", str(store), "-o", str(out), *words])
        if done.exception is not None:
            raise done.exception

    probe("--optimiser", "lbfgs", "--unit-features", "--penalty", "0.1")
    read, wanted = read_head(out), solve_probe(FeatureStore(store), unit_features=True, penalty=0.1)
    assert read.unit_features
    torch.testing.assert_close(read.weight, wanted.weight, rtol=1e-4, atol=1e-4)
    with pytest.raises(InputError, match="--epochs is of --optimiser adam, and lbfgs has no use for it"):
        probe("--optimiser", "lbfgs", "--epochs", "3")
    with pytest.raises(InputError, match="--penalty is of --optimiser lbfgs, and adam has no use for it"):
        probe("--penalty", "3")
    with pytest.raises(InputError, match="--optimiser must be adam or lbfgs, got 'sgd'"):
        probe("--optimiser", "sgd")


def test_features_in_float64_teach_the_probe_as_those_in_float32() -> None:
    problem = make_problem()
    heads = [train_probe(rows, problem.labels, epochs=2) for rows in (problem.train, problem.train.double())]
    assert torch.equal(heads[0].weight, heads[1].weight)
