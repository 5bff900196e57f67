"""Repeats of one model: means and deviations in every form, and what cannot be a repeat."""

from __future__ import annotations

import csv
import io
import json
import math
import shutil
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from safetensors.numpy import load_file
from safetensors.torch import load_file as load_tensors
from safetensors.torch import save_file

import theodolite as th
from made_folders import make_folder
from report_parser import ParsedPage
from theodolite.benchmarks import Repeats, RunResult, result_of_scores, with_repeats
from theodolite.benchmarks.facts import SubjectFacts
from theodolite.core.errors import FormatError, InputError
from theodolite.evaluation import metric
from theodolite.paper.experiments.literature import SCALE, SCALE_METRICS
from theodolite.report.tables import latex, markdown, metric_table, terminal


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    home = tmp_path_factory.mktemp("repeats")
    return [make_folder(home / f"seed{seed}" / "net", seed=seed) for seed in range(4)]


@pytest.fixture(scope="module")
def result(folders: list[Path], tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    first, *others = (f"features:{folder}" for folder in folders)
    settings = th.BenchSettings(cache=tmp_path_factory.mktemp("cache"))
    return th.bench(
        first, [Repeats("vit", tuple(others))], detectors=["ora", "msp", "knn"], settings=settings
    )


def test_every_cell_is_the_mean_and_sample_deviation_of_the_repeats(result: RunResult) -> None:
    members = ("vit #1", "vit #2", "vit #3")
    assert result.repeats == {"vit": members}
    assert result.models == ["net", "vit"]
    assert result.title == "net, vit"
    assert result.tabled_subjects == ["net", "vit"]
    assert result.subject_names == ["net", *members, "vit"]
    cells = [cell for cell in result.cells if cell.subject == "vit"]
    assert len(cells) == 3 * 5 * 5
    for cell in cells:
        values = [result.cell(one, cell.detector, cell.ood, cell.metric).value for one in members]
        assert cell.value == pytest.approx(statistics.mean(values), abs=1e-6)
        assert cell.spread is not None
        assert cell.spread.std == pytest.approx(statistics.stdev(values), abs=1e-6)
        assert cell.spread.repeats == 3
    assert result.joint is not None
    (average,) = result.joint.averages
    assert average.models == ("net", "vit"), "repeats count as one model"


def test_the_deviation_stands_in_every_form(result: RunResult, tmp_path: Path) -> None:
    files = {path.suffix: path.read_text(encoding="utf-8") for path in th.write_files(result, tmp_path)}
    cell = result.cell("vit", "ORA", "svhn", "fpr95")
    assert cell.spread is not None
    value, std = f"{cell.value:.2f}", f"{cell.spread.std:.2f}"
    assert float(std) > 0
    table = metric_table(result, "vit", metric("fpr95"))
    assert "± standard deviation over 3 repeats (n − 1 in its denominator)" in table.legend
    screen = Console(width=200, file=io.StringIO(), record=True)
    screen.print(terminal(table))
    assert f"{value} ± {std}" in screen.export_text()
    assert any(value in line and f"± {std}" in line for line in markdown(table))
    assert rf"$\pm$ {std}" in latex(table)
    assert f"± {std}" in files[".md"]
    assert rf"$\pm$ {std}" in files[".tex"]
    rows = csv.DictReader(io.StringIO(files[".csv"]))
    (row,) = [
        row
        for row in rows
        if (row["model"], row["score"], row["ood"], row["metric"]) == ("vit", "ORA", "svhn", "fpr95")
    ]
    assert (row["value"], row["std"], row["repeats"]) == (value, std, "3")
    content = json.loads(files[".json"])
    assert content["repeats"] == {"vit": ["vit #1", "vit #2", "vit #3"]}
    assert RunResult.from_json(content) == result
    joint, *_ = th.write_pages(result, tmp_path)
    page = ParsedPage(joint.read_text(encoding="utf-8"))
    assert f"± {std}" in page.texts
    assert "vit: mean over 3 repeats, vit #1, vit #2, vit #3." in page.texts


def test_the_deviations_of_the_literature_come_out(data_root: Path) -> None:
    """SCALE's three CIFAR-10 networks: OpenOOD prints mean ± the deviation with n in its denominator."""
    seeds, parts = ("scale #1", "scale #2", "scale #3"), []
    facts = {}
    for place, seed in enumerate(seeds):
        found = load_file(data_root / "scale-scores" / f"cifar10_seed{place}.safetensors")
        scores = {name: found[name].astype(np.float64) for name in ("id", *SCALE)}
        parts.append(result_of_scores({"SCALE": scores}, known="id", title="t", subject=seed))
        samples = {"id_test": len(scores["id"]), **{name: len(scores[name]) for name in SCALE}}
        facts[seed] = SubjectFacts(None, 10, 512, None, samples, {"head": seed})
    cells = tuple(cell for part in parts for cell in part.cells)
    made = with_repeats(RunResult("t", "c", cells, facts), {"scale": seeds})
    for ood, texts in SCALE.items():
        for name, text in zip(SCALE_METRICS, texts, strict=True):
            cell = made.cell("scale", "SCALE", ood, name)
            assert cell.spread is not None
            assert f"{cell.value:.2f} ± {cell.spread.std * math.sqrt(2 / 3):.2f}" == text


def copied(folder: Path, place: Path) -> Path:
    shutil.copytree(folder, place)
    return place


def test_what_cannot_be_a_repeat_is_refused_before_anything_is_scored(
    folders: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("scored")

    monkeypatch.setattr("theodolite.benchmarks.scoring.Scorer.run", never)

    def bench(*models: str | Repeats, first: str = "features") -> None:
        th.bench(first, models, detectors=["msp"], settings=th.BenchSettings(cache=tmp_path / "cache"))

    one, two = (f"features:{folder}" for folder in folders[:2])
    same = copied(folders[0], tmp_path / "same")
    with pytest.raises(InputError, match="v #1 and v #2 are the same features and head, digest for digest"):
        bench(Repeats("v", (one, f"features:{same}")))
    fewer = copied(folders[1], tmp_path / "fewer")
    (fewer / "isun.safetensors").unlink()
    with pytest.raises(InputError, match=r"v #1 and v #2 cannot be repeats of v: .* isun \(250\)"):
        bench(Repeats("v", (one, f"features:{fewer}")))
    shorter = copied(folders[1], tmp_path / "shorter")
    rows = load_tensors(shorter / "svhn.safetensors")["features"]
    save_file({"features": rows[1:].clone()}, shorter / "svhn.safetensors")
    with pytest.raises(InputError, match=r"svhn \(250\).* svhn \(249\)"):
        bench(Repeats("v", (one, f"features:{shorter}")))
    with pytest.raises(InputError, match="a model is called 'net' already"):
        bench(Repeats("net", (one, two)), first=one)
    with pytest.raises(InputError, match="two models are called the same: v #1"):
        bench(Repeats("v", (one, two)), Repeats("v", (two, one)))
    with pytest.raises(InputError, match="v has 1 repeat: a deviation needs at least two"):
        Repeats("v", (one,))
    with pytest.raises(InputError, match="needs a name without '='"):
        Repeats("v=w", (one, two))
    with pytest.raises(InputError, match="resnet18 needs a protocol"):
        bench("resnet18")


def test_the_same_encoder_under_other_heads_may_be_repeated(folders: list[Path], tmp_path: Path) -> None:
    """Linear probes of several seeds share their features."""
    probe = copied(folders[0], tmp_path / "probe")
    head = load_tensors(probe / "head.safetensors")
    noise = 0.3 * torch.randn(head["weight"].shape, generator=torch.Generator().manual_seed(0))
    save_file({"weight": head["weight"] + noise, "bias": head["bias"]}, probe / "head.safetensors")
    made = th.bench(
        "features",
        [Repeats("probe", (f"features:{folders[0]}", f"features:{probe}"))],
        detectors=["msp"],
        settings=th.BenchSettings(cache=tmp_path / "cache"),
    )
    assert made.models == ["probe"]
    assert made.joint is None
    pages = [path.name for path in th.write_pages(made, tmp_path / "pages")]
    assert pages == ["report.html", "report-probe-1.html", "report-probe-2.html"]
    assert "± " in (tmp_path / "pages" / "report.html").read_text(encoding="utf-8")
    spread = made.cell("probe", "MSP", "average", "auroc").spread
    assert spread is not None
    assert spread.std > 0
    repeated = " ".join(f"--repeat probe=features:{folder}" for folder in (folders[0], probe))
    assert made.command == f"theodolite bench {repeated} --detector msp"


def test_repeats_are_named_in_a_result_that_has_them(result: RunResult) -> None:
    plain = replace(result, repeats={}, cells=tuple(c for c in result.cells if c.subject != "vit"))
    again = with_repeats(plain, {"vit": ("vit #1", "vit #2", "vit #3")})
    assert again.cells == result.cells
    with pytest.raises(InputError, match="'vit #9' is no model of this result"):
        with_repeats(plain, {"vit": ("vit #1", "vit #9")})
    with pytest.raises(InputError, match="a model is called 'net' already"):
        with_repeats(plain, {"net": ("vit #1", "vit #2")})
    with pytest.raises(InputError, match="vit has 1 repeat"):
        with_repeats(plain, {"vit": ("vit #1",)})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"std": {"fpr95": -1.0}, "repeats": 3}, "std must lie in 0 to 100"),
        ({"std": {"fpr95": 1.0}}, "repeats must be at least 2 where there is a std, got None"),
        ({"std": {"other": 1.0}, "repeats": 2}, "std speaks of 'other', which has no value there"),
    ],
)
def test_a_file_with_an_impossible_deviation_is_refused(
    result: RunResult, change: dict[str, Any], message: str
) -> None:
    cell: dict[str, Any] = {
        "model": "m",
        "entry": "e",
        "ood": "o",
        "samples": 9,
        "fpr95": 50.0,
        "published": {},
    }
    with pytest.raises(FormatError, match=message):
        RunResult.from_json({**result.to_json(), "cells": [cell | change]})
