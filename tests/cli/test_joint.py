"""`theodolite bench` of several feature folders: one joint table, one report, repeats, tests and views."""

from __future__ import annotations

import csv
import json
import statistics
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from command_server import run
from made_folders import make_folder
from report_parser import ParsedPage
from small_models import Tiny

SCORES = ("--detector", "ora", "--detector", "msp", "--detector", "knn", "--detector", "relative-energy")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    home = tmp_path_factory.mktemp("folders")
    return [f"features:{make_folder(home / f'net{seed}', seed=seed)}" for seed in range(4)]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def titles(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if " in %, " in line]


def test_three_folders_make_one_joint_table_and_one_report(
    folders: list[str], cache: Path, tmp_path: Path
) -> None:
    first, *others = folders[:3]
    models = [word for other in others for word in ("--model", other)]
    out = run("bench", first, *models, *SCORES, "--cache", cache, "-o", tmp_path)
    assert out.code == 0, out.err
    assert titles(out.out)[:3] == ["FPR95 ↓ in %, 3 models", "AUROC ↑ in %, 3 models", "FPR95 ↓ in %, net0"]
    assert len(titles(out.out)) == 2 + 2 * 3
    assert f"report: {tmp_path / 'report.html'}, with 3 pages of single models beside it" in out.out
    results = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    (average,) = results["joint"]["averages"]
    assert (average["name"], average["models"]) == ("average of 3 models", ["net0", "net1", "net2"])
    page = ParsedPage((tmp_path / "report.html").read_text(encoding="utf-8"))
    head, *rows = page.tables["models-fpr95"]
    assert [cell[0] for cell in head] == ["detector", "average of 3 models", "rank", "net0", "net1", "net2"]
    found = {cell["entry"]: cell["fpr95"] for cell in average["cells"] if cell["ood"] == "average"}
    assert {row[0][0]: row[1][-1] for row in rows} == {name: f"{value:.2f}" for name, value in found.items()}
    assert next(iter(page.tables)) == "models-fpr95", "the joint table is first"
    assert {"model-1-fpr95", "model-3-aupr_out"} <= set(page.tables)


def test_repeats_are_one_model_with_mean_and_deviation(
    folders: list[str], cache: Path, tmp_path: Path
) -> None:
    repeats = [word for folder in folders[:3] for word in ("--repeat", f"vit={folder}")]
    out = run("bench", *repeats, "--model", folders[3], *SCORES, "--cache", cache, "-o", tmp_path)
    assert out.code == 0, out.err
    assert titles(out.out)[0] == "FPR95 ↓ in %, 2 models"
    assert len(titles(out.out)) == 2 + 2 * 2, "the repeats have no tables of their own"
    with (tmp_path / "results.csv").open(encoding="utf-8", newline="") as file:
        rows = {
            row["model"]: row
            for row in csv.DictReader(file)
            if (row["score"], row["ood"], row["metric"]) == ("ORA", "average", "fpr95")
        }
    values = [float(rows[f"vit #{place}"]["value"]) for place in (1, 2, 3)]
    assert float(rows["vit"]["value"]) == pytest.approx(statistics.mean(values), abs=0.011)
    assert float(rows["vit"]["std"]) == pytest.approx(statistics.stdev(values), abs=0.011)
    assert rows["vit"]["repeats"] == "3"
    assert rows["net3"]["std"] == ""
    assert f"{rows['vit']['value']} ± {rows['vit']['std']}" in " ".join(out.out.split())
    assert {path.name for path in tmp_path.glob("*.html")} == {
        "report.html", "report-vit.html", "report-vit-1.html", "report-vit-2.html", "report-vit-3.html",
        "report-net3.html",
    }  # fmt: skip


def test_scores_are_held_against_one(folders: list[str], cache: Path, tmp_path: Path) -> None:
    out = run(
        "bench", folders[0], *SCORES, "--against", "ora", "--replicates", "200", "--metric", "auroc",
        "--metric", "aupr_in", "--cache", cache, "-o", tmp_path,
    )  # fmt: skip
    assert out.code == 0, out.err
    flat = " ".join(out.out.split())
    assert "AUROC ↑ minus that of ORA in percentage points, net0" in flat
    assert "AUPR-IN ↑ minus that of ORA in percentage points, net0" in flat
    assert "FPR95 ↓ in %" not in flat
    assert "above 0 is better than ORA; [95 % interval] of 200 paired draws" in flat, out.out
    results = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    cells = {(cell["entry"], cell["ood"]): cell for cell in results["cells"]}
    tests = results["paired"]
    assert (tests["against"], tests["replicates"]) == ("ORA", 200)
    assert {cell["metric"] for cell in tests["cells"]} == {"fpr95", "auroc", "aupr_in"}
    for cell in tests["cells"]:
        apart = (cells[label, cell["ood"]][cell["metric"]] for label in (cell["detector"], "ORA"))
        assert cell["difference"] == pytest.approx(next(apart) - next(apart), abs=1e-5)
        assert cell["low"] <= cell["high"]
        assert 0 < cell["p_value"] <= cell["p_holm"] <= 1
    with (tmp_path / "results-paired.csv").open(encoding="utf-8", newline="") as file:
        assert len(list(csv.DictReader(file))) == len(tests["cells"]) == 3 * 3 * 5
    assert "minus that of ORA" in (tmp_path / "results.md").read_text(encoding="utf-8")
    few = run(
        "bench", folders[0], *SCORES, "--against", "ora", "--replicates", "20", "--cache", cache,
        "-o", tmp_path,
    )  # fmt: skip
    note = "20 draws are too few for p (Holm): of 3 comparisons none can come below 0.29, however large"
    assert note in " ".join(few.out.split())
    assert "too few" not in flat


def test_views_act_on_the_screen_and_leave_the_files_of_record(
    folders: list[str], cache: Path, tmp_path: Path
) -> None:
    plain = ("bench", folders[0], "--model", folders[1], *SCORES, "--cache", cache)
    whole = run(*plain, "-o", tmp_path / "whole")
    seen = run(*plain, "-o", tmp_path / "seen", "--sort", "average", "--only", "ora", "--only", "m*")
    assert whole.code == seen.code == 0, seen.err
    assert "KNN" in whole.out
    assert "KNN" not in seen.out
    assert "2 of 4 scores shown" in " ".join(seen.out.split())
    csvs = [(tmp_path / name / "results.csv").read_bytes() for name in ("whole", "seen")]
    assert csvs[0] == csvs[1]
    cells = [
        json.loads((tmp_path / name / "results.json").read_text(encoding="utf-8"))
        for name in ("whole", "seen")
    ]
    for part in ("cells", "joint", "models"):
        assert cells[0][part] == cells[1][part]
    pages = [
        ParsedPage((tmp_path / name / "report.html").read_text(encoding="utf-8")).tables
        for name in ("whole", "seen")
    ]
    for name, (head, *rows) in pages[0].items():
        assert pages[1][name][0] == head
        assert sorted(pages[1][name][1:]) == sorted(rows), "all rows, in the order asked for"
    averages = [float(row[1][-1]) for row in pages[1]["models-fpr95"][1:]]
    assert averages == sorted(averages)
    assert averages != [float(row[1][-1]) for row in pages[0]["models-fpr95"][1:]]
    assert "KNN" not in (tmp_path / "seen" / "results.tex").read_text(encoding="utf-8")


def test_checkpoints_of_one_model_are_repeats(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for part, count in (("fit", 90), ("test", 60), ("far", 45)):
        for index in range(count):
            place = tmp_path / part / "abc"[index % 3]
            place.mkdir(parents=True, exist_ok=True)
            dark = 128 if part == "far" else 256
            Image.fromarray(rng.integers(0, dark, (8, 8), dtype=np.uint8)).save(place / f"{index}.png")
    for seed in (1, 2):
        weights = {name: seed * part for name, part in Tiny().state_dict().items()}
        torch.save(weights, tmp_path / f"{seed}.pt")
    model = "python:small_models:Tiny?mean=0&size=8"
    out = run(
        "bench", "--repeat", f"tiny={model}", "--repeat", f"tiny={model}",
        "--weights", f"tiny #1={tmp_path / '1.pt'}", "--weights", f"tiny #2={tmp_path / '2.pt'}",
        "--id", tmp_path / "test", "--fit", tmp_path / "fit", "--ood", f"far={tmp_path / 'far'}",
        "--detector", "msp", "--cache", tmp_path / "cache", "-o", tmp_path / "out", "--workers", "0",
        "--force",
    )  # fmt: skip
    assert out.code == 0, out.err
    results = json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))
    assert results["repeats"] == {"tiny": ["tiny #1", "tiny #2"]}
    digests = [results["models"][name]["digests"]["head"] for name in ("tiny #1", "tiny #2")]
    assert digests[0] != digests[1]
    same = run(
        "bench", "--repeat", f"tiny={model}", "--repeat", f"tiny={model}", "--weights",
        f"{model}={tmp_path / '1.pt'}", "--id", tmp_path / "test", "--fit", tmp_path / "fit",
        "--ood", f"far={tmp_path / 'far'}", "--detector", "msp", "--cache", tmp_path / "other",
        "-o", tmp_path / "out", "--workers", "0",
    )  # fmt: skip
    assert same.code == 2
    assert "same features and head" in " ".join(same.err.split())


def test_mistakes_are_one_paragraph(folders: list[str], cache: Path, tmp_path: Path) -> None:
    base = ("bench", folders[0], *SCORES, "--cache", cache, "-o", tmp_path)
    for args, word in (
        (("bench", "--repeat", "vit"), "must have the form NAME=MODEL"),
        (("bench", "--repeat", f"vit={folders[0]}"), "vit has 1 repeat"),
        ((*base, "--metric", "aupr"), "no metric is called 'aupr'"),
        ((*base, "--sort", "fpr59"), "did you mean 'fpr95'"),
        ((*base, "--sort", "avrage"), "did you mean 'average'"),
        ((*base, "--sort", "rank"), "nothing to sort by is called 'rank'"),
        ((*base, "--only", "orra"), "no score of this run matches 'orra'"),
        ((*base, "--against", "vim"), "ViM is no score of this run"),
        ((*base, "--against", "orra"), "did you mean 'ora'"),
        (("bench", "--model", "resnet18"), "resnet18 needs a protocol"),
    ):
        out = run(*args)
        assert out.code == 2, (args, out)
        assert word in " ".join(out.err.split()), out.err
        assert "Traceback" not in out.err
        # Refused before anything is measured.
        assert list(tmp_path.iterdir()) == []
        assert "scores" not in out.out
