"""`theodolite bench` as a user runs it: pictures of one's own, going on after a kill, mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from command_server import KILLED, run
from made_folders import make_folder

MODEL = "python:small_models:Tiny?mean=0&size=8"


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pictures")
    rng = np.random.default_rng(0)
    for part, count in (("fit", 120), ("test", 60), ("far", 45)):
        for index in range(count):
            place = folder / part / "abc"[index % 3]
            place.mkdir(parents=True, exist_ok=True)
            dark = 128 if part == "far" else 256
            Image.fromarray(rng.integers(0, dark, (8, 8), dtype=np.uint8)).save(place / f"{index}.png")
    return folder


def own(pictures: Path, out: Path, *more: str) -> tuple[str | Path, ...]:
    data = ("--id", pictures / "test", "--fit", pictures / "fit", "--ood", f"far={pictures / 'far'}")
    # A network that was never trained is at chance: refused unless it is forced.
    place = ("--cache", out / "cache", "-o", out)
    return ("bench", "--model", MODEL, *data, *place, "--workers", "0", "--force", *more)


def test_bench_on_pictures_of_ones_own_then_from_the_stores_alone(pictures: Path, tmp_path: Path) -> None:
    first = run(*own(pictures, tmp_path))
    assert first.code == 0, first.err
    assert "report.html" in first.out
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["models"][MODEL]["samples"] == {"id_fit": 120, "id_test": 60, "far": 45}
    page = (tmp_path / "report.html").read_text()
    assert "data:image/png;base64" in page, "samples are shown"
    (stores,) = (tmp_path / "cache" / "bench").glob("own-*/*")
    about = json.loads((stores / "about.json").read_text())
    (stores / "about.json").write_text(json.dumps({**about, "backbone": "lite0"}))
    moved = tmp_path / "elsewhere"
    stores.rename(moved)
    second = run(
        "bench", f"features:{moved}", "--cache", tmp_path / "new", "-o", tmp_path / "again", "--force"
    )
    assert second.code == 0, second.err
    again = json.loads((tmp_path / "again" / "results.json").read_text())
    assert again["cells"] == results["cells"]


def test_bench_goes_on_after_being_killed(pictures: Path, tmp_path: Path) -> None:
    whole = run(*own(pictures, tmp_path / "whole"))
    assert whole.code == 0, whole.err
    killed = run(*own(pictures, tmp_path / "killed"), kill_at_flush=6)
    assert killed.code == KILLED
    assert not (tmp_path / "killed" / "results.json").exists()
    resumed = run(*own(pictures, tmp_path / "killed"))
    assert resumed.code == 0, resumed.err
    first, second = (
        json.loads((tmp_path / name / "results.json").read_text())["cells"] for name in ("whole", "killed")
    )
    assert first == second


def test_mistakes_on_the_command_line_are_one_paragraph(pictures: Path, tmp_path: Path) -> None:
    made = make_folder(tmp_path / "made")
    for args, word in (
        (("bench",), "name a protocol"),
        (("bench", "cifar11", "--model", MODEL), "no protocol is called"),
        (("bench", "mnist"), "no model is given"),
        (("bench", "--id", "a", "--fit", "b", "--ood", "far", "--model", MODEL), "NAME=DIR"),
        (("bench", "mnist", "--model", MODEL, "--root", tmp_path), "id_fit is missing"),
        (own(pictures, tmp_path, "--detector", "orra"), "did you mean 'ora'"),
        (own(pictures, tmp_path, "--weights", "other=file"), "none of the models"),
        (own(pictures, tmp_path, "--ood", "fog=nowhere"), "nowhere does not exist"),
        (own(pictures, tmp_path, "--ood", f"far={pictures / 'test'}"), "have the same name"),
        (("bench", f"features:{made}", "--detector", "odin?noise=0.01"), "noise has no effect here"),
        (own(pictures, tmp_path, "--layer", "fc"), "--layer fc is one layer"),
    ):
        out = run(*args)
        assert out.code == 2, (args, out)
        assert word in out.err
        assert "Traceback" not in out.err
