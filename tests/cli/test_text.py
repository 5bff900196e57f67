"""Texts from the shell: a tiny classifier of transformers through the commands, on JSON lines."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from text_models import LIMIT, NAMES, sentences, write_classifier, write_jsonl
from theodolite import Guard
from theodolite.cli.app import main
from theodolite.core.errors import InputError
from theodolite.features.linear_probe import save_probe
from theodolite.features.store import FeatureStore
from theodolite.models import LoadedModel, load_model
from theodolite.reference.head import Head

pytest.importorskip("transformers", reason="pip install 'theodolite[text]'")

Command = Callable[..., str]
LONG = "word " * (2 * LIMIT)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier, texts with the labels it gives them, by name, and texts of another kind."""
    folder = tmp_path_factory.mktemp("texts")
    loaded = load_model(f"hf-text:{write_classifier(folder / 'model')}")
    for name, count, seed in (("train", 240, 1), ("val", 120, 2), ("test", 60, 3)):
        texts = sentences(count, seed)
        with torch.no_grad():
            answers = loaded.model(**loaded.batch(texts)).logits.argmax(dim=1).tolist()  # type: ignore[arg-type]
        write_jsonl(folder / f"{name}.jsonl", texts, [NAMES[answer] for answer in answers])
    write_jsonl(folder / "broken.jsonl", ["book a flight", "", LONG])
    (folder / "far.txt").write_text("zzz qqq\nxxx yyy zzz\n" * 10)
    return folder


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """Runs a command in this process, which has transformers already; gives what it said."""
    monkeypatch.setenv("THEODOLITE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "400")

    def run(*args: object, code: int = 0) -> str:
        monkeypatch.setattr(sys, "argv", ["theodolite", *map(str, args)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        assert (ended.value.code or 0) == code, said.err
        return " ".join((said.out + said.err).split())

    return run


@pytest.fixture
def guard(place: Path, command: Command, tmp_path: Path) -> Path:
    model = f"hf-text:{place / 'model'}"
    data = ("--data", place / "train.jsonl", "--calibration-data", place / "val.jsonl")
    command("fit", "--model", model, *data, "--detector", "energy", "-o", tmp_path / "guard.safetensors")
    return tmp_path / "guard.safetensors"


def test_extract_fit_score_inspect_explain(
    place: Path, guard: Path, command: Command, tmp_path: Path
) -> None:
    model = f"hf-text:{place / 'model'}"
    said = command("extract", "--model", model, "--data", place / "train.jsonl", "-o", tmp_path / "store")
    assert "240 × 16 features" in said
    store = FeatureStore(tmp_path / "store")
    loaded, texts = load_model(model), sentences(240, 1)
    with torch.no_grad():
        expected = loaded.model(**loaded.batch(texts)).logits  # type: ignore[arg-type]
    features, labels, _ = next(iter(store.batches(240)))
    assert store.head is not None
    torch.testing.assert_close(store.head.logits(features), expected, rtol=1e-4, atol=1e-5)
    assert labels is not None
    assert labels.tolist() == expected.argmax(dim=1).tolist()  # names of the data are those of the model
    inspected = command("inspect", tmp_path / "store")
    assert "tokenizer" in inspected
    assert f"at most {LIMIT} tokens" in inspected
    assert "hf-text:" in command("inspect", guard)
    command("score", guard, place / "test.jsonl", place / "far.txt", "-o", tmp_path / "scores.csv")
    with (tmp_path / "scores.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 80
    assert rows[0]["path"] == "test.jsonl#0"
    assert {row["name"] for row in rows[:60]} <= set(NAMES)
    direct = Guard.load(guard).attach(loaded).verdicts(sentences(60, 3))
    assert [float(row["score"]) for row in rows[:60]] == pytest.approx(
        torch.as_tensor(direct.score).tolist(), rel=1e-4, abs=1e-4
    )
    assert "test.jsonl#1" in command("explain", guard, place / "test.jsonl", "--row", "1")


def test_texts_that_are_cut_or_empty_are_told(
    place: Path, guard: Path, command: Command, tmp_path: Path
) -> None:
    model, data = f"hf-text:{place / 'model'}", ("--data", place / "broken.jsonl")
    said = command("extract", "--model", model, *data, "-o", tmp_path / "a", code=2)
    assert "broken.jsonl#1 is no text (it is empty)" in said
    said = command("extract", "--model", model, *data, "-o", tmp_path / "b", "--skip-unreadable")
    assert "1 unreadable left out" in said
    assert "1 of 2 samples are longer than the model takes" in said
    assert FeatureStore(tmp_path / "b").cut == 1
    assert "1 samples longer than the model takes" in command("inspect", tmp_path / "b")
    assert "are longer" in command(
        "extract", "--model", model, *data, "-o", tmp_path / "b", "--skip-unreadable"
    )
    scores = tmp_path / "scores.csv"
    said = command("score", guard, place / "broken.jsonl", "-o", scores, "--skip-unreadable")
    assert "1 of 3 samples are longer than the model takes" in said
    with pytest.warns(UserWarning, match="1 of 2 samples are longer"):
        Guard.load(guard).attach(load_model(model)).verdicts(["book", LONG])


def test_an_encoder_a_probe_and_a_benchmark(place: Path, command: Command, tmp_path: Path) -> None:
    encoder = f"hf-text:{place / 'model'}?pooling=mean"
    for name in ("train", "test"):
        command(
            "extract",
            "--no-head",
            "--model",
            encoder,
            "--data",
            place / f"{name}.jsonl",
            "-o",
            tmp_path / name,
        )
    said = command(
        "probe",
        tmp_path / "train",
        "--test",
        tmp_path / "test",
        "-o",
        tmp_path / "probe.safetensors",
        "--learning-rate",
        "0.05",
    )
    assert "linear probe of 3 classes on 16 features" in said
    known = load_model(f"{encoder}&linear={tmp_path / 'probe.safetensors'}")
    assert known.class_names == tuple(sorted(NAMES))
    with pytest.raises(
        InputError, match=r"not those that the probe was trained on \(money, music, travel …\)"
    ):
        load_model(f"{encoder}&linear={tmp_path / 'probe.safetensors'}&classes={','.join(NAMES)}")
    own = ("--fit", place / "train.jsonl", "--id", place / "test.jsonl", "--ood", f"far={place / 'far.txt'}")
    model = f"{encoder}&linear={tmp_path / 'probe.safetensors'}"
    scores = ("--detector", "msp", "--detector", "odin", "--force", "-o", tmp_path / "out")
    said = command("bench", *own, "--model", model, *scores)
    assert "asks more of the model than features, which is for pictures, and the model takes texts" in said
    result = json.loads((tmp_path / "out" / "results.json").read_text())
    loaded = load_model(model)
    top = [
        _largest(loaded, texts) for texts in (sentences(60, 3), (place / "far.txt").read_text().splitlines())
    ]
    wins = [float(one > other) + 0.5 * float(one == other) for one in top[0] for other in top[1]]
    found = [cell["auroc"] for cell in result["cells"] if (cell["entry"], cell["ood"]) == ("MSP", "far")]
    assert found == [pytest.approx(100 * sum(wins) / len(wins), abs=0.1)]


def test_data_that_lacks_a_class_has_the_numbers_of_the_probe(
    place: Path, command: Command, tmp_path: Path
) -> None:
    """By itself, the file would give its two classes the numbers 0 and 1; a name of none is no label."""
    encoder = f"hf-text:{place / 'model'}?pooling=mean"
    head = Head(torch.eye(3, 16), torch.zeros(3))
    save_probe(head, tmp_path / "probe.safetensors", class_names=sorted(NAMES))
    texts = ["book a flight", "play a song", "turn off a light"]
    found = []
    for last in ("music", "weather"):
        write_jsonl(tmp_path / f"{last}.jsonl", texts, ["travel", "music", last])
        model = f"{encoder}&linear={tmp_path / 'probe.safetensors'}"
        data = ("--data", tmp_path / f"{last}.jsonl", "-o", tmp_path / last)
        found.append("no class of the name 'weather'" in command("extract", "--model", model, *data))
    assert found == [False, True]
    _, labels, _ = next(iter(FeatureStore(tmp_path / "music").batches(3)))
    assert labels is not None
    assert labels.tolist() == [2, 1, 1]
    assert not FeatureStore(tmp_path / "weather").labelled


def _largest(loaded: LoadedModel, texts: list[str]) -> list[float]:
    """The largest probability of each text, all in one batch."""
    with torch.no_grad():
        logits = loaded.model(**loaded.batch(texts))  # type: ignore[arg-type]
    largest: list[float] = logits.double().softmax(dim=1).max(dim=1).values.tolist()
    return largest


def test_a_guard_never_scores_texts_that_were_prepared_otherwise(
    place: Path, guard: Path, command: Command, tmp_path: Path
) -> None:
    other = f"hf-text:{place / 'model'}?max_length=9"
    command("extract", "--model", other, "--data", place / "test.jsonl", "-o", tmp_path / "short")
    said = command("score", guard, tmp_path / "short", "-o", tmp_path / "s.csv", code=2)
    assert "other weights, layer or preprocessing than the guard's" in said
    said = command("score", guard, place / "test.jsonl", "--model", other, "-o", tmp_path / "s.csv", code=2)
    assert "the guard was fitted on" in said


def test_pictures_and_texts_are_not_taken_for_each_other(
    place: Path, guard: Path, command: Command, tmp_path: Path
) -> None:
    from PIL import Image

    Image.new("L", (8, 8)).save(tmp_path / "a.png")
    assert "holds pictures, but the model" in command(
        "score", guard, tmp_path / "a.png", "-o", tmp_path / "s.csv", code=2
    )
    model = ("--model", "python:small_models:Tiny?mean=0&size=8", "-o", tmp_path / "x")
    said = command("extract", *model, "--data", place / "test.jsonl", code=2)
    assert "holds texts, but the model python:small_models:Tiny?mean=0&size=8 takes pictures" in said


def test_what_takes_pictures_only_says_so(place: Path, guard: Path, command: Command, tmp_path: Path) -> None:
    texts = f"hf-text:{place / 'model'} takes texts"
    assert texts in command("export", guard, tmp_path / "guard.pt2", code=2)
    assert texts in command("export", guard, tmp_path / "guard.pt2", "--with-preprocessing", code=2)
    data = ("--data", place / "train.jsonl", "--model", f"hf-text:{place / 'model'}", "-o", tmp_path / "x")
    assert texts in command("extract", *data, "--engine", "ray", code=2)
    assert "odin" in command("fit", *data, "--detector", "odin", code=2).lower()
    pytest.importorskip("fastapi", reason="the extra serve is not installed")
    assert texts in command("serve", guard, "--port", "0", code=2)
