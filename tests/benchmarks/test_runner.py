"""The runner from end to end on small made data: what it prints and writes, and that it goes on."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from safetensors.torch import save_file

from made_folders import WIDTH, make_folder
from theodolite.benchmarks import compare as beside
from theodolite.benchmarks import scoring
from theodolite.benchmarks.results import Intervals
from theodolite.benchmarks.runner import Outcome, ensemble_scores, write_files
from theodolite.benchmarks.runner import run as run_bench
from theodolite.benchmarks.scoring import Scorer
from theodolite.benchmarks.subject import from_folder
from theodolite.core.errors import InputError
from theodolite.detectors import create, list_detectors
from theodolite.detectors.spec import parse_entries
from theodolite.evaluation.evaluation import head_accuracy
from theodolite.evaluation.metrics import auroc, fpr_at_tpr
from theodolite.report.forms import csv_text, latex, markdown, terminal_table
from theodolite.report.grid import grids, printed
from theodolite.report.page.write import render
from theodolite.report.run_page import report_data


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    about = {"name": "resnet18-scl", "protocol": "cifar10", "backbone": "resnet18-scl"}
    return make_folder(tmp_path_factory.mktemp("bench") / "made", about=about)


@pytest.fixture(scope="module", autouse=True)
def made_sets_pass_for_whole_ones() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(beside, "_MAY_LACK", 1.0)
        yield


@pytest.fixture(scope="module")
def outcome(folder: Path) -> Outcome:
    return run_bench(
        [from_folder(folder)],
        parse_entries(["ora", "fdbd", "msp", "knn", "ora?aggregate=mean", "ora+react:80"]),
        title="made data",
        command="theodolite bench",
        intervals=Intervals(50, seed=3),
    )


# ---------------------------------------------------------------------- numbers


def test_every_cell_is_what_the_detector_gives_by_itself(folder: Path, outcome: Outcome) -> None:
    from safetensors.torch import load_file

    subject = from_folder(folder)
    parts = {name: load_file(folder / f"{name}.safetensors") for name in ("id_fit", "id_test", "isun")}
    fit = parts["id_fit"]
    detector = create("fdbd").fit(fit["features"].float(), fit["labels"].long(), head=subject.head)
    known, unknown = (detector.score(parts[name]["features"].float()) for name in ("id_test", "isun"))
    cell = next(c for c in outcome.results["cells"] if (c["entry"], c["ood"]) == ("fDBD", "isun"))
    assert cell["fpr95"] == pytest.approx(100 * fpr_at_tpr(known, unknown), abs=1e-6)
    assert cell["auroc"] == pytest.approx(100 * auroc(known, unknown), abs=1e-4)
    assert cell["samples"] == 250


def test_averages_are_the_means_of_the_cells(outcome: Outcome) -> None:
    for label in ("ORA", "MSP"):
        cells = [cell for cell in outcome.results["cells"] if cell["entry"] == label]
        *sets, average = cells
        assert average["ood"] == "average"
        for metric in ("fpr95", "auroc", "aupr_in"):
            assert average[metric] == pytest.approx(np.mean([cell[metric] for cell in sets]), abs=1e-6)


def test_intervals_hold_their_value(outcome: Outcome) -> None:
    for cell in outcome.results["cells"]:
        low, high = cell["intervals"]["auroc"]
        assert low <= cell["auroc"] <= high


def test_results_say_what_made_them(outcome: Outcome) -> None:
    results = outcome.results
    assert set(results["versions"]) == {"theodolite", "torch", "numpy", "python"}
    assert results["seeds"] == {"bootstrap": 3, "KNN": 0}
    facts = results["models"]["resnet18-scl"]
    assert set(facts["digests"]) == {"head", "id_fit", "id_test", "svhn", "isun", "places365", "textures"}
    assert facts["samples"]["id_fit"] == 1500
    assert results["entries"]["KNN"]["options"]["k"] == 50
    assert results["entries"]["ORA + react:80"]["shaping"] == "react:80"
    assert set(results["seconds"]["resnet18-scl"]["score"]) == set(results["entries"])


def test_all_scores_of_the_registry_run_from_features(folder: Path) -> None:
    result = Scorer(from_folder(folder), parse_entries([])).run()
    assert len(result.values) + len(result.refused) == len(list_detectors())
    assert not result.refused


# ---------------------------------------------------------------------- published beside measured


def test_published_values_stand_beside_the_measured_ones(outcome: Outcome) -> None:
    table = {(cell["entry"], cell["ood"]): cell["published"] for cell in outcome.results["cells"]}
    assert table["ORA", "average"]["fpr95"][0]["printed"] == "10.97"
    assert {cell["table"] for cell in table["ORA", "svhn"]["fpr95"]} >= {"cifar10"}
    assert table["ORA aggregate=mean", "average"]["auroc"][0]["printed"] == "97.59"
    assert table["ORA + react:80", "places365"]["fpr95"][0]["table"] == "react-cifar10"
    assert table["MSP", "svhn"] == {}, "the paper has no MSP on the contrastive model"
    assert "(10.97)" in markdown(outcome.results)
    assert report_data(outcome, "resnet18-scl").published["ORA", "average", "fpr95"] == 10.97


def test_an_average_over_other_sets_is_not_compared(folder: Path, tmp_path: Path) -> None:
    part = make_folder(tmp_path / "part", about=json.loads((folder / "about.json").read_text()))
    (part / "isun.safetensors").unlink()
    results = run_bench([from_folder(part)], parse_entries(["ora"]), title="", command="").results
    table = {cell["ood"]: cell["published"] for cell in results["cells"]}
    assert table["svhn"]["fpr95"]
    assert table["average"] == {}


def test_other_samples_than_the_papers_are_not_compared(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beside, "_MAY_LACK", 0.01)
    results = run_bench([from_folder(folder)], parse_entries(["ora"]), title="", command="").results
    assert all(cell["published"] == {} for cell in results["cells"])


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ({"protocol": "cifr10", "backbone": "resnet18-scl"}, "did you mean 'cifar10'"),
        ({"protocol": "cifar10", "backbone": "resnet18scl"}, "did you mean 'resnet18-scl'"),
    ],
)
def test_a_misspelt_protocol_or_backbone_is_said(tmp_path: Path, about: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        from_folder(make_folder(tmp_path / "made", about=about))


# ---------------------------------------------------------------------- one number, every form


def test_all_forms_agree_to_the_printed_digit(outcome: Outcome, tmp_path: Path) -> None:
    files = {path.suffix: path for path in write_files(outcome.results, tmp_path)}
    results = json.loads(files[".json"].read_text())
    rows = list(csv.DictReader(io.StringIO(files[".csv"].read_text())))
    from_csv = {(row["score"], row["ood"], row["metric"]): row["value"] for row in rows}
    assert len(from_csv) == len(results["cells"]) * 5
    page = render(report_data(outcome, "resnet18-scl"))
    tex, text = files[".tex"].read_text(), files[".md"].read_text()
    for grid in grids(results):
        screen = Console(width=250, file=io.StringIO(), record=True)
        screen.print(terminal_table(grid))
        shown = screen.export_text()
        for label, cells in grid.rows:
            on_screen = next(line for line in shown.splitlines() if line.startswith(f"  {label}  "))
            in_text = [line for line in text.splitlines() if line.startswith(f"| {label} |")]
            in_tex = [line for line in tex.splitlines() if line.startswith(f"{label} &")]
            for column, cell in zip(grid.columns, cells, strict=True):
                assert from_csv[label, column, grid.metric] == cell.value
                assert cell.value in on_screen
                assert any(cell.value in line for line in in_text)
                assert any(cell.value in line for line in in_tex)
                assert cell.value in page
    assert csv_text(results) == files[".csv"].read_text()
    assert markdown(results) == text
    assert latex(results) == tex


def test_the_best_is_bold_the_second_underlined_and_ties_share_their_rank(outcome: Outcome) -> None:
    for grid in grids(outcome.results):
        for column in range(len(grid.columns)):
            cells = [row[column] for _, row in grid.rows]
            best = (min if grid.metric == "fpr95" else max)(float(cell.value) for cell in cells)
            assert {cell.value for cell in cells if cell.rank == 1} == {printed(best)}
            assert len({cell.value for cell in cells if cell.rank == 2}) <= 1
    assert re.search(r"\*\*\d+\.\d\d\*\*", markdown(outcome.results))
    assert re.search(r"\\underline\{\d+\.\d\d\}", latex(outcome.results))


# ---------------------------------------------------------------------- going on


def test_a_run_goes_on_with_the_scores_that_are_missing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject, entries = from_folder(folder), parse_entries(["ora", "msp", "knn"])
    whole = Scorer(subject, entries).run()
    original = Scorer._score_set

    def stops(self: Scorer, name: str, *args: Any) -> None:
        if name == "isun":
            raise KeyboardInterrupt
        original(self, name, *args)

    monkeypatch.setattr(Scorer, "_score_set", stops)
    with pytest.raises(KeyboardInterrupt):
        Scorer(subject, entries, cache=tmp_path).run()
    monkeypatch.undo()
    kept = len(list(tmp_path.glob("*.safetensors")))
    assert 0 < kept < 15
    resumed = Scorer(subject, entries, cache=tmp_path).run()
    assert resumed.reused == kept
    again = Scorer(subject, entries, cache=tmp_path).run()
    assert again.reused == 15
    assert again.fit_seconds == 0
    for label, sets in whole.values.items():
        for name, values in sets.items():
            assert np.array_equal(values, resumed.values[label][name])
            assert np.array_equal(values, again.values[label][name])


def test_scores_of_other_features_options_or_code_are_not_reused(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Scorer(from_folder(folder), parse_entries(["knn"]), cache=tmp_path).run()
    other = make_folder(tmp_path / "other", seed=1)
    assert Scorer(from_folder(other), parse_entries(["knn"]), cache=tmp_path).run().reused == 0
    assert Scorer(from_folder(folder), parse_entries(["knn?k=3"]), cache=tmp_path).run().reused == 0
    assert Scorer(from_folder(folder), parse_entries(["knn"]), cache=tmp_path).run().reused == 5
    monkeypatch.setattr(scoring, "code_digest", lambda: "changed")
    assert Scorer(from_folder(folder), parse_entries(["knn"]), cache=tmp_path).run().reused == 0


def test_damaged_scores_are_computed_again(folder: Path, tmp_path: Path) -> None:
    first = Scorer(from_folder(folder), parse_entries(["msp"]), cache=tmp_path).run()
    damaged = next(tmp_path.glob("*.safetensors"))
    damaged.write_bytes(damaged.read_bytes()[:40])
    second = Scorer(from_folder(folder), parse_entries(["msp"]), cache=tmp_path).run()
    assert second.reused == 4
    assert all(
        np.array_equal(first.values["MSP"][name], second.values["MSP"][name]) for name in first.values["MSP"]
    )


# ---------------------------------------------------------------------- folders


def test_a_score_that_refuses_the_data_is_left_out_with_its_reason(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "unlabelled")
    from safetensors.torch import load_file

    rows = load_file(folder / "id_fit.safetensors")["features"]
    save_file({"features": rows}, folder / "id_fit.safetensors")
    results = run_bench([from_folder(folder)], parse_entries(["ora", "mds"]), title="", command="").results
    assert {cell["entry"] for cell in results["cells"]} == {"ORA"}
    assert "labels" in results["refused"]["unlabelled"]["MDS"]
    assert "unlabelled, MDS: it needs class means" in markdown(results)


def test_folders_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        from_folder(tmp_path / "nowhere")
    folder = make_folder(tmp_path / "made")
    (folder / "id_test.safetensors").rename(folder / "other.safetensors")
    with pytest.raises(InputError, match=r"neither id_test\.safetensors"):
        from_folder(folder)
    (folder / "other.safetensors").rename(folder / "id_test.safetensors")
    save_file({"features": torch.zeros(5, 3)}, folder / "svhn.safetensors")
    with pytest.raises(InputError, match="svhn: features have width 3, but the head expects 12"):
        from_folder(folder)


def test_ensembles_add_the_scores_of_the_same_samples(tmp_path: Path) -> None:
    subjects = [from_folder(make_folder(tmp_path / name, seed=seed)) for seed, name in enumerate("ab")]
    entries = parse_entries(["ora", "fdbd"])
    outcome = run_bench(subjects, entries, title="", command="", ensemble=True)
    name = "ensemble of 2: a + b"
    summed = outcome.scores[name].values["ORA"]["svhn"]
    members = [outcome.scores[member].values["ORA"]["svhn"] for member in "ab"]
    assert np.array_equal(summed, members[0] + members[1])
    assert len([cell for cell in outcome.results["cells"] if cell["model"] == name]) == 10
    short = from_folder(make_folder(tmp_path / "c"))
    save_file({"features": torch.zeros(7, WIDTH)}, tmp_path / "c" / "svhn.safetensors")
    short = from_folder(tmp_path / "c")
    with pytest.raises(InputError, match="same samples of svhn"):
        ensemble_scores([subjects[0], short], [outcome.scores["a"].values, outcome.scores["b"].values])
    with pytest.raises(InputError, match="at least two"):
        ensemble_scores(subjects[:1], [outcome.scores["a"].values])


def test_accuracy_of_the_head(folder: Path) -> None:
    subject = from_folder(folder)
    right = [(subject.head(rows.float()).argmax(1) == labels).double() for rows, labels, _ in subject.test]
    assert head_accuracy(subject.head, subject.test) == pytest.approx(float(torch.cat(right).mean()))
    assert head_accuracy(subject.head, subject.ood["svhn"]) is None
