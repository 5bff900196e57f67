"""What docs/report.md tells readers to write works as written."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import theodolite as th
from made_folders import make_folder
from report_parser import ParsedPage
from synthetic import make_problem
from theodolite.core.arrays import as_scores

DOCS = Path(__file__).parents[2] / "docs" / "report.md"


def test_the_code_of_the_page_about_reports_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_folder(Path("features/resnet18"))
    problem = make_problem()
    ora = th.ORA().fit(problem.train, problem.labels, head=problem.head)
    known, strange = (as_scores(ora.score(rows), "scores") for rows in (problem.test, problem.ood))
    names: dict[str, object] = {
        "ora": ora,
        "id_features": problem.test,
        "svhn_features": problem.ood,
        "ora_id": known,
        "ora_svhn": strange,
        "my_id": -known,
        "my_svhn": -strange,
    }
    blocks = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    seen = []
    for block in blocks:
        exec(block, names)
        if "write_pages(" in block:
            seen.append(ParsedPage(Path("report/report.html").read_text(encoding="utf-8")))
    first, scores, samples = seen
    assert {"ResNet-18 on my data", "Most suspicious ID", "Most deceptive OOD"} <= set(first.texts)
    assert [row[0] for row in scores.tables["fpr95"][1:]] == [["ORA"], ["mine"]]
    assert "Most suspicious ID" not in scores.texts
    assert {"Most suspicious ID", "Most deceptive OOD", "CIFAR-10", "SVHN"} <= set(samples.texts)
    assert {path.name for path in tmp_path.glob("*.png")} == {"histograms.png", "auroc.png"}


def test_the_code_of_the_page_about_explanations_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a guard and a bank of made features in the places of the page's."""
    monkeypatch.chdir(tmp_path)
    problem = make_problem()
    guard = th.Guard.fit(problem.train, problem.labels, head=problem.head, detector="ora")
    for path in ("photo.npy", "features.npy"):
        np.save(path, np.asarray(problem.test))
    page = (DOCS.parent / "explain.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    guard.save("guard.safetensors")
    for written, here in (
        ("imagenet-lite0-ora", "guard.safetensors"),
        ("[picture]", "rows"),
        ("features/train", "features.npy"),
        ('["photo.jpg", "pictures/new"]', '["photo.npy"]'),
    ):
        assert written in block
        block = block.replace(written, here)
    exec(block, {"rows": np.asarray(problem.test)[:1]})
    assert "photo.npy#0" in capsys.readouterr().out
    with Image.open(DOCS.parent / "images" / "explain.png") as picture:
        assert picture.width > 1_000
    assert (DOCS.parent / "images" / "explain.png").stat().st_size < 200_000
