"""Views: which rows and tables people see, in which order; the files of record stay whole."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from theodolite.benchmarks import Cell, RunResult, join
from theodolite.benchmarks.facts import DetectorFacts, SubjectFacts
from theodolite.core.errors import InputError
from theodolite.detectors import RECOMMENDED
from theodolite.evaluation import metric
from theodolite.report.documents import write_files
from theodolite.report.tables import View, combined_tables, joint_tables, metric_table, metric_tables

FPR = metric("fpr95")
# fpr95 and auroc of each score; MSP and Energy print the same FPR95.
VALUES = {
    "ORA": (20.0, 90.0),
    "MSP": (40.004, 80.0),
    "Energy": (39.996, 85.0),
    "Recommended": (70.0, 60.0),
    "KNN k=200": (10.0, 70.0),
}
TEXTS = {"Recommended": RECOMMENDED, "KNN k=200": "knn?k=200"}


def made(models: Mapping[str, float] | None = None) -> RunResult:
    """Models by what they add to every value; the near set is easier than the far one by one point."""
    cells, subjects = [], {}
    for model, more in (models or {"net": 0.0}).items():
        subjects[model] = SubjectFacts(None, 3, 4, None, {"id_test": 9, "near": 5, "far": 5}, {"head": model})
        for label, values in VALUES.items():
            for ood, shift in (("near", -1.0), ("far", 1.0), ("average", 0.0)):
                for name, value in zip(("fpr95", "auroc"), values, strict=True):
                    number = value + more + shift
                    cells.append(Cell(model, label, ood, name, number, None if ood == "average" else 5))
    detectors = {label: DetectorFacts(text=TEXTS.get(label, label.casefold())) for label in VALUES}
    return RunResult("t", "c", tuple(cells), subjects, detectors)


def rows(view: View, result: RunResult | None = None, name: str = "fpr95") -> list[str]:
    return [label for label, _ in metric_table(result or made(), "net", metric(name), view).rows]


def test_without_a_view_rows_are_those_of_the_run() -> None:
    assert rows(View()) == list(VALUES)


def test_rows_are_sorted_by_name_average_metric_and_set() -> None:
    assert rows(View(sort="name")) == ["Energy", "KNN k=200", "MSP", "ORA", "Recommended"]
    assert rows(View(sort="average")) == ["KNN k=200", "ORA", "MSP", "Energy", "Recommended"]
    assert rows(View(sort="average"), name="auroc") == ["ORA", "Energy", "MSP", "KNN k=200", "Recommended"]
    by_auroc = rows(View(sort="auroc"))
    assert by_auroc == rows(View(sort="auroc"), name="auroc") == rows(View(sort="average"), name="auroc")
    assert rows(View(sort="far")) == rows(View(sort="average"))


def test_sorting_by_a_set_is_by_its_own_column() -> None:
    result = made()
    turned = tuple(
        Cell(c.subject, c.detector, c.ood, c.metric, 100 - c.value if c.ood == "far" else c.value, c.samples)
        for c in result.cells
    )
    other = RunResult("t", "c", turned, result.subjects, result.detectors)
    assert rows(View(sort="far"), other) == ["Recommended", "MSP", "Energy", "ORA", "KNN k=200"]
    assert rows(View(sort="near"), other)[0] == "KNN k=200"


def test_the_top_keeps_ties_as_printed_and_the_recommended_score() -> None:
    assert rows(View(top=1)) == ["KNN k=200", "Recommended"]
    # The third and the fourth print 40.00.
    assert rows(View(top=3)) == ["KNN k=200", "ORA", "MSP", "Energy", "Recommended"]
    assert rows(View(top=2, sort="name")) == ["KNN k=200", "ORA", "Recommended"]
    assert rows(View(top=2, only=("o*", "m*", "e*"))) == ["ORA", "MSP", "Energy"]
    assert rows(View(top=99)) == rows(View(sort="average"))


def test_only_is_by_label_or_spec_whatever_the_case() -> None:
    assert rows(View(only=("ora",))) == ["ORA"]
    assert rows(View(only=("knn?k=200",))) == ["KNN k=200"]
    assert rows(View(only=("KNN*", "m*"))) == ["MSP", "KNN k=200"]
    assert rows(View(only=("knn",))) == [], "a pattern is of the whole name"


def test_marks_are_of_the_rows_shown_and_the_legend_says_how_many() -> None:
    table = metric_table(made(), "net", FPR, View(only=("msp", "recommended")))
    assert [row[-1].rank for _, row in table.rows] == [1, 2]
    assert "2 of 5 scores shown" in table.legend
    assert "shown" not in metric_table(made(), "net", FPR, View(sort="name")).legend


def test_the_metrics_asked_for_have_the_tables() -> None:
    titles = [table.title for table in metric_tables(made(), View(metrics=("auroc",)))]
    assert titles == ["AUROC ↑ in %, net"]
    two = [table.title.split()[0] for table in metric_tables(made(), View(metrics=("auroc", "fpr95")))]
    assert two == ["AUROC", "FPR95"], "in the order they were asked for"
    assert combined_tables(made(), View(metrics=("auroc",))) == []
    (combined,) = combined_tables(made())
    assert combined.groups == (("near", 2), ("far", 2), ("average", 2))
    assert combined.full_header[1:3] == ("near FPR95 ↓", "near AUROC ↑")


def test_joint_tables_are_sorted_by_the_average_over_models_or_by_rank() -> None:
    joined = join(made({"a": 0.0, "b": 2.0}))
    (fpr, auroc) = joint_tables(joined, View(sort="average"))
    assert [label for label, _ in fpr.rows] == ["KNN k=200", "ORA", "MSP", "Energy", "Recommended"]
    assert [label for label, _ in auroc.rows][:2] == ["ORA", "Energy"]
    assert [label for label, _ in joint_tables(joined, View(sort="auroc"))[0].rows][:2] == ["ORA", "Energy"]
    top = joint_tables(joined, View(top=1))[0]
    assert [label for label, _ in top.rows] == ["KNN k=200", "Recommended"]
    assert "2 of 5 scores shown" in top.legend
    assert "place among the 5 scores" in top.legend, "a view changes no rank"
    ranks = {label: row[-1].text for label, row in joint_tables(joined)[0].rows}
    assert {label: row[-1].text for label, row in top.rows}.items() <= ranks.items()
    assert ranks == {"KNN k=200": "1.0", "ORA": "2.0", "MSP": "3.5", "Energy": "3.5", "Recommended": "5.0"}
    # On different data there is no average over all: by rank.
    apart = made({"a": 0.0, "b": 2.0})
    facts = apart.subjects["b"]
    other = SubjectFacts(None, 3, 4, None, {**facts.samples, "far": 6}, {})
    unlike = join(RunResult("t", "c", apart.cells, {**apart.subjects, "b": other}, apart.detectors))
    table = joint_tables(unlike, View(sort="average"))[0]
    assert table.header == ("score", "a", "b", "rank")
    assert [label for label, _ in table.rows] == ["KNN k=200", "ORA", "MSP", "Energy", "Recommended"]


def test_a_view_acts_on_what_is_read_and_the_files_of_record_stay_whole(tmp_path: Path) -> None:
    result = join(made({"a": 0.0, "b": 2.0}))
    view = View(metrics=("auroc",), sort="average", only=("ora", "energy"))
    whole = {path.name: path.read_text() for path in write_files(result, tmp_path / "whole")}
    seen = {path.name: path.read_text() for path in write_files(result, tmp_path / "seen", view=view)}
    assert seen["results.json"] == whole["results.json"]
    assert seen["results.csv"] == whole["results.csv"]
    assert RunResult.from_json(json.loads(seen["results.json"])) == result
    for name in ("results.md", "results.tex"):
        assert "MSP" in whole[name]
        assert "MSP" not in seen[name]
        assert "FPR95" not in seen[name]
        assert seen[name].index("ORA") < seen[name].index("Energy")


def test_a_view_that_fits_nothing_is_refused() -> None:
    result = made()
    for view, message in (
        (View(sort="fpr59"), "nothing to sort by is called 'fpr59'; did you mean 'fpr95'"),
        (View(sort="rank"), "nothing to sort by is called 'rank'"),
        (View(only=("orb",)), "no score of this run matches 'orb'"),
    ):
        with pytest.raises(InputError, match=message):
            view.require_fits(result)
    View(sort="rank").require_fits(join(made({"a": 0.0, "b": 1.0})))
    with pytest.raises(InputError, match="no metric is called 'aupr'"):
        View(metrics=("aupr",))
    with pytest.raises(InputError, match="top must be at least 1, got 0"):
        View(top=0)


def test_no_number_depends_on_a_view() -> None:
    result = join(made({"a": 0.0, "b": 2.0}))
    everything = {
        (table.name, label): [cell.text for cell in row]
        for table in metric_tables(result)
        for label, row in table.rows
    }
    rng = np.random.default_rng(0)
    sorts = [None, "name", "average", "rank", "fpr95", "auroc", "near"]
    for _ in range(40):
        view = View(
            sort=sorts[rng.integers(len(sorts))],
            top=None if rng.random() < 0.5 else int(rng.integers(1, 6)),
            only=() if rng.random() < 0.5 else ("*r*",),
        )
        for table in metric_tables(result, view):
            for label, row in table.rows:
                assert [cell.text for cell in row] == everything[table.name, label]


def ranked_rows(view: View, result: RunResult) -> list[str]:
    return [label for label, _ in joint_tables(result, view)[0].rows]


def test_ranks_that_print_the_same_are_ties() -> None:
    result = join(made({"one": 0.0, "two": 1.0}))
    assert result.joint is not None
    places = {"ORA": 1.53, "MSP": 1.47, "Energy": 3.0, "Recommended": 4.0, "KNN k=200": 5.0}
    result = replace(result, joint=replace(result.joint, ranks={"fpr95": places}))
    assert ranked_rows(View(sort="rank", top=1), result) == ["ORA", "MSP", "Recommended"]


def test_without_anything_to_be_best_by_all_rows_stay() -> None:
    """Two models that have no score in common have no average over both, and no rank."""
    result = made({"one": 0.0, "two": 1.0})
    apart = {"one": ("ORA", "MSP"), "two": ("Energy", "KNN k=200")}
    cells = tuple(cell for cell in result.cells if cell.detector in apart[cell.subject])
    assert len(ranked_rows(View(top=1), join(replace(result, cells=cells)))) == 4


def test_a_joint_table_says_that_it_has_no_column_to_sort_by() -> None:
    result = join(made({"one": 0.0, "two": 1.0}))
    for sort, said in (("near", True), ("average", False), ("fpr95", False)):
        legend = joint_tables(result, View(sort=sort))[0].legend
        assert ("in the order of the average: near is a column of the tables of single" in legend) is said


def test_tests_of_an_earlier_run_do_not_stay_beside_others(tmp_path: Path) -> None:
    stale = tmp_path / "results-paired.csv"
    stale.write_text("of another run")
    assert stale not in write_files(made(), tmp_path)
    assert not stale.exists()
