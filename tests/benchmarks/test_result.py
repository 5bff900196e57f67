"""The typed result: files that come back as they were, and work that is done once."""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import theodolite as th
from made_folders import make_folder
from theodolite.benchmarks import Highlight, Intervals, RunResult, cells, result_of_scores
from theodolite.benchmarks import run as run_bench
from theodolite.benchmarks.feature_folder import from_folder
from theodolite.core.errors import FormatError, InputError
from theodolite.detectors import Detector, list_detectors
from theodolite.detectors.spec import parse_specs
from theodolite.evaluation import evaluation, metrics
from theodolite.report.documents import write_files
from theodolite.report.page import write_pages


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("result") / "made")


def test_a_result_comes_back_from_its_file(folder: Path, tmp_path: Path) -> None:
    made = run_bench(
        [from_folder(folder)], parse_specs(["ora", "knn?k=3", "energy+react:90"]),
        title="t", command="c", intervals=Intervals(20),
    )  # fmt: skip
    write_files(made, tmp_path)
    read = RunResult.from_json(json.loads((tmp_path / "results.json").read_text(encoding="utf-8")))
    assert read == made
    assert read.to_json() == made.to_json()
    assert read.cell("made", "KNN k=3", "average", "auroc").interval is not None
    assert not read.evaluations


CELL = {"model": "m", "entry": "e", "ood": "o", "samples": 9, "fpr95": 50.0, "published": {}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "theodolite-store/1"}, "expected theodolite-results/1"),
        ({"title": 7}, "title must be a text, got 7"),
        ({"models": {"made": {"classes": 4}}}, "models.made lacks 'backbone'"),
        ({"cells": [{"model": "m", "entry": "e", "ood": "o", "fpr95": "low"}]}, "fpr95 must be a number"),
        ({"cells": 3}, "cells must be a list"),
        (
            {"cells": [CELL | {"fpr95": 100.5}]},
            r"cells\[0\].fpr95 must lie in 0 to 100 .*, got 100.5",
        ),
        ({"cells": [CELL | {"fpr95": -1}]}, "fpr95 must lie in 0 to 100"),
        ({"cells": [CELL | {"fpr95": float("nan")}]}, "fpr95 must lie in 0 to 100 .*, got nan"),
        ({"cells": [CELL | {"samples": 0}]}, "samples must be at least 1, got 0"),
        ({"cells": [CELL, CELL]}, r"cells\[1\] says fpr95 of m, e, o once more"),
        ({"cells": [CELL | {"intervals": {"fpr95": [3, 2]}}]}, "must be a low and a high bound, got"),
        ({"cells": [CELL | {"intervals": {"fpr95": [3]}}]}, "must be a low and a high bound, got"),
        ({"cells": [CELL | {"intervals": {"fpr95": [3, 200]}}]}, "fpr95 must lie in 0 to 100"),
        ({"cells": [CELL | {"intervals": {"auroc": [3, 4]}}]}, "speaks of 'auroc', which has no value there"),
    ],
)
def test_a_file_that_says_something_else_is_refused(
    folder: Path, change: dict[str, Any], message: str
) -> None:
    made = run_bench([from_folder(folder)], parse_specs(["msp"]), title="t", command="c")
    with pytest.raises(FormatError, match=message):
        RunResult.from_json({**made.to_json(), **change})


def test_an_unknown_cell_is_said_to_be_so(folder: Path) -> None:
    made = run_bench([from_folder(folder)], parse_specs(["msp"]), title="t", command="c")
    with pytest.raises(InputError, match="no cell for made, ORA, svhn, fpr95: models are made"):
        made.cell("made", "ORA", "svhn", "fpr95")


def test_scores_of_ones_own_make_a_result() -> None:
    rng = np.random.default_rng(0)
    sets = {"known": rng.normal(2, 1, 300), "strange": rng.normal(0, 1, 200)}
    made = result_of_scores({"mine": sets}, known="known", title="t")
    cell = made.cell("model", "mine", "strange", "auroc")
    assert cell.value == pytest.approx(100 * th.auroc(sets["known"], sets["strange"]), abs=1e-6)
    assert replace(made, cells=()).subject_names == []


# ---------------------------------------------------------------------- once


def counting(patch: pytest.MonkeyPatch, home: Any, name: str, counts: Counter[str]) -> None:
    original: Callable[..., Any] = getattr(home, name)

    @functools.wraps(original)
    def counted(*args: Any, **options: Any) -> Any:
        counts[name] += 1
        return original(*args, **options)

    patch.setattr(home, name, counted)


@pytest.mark.usefixtures("few_waves")
def test_each_detector_is_built_and_fitted_once_and_each_metric_computed_once(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole of `bench`, with every score, all files and the page; then again from the cache."""
    counts: Counter[str] = Counter()
    counting(monkeypatch, Detector, "__init__", counts)
    counting(monkeypatch, Detector, "_adopt", counts)
    counting(monkeypatch, evaluation, "evaluate", counts)
    settings = th.BenchSettings(cache=tmp_path / "cache")

    def bench(output: Path) -> RunResult:
        result = th.bench(f"features:{folder}", settings=settings)
        write_files(result, output)
        write_pages(result, output)
        return result

    first = bench(tmp_path / "first")
    scores, sets = len(list_detectors()), 4
    assert counts == {"__init__": scores, "_adopt": scores, "evaluate": scores * sets}
    counts.clear()
    second = bench(tmp_path / "second")
    assert counts == {"__init__": scores, "evaluate": scores * sets}, "nothing is fitted"
    assert second.cells == first.cells
    assert second.telling == first.telling
    assert len(second.telling["made"]) == 24


def test_the_samples_worth_a_look_are_found_again_where_their_file_is_damaged(
    folder: Path, tmp_path: Path
) -> None:
    def telling() -> Any:
        made = run_bench(
            [from_folder(folder)], parse_specs(["ora", "msp"]), title="", command="",
            cache=tmp_path, highlight=Highlight("MSP"),
        )  # fmt: skip
        return made.telling["made"]

    first = telling()
    (file,) = tmp_path.glob("telling-*.json")
    file.write_text('[{"row": "x"}]')
    assert telling() == first
    assert first[0].triangle is not None, "drawn by ORA"
    assert [sample.score for sample in first[:12]] == sorted(sample.score for sample in first[:12])


def test_a_metric_from_outside_is_in_every_view(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "_metrics", dict(metrics._metrics))
    from theodolite.evaluation import Metric, register_metric
    from theodolite.evaluation.curve import fpr

    register_metric(Metric("fpr80", "FPR80", True, "share of OOD accepted when 80 % of ID is",
                           lambda seen: fpr(seen, 0.8), tabled=True))  # fmt: skip
    made = th.bench(f"features:{folder}", detectors=["msp"], settings=th.BenchSettings(cache=tmp_path))
    write_files(made, tmp_path)
    (page,) = write_pages(made, tmp_path)
    value = f"{made.cell('made', 'MSP', 'svhn', 'fpr80').value:.2f}"
    for suffix in ("md", "tex", "csv"):
        text = (tmp_path / f"results.{suffix}").read_text(encoding="utf-8")
        assert "fpr80" in text.lower()
        assert value in text
    assert "FPR80" in page.read_text(encoding="utf-8")
    assert RunResult.from_json(made.to_json()) == made
    with pytest.raises(InputError, match="a metric is called 'fpr80' already"):
        register_metric(Metric("fpr80", "other", True, "", lambda seen: fpr(seen, 0.7)))


def test_a_metric_cannot_be_called_like_an_entry_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its values would be read back as something else, or not at all."""
    monkeypatch.setattr(metrics, "_metrics", dict(metrics._metrics))
    assert set(metrics.RESERVED) == set(cells._Group.__annotations__)
    for name in metrics.RESERVED:
        with pytest.raises(InputError, match=f"a metric cannot be called '{name}'"):
            metrics.register_metric(replace(metrics.FPR95, name=name))


def test_samples_worth_a_look_follow_their_sets_by_name(tmp_path: Path) -> None:
    """A set that is renamed keeps its scores in the cache, but not its name."""
    moved = make_folder(tmp_path / "made")
    settings = th.BenchSettings(cache=tmp_path / "cache")
    th.bench(f"features:{moved}", detectors=["ora"], settings=settings)
    (moved / "svhn.safetensors").rename(moved / "numbers.safetensors")
    again = th.bench(f"features:{moved}", detectors=["ora"], settings=settings)
    sets = {sample.data_set for sample in again.telling["made"]}
    assert sets == {"id_test", *again.ood_names("made")}
    assert "numbers" in sets


def test_a_highlight_that_is_no_score_of_the_run_is_refused(folder: Path, tmp_path: Path) -> None:
    settings = th.BenchSettings(cache=tmp_path)
    with pytest.raises(InputError, match="no score of this run is called 'msp'"):
        th.bench(f"features:{folder}", detectors=["msp"], settings=replace(settings, highlight="msp"))


def test_a_picture_that_cannot_be_read_costs_nobody_the_run(folder: Path) -> None:
    def broken(_set: str, _row: int) -> Any:
        raise IndexError("no such picture")

    made = run_bench(
        [from_folder(folder)], parse_specs(["ora"]), title="", command="", highlight=Highlight("ORA", broken)
    )
    assert made.telling["made"]
    assert all(sample.picture is None for sample in made.telling["made"])


@pytest.mark.parametrize("name", ["id_test", "id_fit", "average"])
def test_an_ood_set_cannot_stand_for_another(name: str) -> None:
    """It would have taken the place of the ID data, or of the average, without a word."""
    head = th.Head(np.eye(3, dtype=np.float32))
    rows = th.ArraySet(np.ones((4, 3), dtype=np.float32))
    with pytest.raises(InputError, match=f"cannot be called '{name}'"):
        th.Subject("m", head, rows, rows, {name: rows})
    with pytest.raises(InputError, match="no OOD set"):
        th.Subject("m", head, rows, rows, {})


def test_scores_of_ones_own_are_of_the_same_sets() -> None:
    scores = np.arange(4.0)
    for sets in ({"far": scores}, {"id_test": scores}, {"id_test": scores, "average": scores}):
        with pytest.raises(InputError, match="expected the ID set 'id_test'"):
            result_of_scores({"a": sets}, title="")
    with pytest.raises(InputError, match="different sets"):
        result_of_scores(
            {"a": {"id_test": scores, "x": scores}, "b": {"id_test": scores, "y": scores}}, title=""
        )
    with pytest.raises(InputError, match="must not be negative"):
        Intervals(10, seed=-1)
