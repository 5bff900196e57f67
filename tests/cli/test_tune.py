"""`theodolite tune` as a user runs it, and `theodolite bench --ranking` after it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from command_server import run
from made_folders import make_folder

GRID = ("--detector", "ora+react:{70,90}", "--detector", "knn?k={10,50}")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("tune")
    make_folder(place / "mine")
    rows = 1.5 * torch.randn(200, 12, generator=torch.Generator().manual_seed(9))
    save_file({"features": rows}, place / "strangers.safetensors")
    return place


def test_tune_then_fit_and_bench_with_what_it_chose(place: Path, tmp_path: Path) -> None:
    record = tmp_path / "ranking.json"
    told = run(
        *("tune", f"features:{place / 'mine'}", *GRID, "--folds", "4", "-o", record), env={"COLUMNS": "150"}
    )
    assert told.code == 0, told.err
    content = json.loads(record.read_text(encoding="utf-8"))
    for row in content["ranked"]:
        assert row["spec"] in told.out
        assert f"{sum(row['fpr95']) / 4:.2f} ± " in told.out
    assert "mean ± deviation over 4 folds" in told.out
    assert "do not tell which score is the better one" in told.err
    assert content["statement"] in told.out
    assert f"--detector {content['chosen']}" in told.out
    assert content["command"].startswith("theodolite ")
    out = ("--cache", tmp_path / "cache", "-o", tmp_path / "out")
    judged = run("bench", f"features:{place / 'mine'}", "--ranking", record, "--detector", "ora", *out)
    assert judged.code == 0, judged.err
    assert content["statement"] in judged.out
    entries = json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))["entries"]
    assert [entry["text"] for entry in entries.values()] == ["ora", content["chosen"]]
    guard = tmp_path / "guard.safetensors"
    data = ("--data", place / "mine" / "id_fit.safetensors", "--head", place / "mine" / "head.safetensors")
    fitted = run("fit", *data, "--detector", content["chosen"], "-o", guard)
    assert fitted.code == 0, fitted.err


def test_bench_refuses_the_validation_set_under_another_name(place: Path, tmp_path: Path) -> None:
    shutil.copy(place / "mine" / "textures.safetensors", tmp_path / "mine.safetensors")
    record = tmp_path / "ranking.json"
    chosen = ("--validation-ood", f"photos={tmp_path / 'mine.safetensors'}", "-o", record)
    tuned = run("tune", f"features:{place / 'mine'}", *GRID, *chosen)
    assert tuned.code == 0, tuned.err
    assert "photos (250 rows)" in tuned.out
    judged = run("bench", f"features:{place / 'mine'}", "--ranking", record, "-o", tmp_path / "out")
    assert judged.code == 2
    assert "mine, textures holds rows of photos" in judged.err
    assert not (tmp_path / "out").exists()


def test_mistakes_are_one_paragraph(place: Path, tmp_path: Path) -> None:
    folder = f"features:{place / 'mine'}"
    strangers = f"a={place / 'strangers.safetensors'}"
    for args, word in (
        (("tune", folder, "--detector", "ora"), "1 candidates are named"),
        (("tune", "features:nowhere", *GRID), "is no feature folder"),
        (("tune", folder, "--detector", "knn?k={1,2"), "braces must come in pairs"),
        (("tune", folder, *GRID, "--validation-ood", "a"), "must have the form NAME=FEATURES"),
        (("tune", folder, *GRID, "--validation-ood", strangers, "--validation-ood", strangers), "same name"),
        (("tune", folder, *GRID, "--folds", "9"), "folds must be between 2"),
        (("tune", folder, *GRID, "-o", tmp_path / "no" / "r.json"), "does not exist: create it first"),
        (("bench", folder, "--ranking", tmp_path / "r.json"), "expected a record of `theodolite tune`"),
        (("bench", folder, "--ranking", place / "mine" / "head.safetensors"), "is not JSON"),
    ):
        out = run(*args, folder=tmp_path)
        assert out.code == 2, (args, out)
        assert word in " ".join(out.err.split()), (args, out.err)
        assert "Traceback" not in out.err
