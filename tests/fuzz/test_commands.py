"""Command lines of every sort: an answer or one paragraph of ours, never a traceback, never a signal.

All commands but serve, which does not end.
"""

from __future__ import annotations

import re
import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
import typer
from hypothesis import assume, given
from hypothesis import strategies as st
from PIL import Image
from safetensors.torch import save_file

import made_guards
from command_server import run
from fuzzing import LONG, cases, count
from made_folders import make_folder
from theodolite.cli.app import app

COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]
MODEL = "python:small_models:Tiny?mean=0&size=8"
ENDLESS = "9" * 30  # as a number of epochs it is a valid one
ODD = (
    "", " ", "nonsense", "nan", "inf", "-1", "0", "1", "2.5", "1e999", "-0", ENDLESS, "9" * 5000, "true",
    "é", "\udcff", "a\x07b", "[/b]", "[red]", "../..", "/dev/null", "/nowhere/at/all", "--help", "~", "*",
    "guard.safetensors", "junk.safetensors", "junk.json", "images", "store", "features", "empty", "one.png",
)  # fmt: skip
FILES = (
    "guard.safetensors",
    "part-1.safetensors",
    "images",
    "one.png",
    "store",
    "rows.npy",
    "junk.safetensors",
    "junk.json",
    "empty",
)
MEANT: dict[str, tuple[str, ...]] = {
    "--data": ("images", "images", "rows.npy", "store", "empty", "one.png"),
    "--output": ("out", "out/deep", "out.csv", "out.safetensors", "images", "-"),
    "--model": (MODEL, MODEL, "python:small_models:Nothing", "python:", "timm:nonsense", "resnet18", "ora"),
    "--weights": ("junk.safetensors", "none"),
    "--layer": ("fc", "0", "layer.9"),
    "--kind": ("flat", "folder", "list", "cifar", "martingale", "shiryaev-roberts"),
    "--head": ("features/head.safetensors", "junk.safetensors"),
    "--from": ("features", "images", "other"),
    "--dtype": ("float32", "float16", "float64"),
    "--batch-size": ("1", "7", "100000"),
    "--workers": ("0", "1"),
    "--device": ("auto", "cpu", "cuda", "cuda:99", "nonsense"),
    "--limit": ("1", "5", "100"),
    "--part": ("1/2", "2/2", "3/2", "0/0", "a/b"),
    "--detector": (
        "ora", "knn?k=3", "msp", "energy?temperature=1e999", "neco?use_logit=maybe", "knn?k=", "ora+react:80",
        "knn?k={1,3}", "ora+react:{80,9x}", "{ora,msp", "{,}",
    ),
    "--first-look": ("look.safetensors", "look*", "part-1.safetensors", "junk.safetensors"),
    "--shaping": ("react", "react:80", "ash-s:101", "scale:nan", "vra:60", "vra:60,90", "ras"),
    "--calibration-data": ("images", "rows.npy", "store"),
    "--calibration-share": ("0.5", "1", "1e-9"),
    "--class-names": ("junk.json", "names.txt"),
    "--false-alarm-rate": ("0.05", "0.5", "1e-9", "1"),
    "--fdr": ("0.05", "0.5", "1e-9", "1"),
    "--class-minimum": ("1", "20", "1000"),
    "--alarm": ("0.01", "1e-9", "1"),
    "--state": ("out.safetensors", "guard.safetensors", "junk.json"),
    "--bank": ("store", "rows.npy", "images"),
    "--row": ("0", "5", "1000"),
    "--top": ("1", "100"),
    "--neighbours": ("1", "100"),
    "--check": ("rows.npy", "store", "images"),
    "--format": ("csv", "jsonl", "parquet", "xml"),
    "--epochs": ("1", "2"),
    "--learning-rate": ("0.1", "1e30"),
    "--rows": ("1", "64"),
    "--seed": ("0", "7"),
    "--classes": ("3", "100"),
    "--test": ("store", "features"),
    "--replicates": ("1", "5"),
    "--id": ("images", "store"),
    "--fit": ("images", "store"),
    "--ood": ("images", "one.png", "empty"),
    "--validation-ood": ("v=rows.npy", "v=store", "v=features/svhn.safetensors", "v=junk.safetensors", "v"),
    "--held-out": ("rows.npy", "store", "features/id_test.safetensors"),
    "--folds": ("1", "2", "100"),
    "--ranking": ("junk.json", "names.txt", "out.json"),
    "--root": ("empty", "features"),
    "--cache": ("cache", "junk.json"),
}  # fmt: skip
# Command lines that work, to begin from.
GOOD = (
    ("extract", "--model", MODEL, "--data", "images", "-o", "out"),
    ("extract", "--data", "rows.npy", "--head", "features/head.safetensors", "-o", "out"),
    ("fit", "--model", MODEL, "--data", "images", "-o", "out.safetensors", "--force"),
    ("fit", "--data", "store", "-o", "out.safetensors", "--force"),
    ("fit", "--data", "rows.npy", "--detector", "knn?k=3", "-o", "out.safetensors"),
    ("collect", "--model", MODEL, "--data", "images", "--part", "1/2", "-o", "out.safetensors"),
    ("collect", "--data", "store", "--detector", "ora+react:80", "-o", "out.safetensors"),
    ("collect", "--data", "rows.npy", "--detector", "knn?k=3", "-o", "out.safetensors"),
    ("fit", "part-1.safetensors", "part-2.safetensors", "-o", "out.safetensors", "--force"),
    ("score", "guard.safetensors", "rows.npy"),
    ("score", "image-guard.safetensors", "images", "--model", MODEL, "-o", "out.csv"),
    ("score", "image-guard.safetensors", "store", "one.png", "--model", MODEL),
    ("score", "guard.safetensors", "rows.npy", "--fdr", "0.2"),
    ("explain", "guard.safetensors", "rows.npy", "--row", "3"),
    ("explain", "image-guard.safetensors", "one.png", "--model", MODEL, "--bank", "store", "-o", "out.png"),
    ("monitor", "guard.safetensors", "scores.csv", "--state", "out.safetensors", "-o", "out.png"),
    ("export", "guard.safetensors", "out.onnx", "--from", "features"),
    ("inspect", "guard.safetensors"),
    ("inspect", "store"),
    ("probe", "store", "-o", "out", "--epochs", "1"),
    ("bench", "features:features", "--detector", "msp", "-o", "out"),
    ("tune", "features:features", "--detector", "knn?k={1,3}", "-o", "out.json"),
    ("reproduce", "aggregation", "--root", "empty", "-o", "out"),
    ("leaderboard", "imagenet1k", "--arch", "resnet50", "--sort", "far", "--top", "3"),
    ("data", "--root", "empty"),
    ("models",),
    ("detectors",),
)
# Words before the command.
FIRST = ((),) * 12 + (
    ("--version",),
    ("--help",),
    ("--import", "nothing.here"),
    ("--import", "small_models"),
    ("--no",),
)
# The demo trains a network, most of a minute: but for the long profile its lines are to be refused.
DEMO = ("0", "-1", "nan", "2.5", "", "nonsense") + (("1",) if LONG else ())


@st.composite
def command_lines(draw: st.DrawFn) -> tuple[str, ...]:
    """A line that works, with up to three more options and up to two words changed, left out or doubled."""
    words = list(draw(st.sampled_from(GOOD)))
    options = COMMANDS[words[0]].params
    for _ in range(draw(st.integers(0, 3)) if options else 0):
        option = draw(st.sampled_from(options))
        names = [name for name in option.opts if name.startswith("-")]
        words += [draw(st.sampled_from(names))] if names else []
        if not getattr(option, "is_flag", False):
            meant = MEANT.get(option.opts[0], FILES)
            words.append(draw(st.sampled_from(ODD if draw(st.integers(0, 4)) == 4 else meant)))
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.integers(1, max(1, len(words) - 1)))
        change = draw(st.sampled_from(("odd", "drop", "double")))
        here = words[place : place + 1]
        words[place : place + 1] = {"odd": [draw(st.sampled_from(ODD))], "drop": [], "double": here * 2}[
            change
        ]
    assume(("--epochs", ENDLESS) not in pairwise(words))
    return (*draw(st.sampled_from(FIRST)), *words)


demo_lines = st.builds(
    lambda epochs, seed, output: ("demo", "--epochs", epochs, "--seed", seed, "-o", output),
    st.sampled_from(DEMO),
    st.sampled_from(("0", *ODD)),
    st.sampled_from(("out", *ODD)),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the words above name: pictures, features, guards, a store, and files that are none of them."""
    folder = tmp_path_factory.mktemp("lines")
    rng = np.random.default_rng(0)
    for index in range(150):
        place = folder / "images" / "abc"[index % 3]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (8, 8), dtype=np.uint8)).save(place / f"{index}.png")
    shutil.copy(folder / "images" / "a" / "0.png", folder / "one.png")
    np.save(folder / "rows.npy", made_guards.clusters(60, 1)[0].numpy())
    made_guards.fitted(400).save(folder / "guard.safetensors")
    make_folder(folder / "features")
    save_file({"x": torch.zeros(3)}, folder / "junk.safetensors")
    (folder / "junk.json").write_text("[1, {")
    (folder / "names.txt").write_text("a\nb\nc\n")
    (folder / "empty").mkdir()
    environment = {"THEODOLITE_CACHE": str(folder / "cache")}
    for words in (
        ("extract", "--model", MODEL, "--data", "images", "-o", "store"),
        ("fit", "--model", MODEL, "--data", "images", "-o", "image-guard.safetensors", "--force"),
        ("score", "guard.safetensors", "rows.npy", "-o", "scores.csv"),
        ("collect", "--data", "store", "--part", "1/2", "-o", "part-1.safetensors"),
        ("collect", "--data", "store", "--part", "2/2", "-o", "part-2.safetensors"),
        ("collect", "--data", "store", "--detector", "ora+react:80", "-o", "look.safetensors"),
    ):
        made = run(*words, env=environment, folder=folder)
        assert made.code == 0, made.err
    return folder


def clear(folder: Path) -> None:
    """Begin anew: what a line wrote would be in the way of the next."""
    for path in folder.glob("out*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def require_an_answer(folder: Path, line: tuple[str, ...]) -> None:
    clear(folder)
    outcome = run(*line, env={"THEODOLITE_CACHE": str(folder / "cache"), "COLUMNS": "120"}, folder=folder)
    said = outcome.out + outcome.err
    assert "Traceback" not in said, said
    assert 0 <= outcome.code <= 9, (outcome.code, said)
    if outcome.code == 2:
        assert re.search(r"error|Usage|Error", said), said
    command = next((word for word in line if word in COMMANDS), "none")
    count("command lines", command, "answered" if outcome.code == 0 else "refused")


@given(line=command_lines())
@cases(bounded=25, long=1_200)
def test_an_answer_or_one_paragraph_of_ours(folder: Path, line: tuple[str, ...]) -> None:
    require_an_answer(folder, line)


@given(line=demo_lines)
@cases(bounded=2, long=30)
def test_lines_of_the_demo(folder: Path, line: tuple[str, ...]) -> None:
    require_an_answer(folder, line)
