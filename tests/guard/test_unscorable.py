"""Rows with NaN or infinity: an error by default, and a verdict of their own where that is asked for."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from command_server import run
from made_guards import CLASSES, WIDTH, clusters, fitted, head
from made_stores import store_of
from synthetic import make_problem
from theodolite.core.errors import InputError, TheodoliteError, TheodoliteWarning
from theodolite.features import Running, extract
from theodolite.guard import Guard, PathVerdict, Provenance, Verdicts
from theodolite.report.score_files import open_sink

BAD = [3, 7, 11]
FRAGILE = "python:small_models:Fragile?mean=0&size=8"


@pytest.fixture(scope="module")
def guard() -> Guard:
    return fitted(1_000, class_names=list("abcde"))


def spoilt(rows: Tensor) -> Tensor:
    rows = rows.clone()
    rows[3, 0], rows[7, 5], rows[11] = torch.nan, torch.inf, -torch.inf
    return rows


def others(count: int) -> list[int]:
    return [row for row in range(count) if row not in BAD]


def test_the_default_refuses_and_names_the_rows(guard: Guard) -> None:
    rows = spoilt(clusters(40, 1)[0])
    for judge in (guard, guard.verdicts, lambda x: guard.verdicts(x, unscorable="raise")):
        with pytest.raises(InputError, match="NaN or infinity in rows 3, 7, 11"):
            judge(rows)
    with pytest.raises(InputError, match="unscorable must be 'raise' or 'flag', got 'skip'"):
        guard.verdicts(rows, unscorable="skip")


@pytest.mark.parametrize("spec", ["ora", "knn?k=5", "msp+react:80"])
def test_flagged_rows_leave_the_others_alone(spec: str) -> None:
    features, labels = clusters(1_000, 0)
    guard = Guard.fit(features, labels, head=head(), detector=spec)
    clean = clusters(40, 1)[0]
    said, alone = guard.verdicts(spoilt(clean), unscorable="flag"), guard.verdicts(clean[others(40)])
    for column, right in zip(said, alone, strict=True):
        assert torch.equal(torch.as_tensor(column)[others(40)], torch.as_tensor(right))
    assert torch.as_tensor(said.unscorable).nonzero().flatten().tolist() == BAD
    for row in BAD:
        predicted, score, p_value, is_ood = (column[row] for column in said)
        assert (int(predicted), bool(is_ood)) == (-1, True)
        assert np.isnan([float(score), float(p_value)]).all()
    assert not bool(torch.as_tensor(alone.unscorable).any())


def test_numpy_stays_numpy_and_other_rates_hold(guard: Guard) -> None:
    rows = spoilt(clusters(40, 1)[0]).numpy()
    said = guard.verdicts(rows, unscorable="flag", false_alarm_rate=0.5)
    assert all(isinstance(column, np.ndarray) for column in (*said, said.unscorable))
    assert np.flatnonzero(said.unscorable).tolist() == BAD
    alone = guard.verdicts(rows[others(40)], false_alarm_rate=0.5)
    np.testing.assert_array_equal(np.asarray(said.is_ood)[others(40)], alone.is_ood)


def test_a_batch_without_a_single_good_row(guard: Guard) -> None:
    said = guard(torch.full((4, WIDTH), torch.nan), unscorable="flag")
    assert bool(torch.as_tensor(said.is_ood).all())
    assert bool(torch.as_tensor(said.unscorable).all())
    with pytest.raises(InputError, match="width 3"):
        guard(torch.full((4, 3), torch.nan), unscorable="flag")
    with pytest.raises(InputError, match="empty"):
        guard(torch.zeros(0, WIDTH), unscorable="flag")


def test_numbers_without_a_score_are_unscorable_too() -> None:
    """Finite features may be too large for any arithmetic: NaN would otherwise rank as most familiar."""
    features, labels = clusters(1_000, 0)
    guard = Guard.fit(features, labels, head=head(), detector="msp")
    rows = clusters(5, 1)[0].double()
    rows[2] = 1e308 * head().weight[0].double().sign()
    with pytest.raises(InputError, match="MSP has no score for row 2"):
        guard.verdicts(rows)
    said = guard.verdicts(rows, unscorable="flag")
    assert torch.as_tensor(said.unscorable).tolist() == [False, False, True, False, False]
    assert bool(torch.as_tensor(said.is_ood)[2])


def test_pictures_that_a_model_cannot_digest() -> None:
    last = nn.Linear(WIDTH, CLASSES, bias=False)
    last.weight.data.copy_(head().weight)
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, WIDTH), last)
    images = torch.rand(6, 3, 2, 2)
    watching = fitted(1_000)
    with pytest.warns(TheodoliteWarning, match="fitted on features alone"):
        watching.attach(model)
    watching.verdicts(images)
    images[4, 0, 0, 0] = torch.nan
    said = watching.verdicts(images, unscorable="flag")
    assert torch.as_tensor(said.unscorable).nonzero().flatten().tolist() == [4]


def test_no_class_has_no_name(guard: Guard) -> None:
    assert guard.class_name(4) == "e"
    with pytest.raises(InputError, match="there is no class -1: an unscorable sample"):
        guard.class_name(-1)


def test_rows_of_paths_say_unscorable(guard: Guard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clean, labels = clusters(200, 1)
    store = store_of(tmp_path / "store", clean, labels, head())
    monkeypatch.setattr("theodolite.guard.path_reader.require_store", lambda *_, **__: None)
    rows = guard.score_folder(store.path, unscorable="flag")
    judge = guard.verdicts_of_own
    monkeypatch.setattr(
        guard,
        "verdicts_of_own",
        lambda features, **options: judge(spoilt(features), **options),
        raising=False,
    )
    with pytest.raises(InputError, match="NaN or infinity in rows 3, 7, 11"):
        guard.score_folder(store.path)
    with pytest.raises(InputError, match="unscorable must be"):
        guard.score_paths([store.path], unscorable="skip")
    marked = guard.score_folder(store.path, unscorable="flag")
    for start in (0, 128):
        for row in BAD:
            expected = PathVerdict(rows[start + row].path, None, None, None, None, "unscorable")
            assert marked[start + row] == expected
    good = [row for row in range(200) if row % 128 not in BAD]
    for row in good:
        assert (marked[row].path, marked[row].verdict) == (rows[row].path, rows[row].verdict)
        assert marked[row].score == pytest.approx(rows[row].score, rel=1e-6)
    with open_sink(tmp_path / "scores.jsonl") as sink:
        sink.write(marked)
    lines = [json.loads(line) for line in (tmp_path / "scores.jsonl").read_text().splitlines()]
    assert lines[3]["verdict"] == "unscorable"
    assert lines[3]["score"] is None


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures to fit on, and a folder in which one is black, on which the model returns NaN."""
    folder = tmp_path_factory.mktemp("pictures")
    rng = np.random.default_rng(0)
    for index in range(130):
        place = folder / ("new" if index >= 120 else "known/" + "abc"[index % 3])
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (8, 8), dtype=np.uint8)).save(place / f"{index:03d}.png")
    Image.new("L", (8, 8)).save(folder / "new" / "124-black.png")
    store = extract(folder / "known", FRAGILE, output=folder / "store")
    provenance = Provenance.of_store(store)
    guard = Guard.fit(store, head=store.head, detector="energy", provenance=provenance)
    guard.save(folder / "guard.safetensors")
    return folder


@pytest.mark.parametrize("batch_size", [1, 4, 64])
def test_a_picture_that_the_model_cannot_digest(pictures: Path, batch_size: int) -> None:
    """Also as the first one of all, on which a model would otherwise be checked."""
    running = Running(batch_size=batch_size)
    with pytest.raises(TheodoliteError, match="NaN or infinity in row"):
        Guard.load(pictures / "guard.safetensors").score_folder(pictures / "new", model=FRAGILE)
    guard = Guard.load(pictures / "guard.safetensors")
    paths = sorted((pictures / "new").iterdir(), key=lambda path: "black" not in path.name)
    batches = guard.score_paths(paths, model=FRAGILE, unscorable="flag", running=running)
    first, *rest = [row for rows in batches for row in rows]
    assert (Path(first.path).name, first.verdict, first.score) == ("124-black.png", "unscorable", None)
    alone = [row for rows in guard.score_paths(paths[1:], model=FRAGILE) for row in rows]
    assert [(row.path, row.predicted, row.verdict) for row in rest] == [
        (row.path, row.predicted, row.verdict) for row in alone
    ]


def test_the_command_goes_on_where_it_is_told_to(pictures: Path, tmp_path: Path) -> None:
    command = ("score", "--model", FRAGILE, pictures / "guard.safetensors", pictures / "new")
    refused = run(*command)
    assert refused.code == 2
    assert "NaN or infinity in row" in refused.err
    done = run(*command, "--flag-unscorable", "-o", tmp_path / "scores.jsonl")
    assert done.code == 0
    assert "1 unscorable, without verdict:" in done.out
    verdicts = [json.loads(line)["verdict"] for line in (tmp_path / "scores.jsonl").read_text().splitlines()]
    assert verdicts.count("unscorable") == 1
    assert len(verdicts) == 11
    assert run(*command, "--flag-unscorable", "--fail-on-ood").code == 3


def test_verdicts_unpack_as_four_columns(guard: Guard) -> None:
    assert Verdicts._fields == ("predicted", "score", "p_value", "is_ood")
    predicted, score, p_value, is_ood = guard.verdicts(clusters(3, 1)[0])
    assert len(predicted) == len(score) == len(p_value) == len(is_ood) == 3


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("spec", ["relative-energy", "ora", "energy", "msp", "mds", "knn", "energy+react:90"])
def test_logits_that_are_no_numbers_are_refused(spec: str, value: float) -> None:
    """Whoever gives them: also to scores that do not look at logits, or that work out their own."""
    made = make_problem(rows=300)
    judging = Guard.fit(made.train, made.labels, head=made.head, detector=spec)
    logits = made.head(made.test[:9])
    logits[4, 1] = value
    with pytest.raises(InputError, match="logits hold NaN or infinity in row 4"):
        judging.judge(made.test[:9], flag=False, logits=logits)
