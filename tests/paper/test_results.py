"""The committed results are what the code gives today, to every digit; the literature's figures hold.

Results of networks that are trained here depend on the rounding of the machine that trained them: of those
files everything is compared that follows from the numbers in them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from command_server import run as command
from theodolite.benchmarks import from_folder
from theodolite.core.errors import FormatError, InputError
from theodolite.paper import Context, Need, RunStudy, experiments, items, read_study, resolve
from theodolite.paper.experiments import class_count, feature_folders, monitor
from theodolite.paper.experiments.class_alarms import ByClass
from theodolite.paper.experiments.false_alarms import FalseAlarms
from theodolite.paper.experiments.literature import OE_TOLERANCE, Checks
from theodolite.paper.experiments.mnist import Distances
from theodolite.paper.experiments.monitor import NULL_RUNS, REAL_RUNS, SHARES, MonitorStudy
from theodolite.paper.items import table_specs
from theodolite.published import list_tables

RESULTS = Path(__file__).parents[2] / "results"
FOLDERS = ("cifar10-densenet", "imagenet-lite0")
# The experiments that train nothing, and the files they write.
EXACT = {
    "all-scores": FOLDERS,
    "aggregation": tuple(f"aggregation-{folder}" for folder in FOLDERS),
    "centring": tuple(f"centring-{folder}" for folder in FOLDERS),
    "shaping": tuple(f"shaping-{folder}" for folder in FOLDERS),
    "half-bank": tuple(f"half-bank-{folder}" for folder in FOLDERS),
    "angles": tuple(f"angles-{folder}" for folder in FOLDERS),
    "false-alarms": ("false-alarms",),
    "class-alarms": ("class-alarms",),
    "literature": ("literature",),
    "monitor": ("monitor",),
    "class-count": ("class-count",),
    "upstream": ("upstream",),
}
TRAINED = {
    "confirmation",
    "contrastive-cifar10",
    "contrastive-fashion-mnist",
    "contrastive-mnist",
    "ensemble",
    "mnist-distances",
    "mnist-lenet5",
    "mnist-recipe",
    "recommendation",
    "recommendation-ensemble",
    "recommendation-shaping",
}
# What is measured is rounding, of which another processor does another: `tests/paper/test_merging.py`.
ROUNDING = {"merging"}
# `tests/paper/test_advice.py` has one network of it, and what follows from all, `test_regret_results.py` one
# set, and what follows from all, and `tests/paper/test_real_resnet50.py` some rows of every table.
TABLES = ("", "aggregation-", "angles-", "centring-", "shaping-")
IN_PART = {"advice", "regret", *(f"{table}imagenet-resnet50" for table in TABLES)}
# Too long for every run, but for a part: `make test-long` has the whole.
LONG = ("all-scores", "half-bank", "centring", "monitor", "class-count")


def committed(name: str) -> dict[str, Any]:
    results: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return results


def timeless(content: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in content.items() if key not in ("versions", "seconds")}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] if name in LONG else []) for name in EXACT]
)
def test_every_digit_of_the_committed_results_comes_back(name: str, data_root: Path, tmp_path: Path) -> None:
    made = experiments()[name].run(Context(data_root, tmp_path))
    assert tuple(made) == EXACT[name]
    for file, study in made.items():
        assert timeless(study.to_json()) == timeless(committed(file)), file


@pytest.mark.parametrize("name", ["all-scores", "centring"])
def test_every_digit_of_one_folder(
    name: str, data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feature_folders, "FOLDERS", FOLDERS[:1])
    made = experiments()[name].run(Context(data_root, tmp_path))
    ((file, study),) = made.items()
    assert file == EXACT[name][0]
    assert timeless(study.to_json()) == timeless(committed(file))


def test_every_digit_of_one_simulation_and_one_score(
    data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitor, "CALIBRATIONS", monitor.CALIBRATIONS[:1])
    monkeypatch.setattr(monitor, "SCORES", monitor.SCORES[:1])
    monkeypatch.setattr(monitor, "SHARES", monitor.SHARES[-1:])
    monkeypatch.setattr(monitor, "subjects", lambda context: [from_folder(context.root / monitor.FOLDER)])
    made, kept = experiments()["monitor"].run(Context(data_root, tmp_path))["monitor"], committed("monitor")
    for part, rows in made.to_json().items():
        if isinstance(rows, list):
            assert rows
            assert all(row in kept[part] for row in rows), part


def test_every_digit_of_the_class_counts_of_one_network(
    data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = data_root / FOLDERS[0]
    monkeypatch.setattr(class_count, "_subjects", lambda _: [from_folder(folder)])
    made = experiments()["class-count"].run(Context(data_root, tmp_path))["class-count"].to_json()
    kept = [row for row in committed("class-count")["rows"] if row["network"] == FOLDERS[0]]
    assert made["rows"] == kept
    assert len(kept) == 3


def test_every_committed_file_is_known() -> None:
    exact = {file for files in EXACT.values() for file in files}
    assert {path.stem for path in RESULTS.glob("*.json")} == exact | TRAINED | ROUNDING | IN_PART


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: str(path.stem))
def test_every_committed_document_is_its_json(path: Path) -> None:
    content = committed(path.stem)
    study = read_study(content)
    assert study.to_json() == content
    assert path.with_suffix(".md").read_text(encoding="utf-8") == study.document()
    assert content["command"].startswith("theodolite ")
    assert content["versions"]["theodolite"]
    assert "/work" not in path.read_text(encoding="utf-8")


def test_averages_of_the_committed_results_are_those_of_their_cells() -> None:
    """Also where networks were trained: what follows from the cells is computed again."""
    for name in TRAINED - {
        "confirmation",
        "contrastive-cifar10",
        "contrastive-fashion-mnist",
        "contrastive-mnist",
        "mnist-distances",
        "mnist-recipe",
    }:
        result = RunStudy.from_json(committed(name)).result
        for cell in result.cells:
            if cell.samples is None:
                key = (cell.subject, cell.detector)
                sets = [result.cell(*key, ood, cell.metric).value for ood in result.ood_names(cell.subject)]
                assert cell.value == round(sum(sets) / len(sets), 6), (name, cell)


def test_the_published_difference_of_distances_is_that_of_the_table() -> None:
    study = read_study(committed("mnist-distances"))
    assert isinstance(study, Distances)
    known, strange = (float(row.published["mean"]) for row in study.rows)
    assert study.difference.published == f"{known - strange:.2f}"
    assert study.difference.measured == pytest.approx(study.rows[0].mean - study.rows[1].mean, abs=1e-6)


def test_results_of_another_kind_are_refused() -> None:
    with pytest.raises(FormatError, match="known: theodolite-results/1"):
        read_study({"format": "theodolite-store/1"})


def test_the_committed_tables_cover_the_registry_of_their_day() -> None:
    for folder in FOLDERS:
        labels = set(committed(folder)["entries"])
        assert {"ORA", "fDBD", "MSP", "KNN", "ViM", "R-Mah", "SSD+"} <= labels
        assert len(labels) >= 20


def test_the_literature_within_three_tenths_of_a_point_or_to_every_digit() -> None:
    """Committed; that the code still gives these figures is tested above."""
    study = read_study(committed("literature"))
    assert isinstance(study, Checks)
    for row in study.rows:
        if row.source.startswith("OE"):
            assert abs(float(row.measured) - float(row.published)) <= OE_TOLERANCE, row
        elif row.metric != "id-accuracy":
            assert row.measured == row.published, row
    assert len(study.rows) == 10 + 25


def test_calibration_on_learnt_images_breaks_the_promise_and_on_unseen_ones_keeps_it() -> None:
    """5 % with three standard errors of both halves."""
    study = read_study(committed("false-alarms"))
    assert isinstance(study, FalseAlarms)
    for row in study.rows:
        assert row.learnt > 9
        assert row.unseen <= 5 + 300 * (0.05 * 0.95 * 2 / 5_000) ** 0.5


def test_by_class_every_class_keeps_the_promise() -> None:
    """Means over the splits; one threshold for all flags some classes more than half as often again."""
    study = read_study(committed("class-alarms"))
    assert isinstance(study, ByClass)
    for row in study.rows:
        if row.thresholds == "by class":
            assert max(row.classes) < 5.2
        else:
            assert max(row.classes) > 7.5
        assert row.overall == pytest.approx(5, abs=0.2)


def test_the_monitor_keeps_its_bounds_and_finds_changes() -> None:
    """Bounds with three standard errors; the guard's own p-values break them where calibration is small."""
    study = read_study(committed("monitor"))
    assert isinstance(study, MonitorStudy)
    for null in study.simulated:
        bound = 100 * null.alarm + 300 * (null.alarm * (1 - null.alarm) / NULL_RUNS) ** 0.5
        assert null.growing <= bound, null
        assert (null.own > bound) == (null.calibration < 1_000), null
    for length in study.run_lengths:
        assert length.measured >= length.promised - 3 * length.error, length
    for quiet in study.silence:
        assert quiet.alarms["martingale"] <= 1 + 300 * (0.01 * 0.99 / REAL_RUNS) ** 0.5, quiet
    for stored in study.stored:  # the second half of MNIST's test images is by other hands than the first
        assert (stored.alarmed_at["martingale"] is None) == (stored.data == "cifar10-densenet"), stored
    assert {delay.share for delay in study.delays} == set(SHARES)
    for delay in study.delays:
        assert delay.median is not None
        assert delay.median <= {0.1: 400, 0.3: 60, 1.0: 12}[delay.share], delay


# ---------------------------------------------------------------------- what reproduce knows


def test_every_table_and_figure_of_the_paper_is_an_item() -> None:
    known = items()
    assert set(list_tables()) < set(known)
    assert {"fig:sine", "fig:histograms_angles", "fig:teaser"} < set(known)
    assert ("imagenet", "eva") in known["imagenet-backbones"].pairs
    assert ("imagenet", "vit-b16") in known["ensemble"].pairs
    for item in known.values():
        assert set(item.stand_ins) <= set(experiments())


def test_an_item_says_what_is_missing(tmp_path: Path) -> None:
    item = items()["near-ood"]
    missing = item.missing(tmp_path)
    assert any(line.startswith("ninco (test)") for line in missing)
    assert any(line.startswith("checkpoint of swin") for line in missing)
    assert item.runnable(tmp_path) == []


def test_names_labels_and_experiments_are_all_understood() -> None:
    chosen, wanted = resolve(["tab:ablation_score_agg", "literature"])
    assert [item.name for item in chosen] == ["aggregation"]
    assert [experiment.name for experiment in wanted] == ["aggregation", "literature"]
    assert len(resolve(["all"])[1]) == len(experiments())
    with pytest.raises(InputError, match="nothing is called 'table 3'"):
        resolve(["table 3"])


def test_table_specs_are_the_scores_of_the_table() -> None:
    labels = [spec.label for spec in table_specs("shaping", "imagenet", {})]
    assert labels == ["ORA", "ORA + ash-s:35", "ORA + scale:90", "ORA + react:80"]
    for table in list_tables():
        for protocol in ("cifar10", "imagenet", "near-ood", "mnist"):
            for spec in table_specs(table, protocol, {}):
                spec.build()


def test_needs_say_what_is_not_there(tmp_path: Path) -> None:
    assert "not below the data root" in str(Need("oe-mnist").missing(tmp_path))
    assert "mnist (test)" in str(Need("mnist", "test").missing(tmp_path))
    assert "THEODOLITE_DATA" in str(Need("oe-mnist").missing(None))
    (tmp_path / "oe-mnist").mkdir()
    assert Need("oe-mnist").missing(tmp_path) is None


def test_the_command_lists_what_can_run_and_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    listed = command("reproduce", "--root", tmp_path / "data", env={"COLUMNS": "160"})
    assert listed.code == 0, listed.err
    assert all(name in listed.out for name in ("imagenet-backbones", "mnist-distances", "fig:sine"))
    asked = command("reproduce", "centring", "--root", tmp_path / "data", "-o", tmp_path / "out")
    assert asked.code == 0, asked.err
    assert "missing: svhn (test)" in asked.out
    assert "missing: checkpoint of resnet18-scl" in asked.out
    assert "centring cannot run here: cifar10-densenet: not below the data root" in asked.out
    assert not (tmp_path / "out").exists()


def test_the_command_writes_what_it_prints(tmp_path: Path, data_root: Path) -> None:
    where = ("--root", data_root, "--cache", tmp_path / "cache", "-o", tmp_path)
    made = command("reproduce", "tab:ablation_score_agg", *where)
    assert made.code == 0, made.err
    for folder in FOLDERS:
        results = json.loads((tmp_path / f"aggregation-{folder}.json").read_text(encoding="utf-8"))
        assert results["command"] == "theodolite reproduce aggregation"
        for cell in results["cells"]:
            assert f"{cell['fpr95']:.2f}" in made.out
