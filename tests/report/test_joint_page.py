"""The page of all models: the joint table first, every model's tables below, nothing from outside."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import theodolite as th
from made_folders import make_folder
from report_parser import ParsedPage
from sample_report import make_result
from theodolite.benchmarks import Cell, Repeats, RunResult, join
from theodolite.benchmarks.facts import SubjectFacts
from theodolite.core.errors import InputError
from theodolite.evaluation import Curve, list_metrics, metric
from theodolite.report.documents import result_document
from theodolite.report.page.write import render_joint
from theodolite.report.tables import joint_table, metric_table, paired_tables
from theodolite.report.tables.markdown import escaped


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    home = tmp_path_factory.mktemp("joint-page")
    folders = [f"features:{make_folder(home / f'net{seed}', seed=seed)}" for seed in range(4)]
    return th.bench(
        folders[0],
        [folders[1], Repeats("vit", tuple(folders[2:]))],
        detectors=["ora", "msp", "knn"],
        against="ora",
        settings=th.BenchSettings(cache=home / "cache"),
    )


def test_every_number_is_that_of_the_tables(
    result: RunResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a page computes nothing")

    monkeypatch.setattr(Curve, "of", refuse)
    joint, *others = th.write_pages(result, tmp_path)
    assert joint == tmp_path / "report.html"
    assert len(others) == 5, "two models, two repeats and their mean"
    page = ParsedPage(joint.read_text(encoding="utf-8"))
    tables = {f"models-{known.name}": joint_table(result, known) for known in list_metrics()}
    for place, model in enumerate(("net0", "net1", "vit"), start=1):
        tables |= {
            f"model-{place}-{known.name}": metric_table(result, model, known) for known in list_metrics()
        }
    for place, subject in enumerate(("net0", "net1", "vit #1", "vit #2"), start=1):
        found = paired_tables(result, subject=subject)
        tables |= {
            f"paired-{place}-{name}": part for name, part in zip(("fpr95", "auroc"), found, strict=True)
        }
    assert set(page.tables) == set(tables)
    assert list(page.tables)[: len(list_metrics())] == [f"models-{known.name}" for known in list_metrics()]
    for name, table in tables.items():
        head, *rows = page.tables[name]
        shown_columns = [cell[0] for cell in head[1:]]
        assert sorted(shown_columns) == sorted(table.header[1:])
        if not name.startswith("paired"):
            assert shown_columns[0] == ("average of 3 models" if name.startswith("models") else "average")
        for (label, cells), row in zip(table.rows, rows, strict=True):
            assert row[0] == [label]
            by_column = dict(zip(table.header[1:], cells, strict=True))
            for column, texts in zip(shown_columns, row[1:], strict=True):
                cell = by_column[column]
                shown = [text for text in texts if not text.startswith("<")]
                expected = [cell.text, *([f"± {cell.spread}"] if cell.spread else [])]
                assert shown == expected + ([f"[{cell.interval}]"] if cell.interval else [])
                assert texts[0] == ("<b>" if cell.rank == 1 else "<u>" if cell.rank == 2 else cell.text)


def test_it_names_its_models_and_the_pages_beside_it(result: RunResult, tmp_path: Path) -> None:
    joint, *others = th.write_pages(result, tmp_path)
    page = ParsedPage(joint.read_text(encoding="utf-8"))
    links = [name for name in page.references if not name.startswith(("#", "data:"))]
    assert sorted(links) == sorted(path.name for path in others)
    assert {"All models", "net0", "net1", "vit", "Against ORA: vit #2", "page of vit #1"} <= set(page.texts)
    assert "average of 3 models" in page.texts
    assert result.subjects["vit #1"].digests["head"] in page.texts
    (single,) = (path for path in others if path.name == "report-net0.html")
    alone = ParsedPage(single.read_text(encoding="utf-8"))
    assert "Against ORA: net0" in alone.texts
    assert "Against ORA: net1" not in alone.texts
    assert "paired-1-fpr95" in alone.tables


def test_models_on_different_data_are_told_apart(result: RunResult) -> None:
    facts = result.subjects["net1"]
    other = replace(facts, samples={**facts.samples, "isun": 249})
    apart = join(replace(result, subjects={**result.subjects, "net1": other}))
    page = ParsedPage(render_joint(apart))
    (note,) = [text for text in page.texts if text.startswith("The models were judged on different data")]
    assert "net1: 4 classes, id_test 300, isun 249" in note
    assert [cell[0] for cell in page.tables["models-fpr95"][0]][1:] == [
        "average of 2 models", "rank", "net0", "net1", "vit",
    ]  # fmt: skip
    assert "best mean rank by FPR95" in page.texts


def test_notes_and_cautions_reach_the_page_and_the_document(result: RunResult) -> None:
    told = replace(result, notes=("ensemble: the samples have no ids",))
    cautions = [line for line in told.cautions if line.startswith(("net0, ORA", "net1, ORA"))]
    assert len(cautions) == 2, "ORA's maximum over four classes"
    page, document = ParsedPage(render_joint(told)), result_document(told)
    for line in (*told.notes, *cautions):
        assert f"Note: {line}" in page.texts
        assert f"- {escaped(line)}" in document.splitlines()


def test_force_and_choices_are_told_on_every_page_they_concern(result: RunResult, tmp_path: Path) -> None:
    chosen = replace(result.detectors["KNN"], chosen_on="chosen for net0 among 3 candidates")
    told = replace(
        result, doubts={"vit #1": "a foreign head."}, detectors={**result.detectors, "KNN": chosen}
    )
    pages = {
        path.stem: ParsedPage(path.read_text(encoding="utf-8")) for path in th.write_pages(told, tmp_path)
    }
    forced = {name for name, page in pages.items() if "measured by force: a foreign head." in page.texts}
    assert forced == {"report", "report-vit", "report-vit-1"}
    for page in pages.values():
        assert "KNN: chosen for net0 among 3 candidates." in page.texts


def test_the_published_average_and_accuracy_stand_beside_ours() -> None:
    from theodolite.benchmarks.cells import PublishedValue

    value = PublishedValue("38.34", "t", "Average", "ORA")
    cells = tuple(
        Cell(name, label, "average", "fpr95", 40.0 + place)
        for name in ("a", "b")
        for place, label in enumerate(("ORA", "MSP"))
    )
    accuracy = (PublishedValue("76.12", "near-ood", "a", "ID Acc (%)"),)
    facts = SubjectFacts(None, 3, 4, 75.5, {"id_test": 5, "far": 5}, {}, published_accuracy=accuracy)
    made = join(RunResult("t", "c", cells, {"a": facts, "b": facts}))
    assert made.joint is not None
    average = made.joint.averages[0]
    beside = replace(average, cells=tuple(replace(cell, published=(value,)) for cell in average.cells))
    page = ParsedPage(render_joint(replace(made, joint=replace(made.joint, averages=(beside,)))))
    assert page.tables["models-fpr95"][1][1] == ["<b>", "40.00", "38.34"]
    assert sum("ID accuracy 75.50 % (76.12 published)." in text for text in page.texts) == 2


def test_names_cannot_break_out_of_it(tmp_path: Path) -> None:
    hostile = "</script><script>alert(1)</script>\"'&{{ title }}"
    plain = make_result()
    names = ("made", hostile)
    cells = tuple(replace(cell, subject=name) for name in names for cell in plain.cells)
    facts = plain.subjects["made"]
    made = join(replace(plain, cells=cells, subjects=dict.fromkeys(names, facts), title=hostile))
    joint, *others = th.write_pages(made, tmp_path)
    page = ParsedPage(joint.read_text(encoding="utf-8"))
    assert page.tags.count("script") == 1
    assert page.tables["models-fpr95"][0][4] == [hostile]
    assert {name for name in page.references if name.endswith(".html")} == {path.name for path in others}


def test_a_result_that_is_not_joined_has_no_such_page(result: RunResult) -> None:
    with pytest.raises(InputError, match="are not joined"):
        render_joint(replace(result, joint=None))
    assert metric("fpr95").title in render_joint(RunResult.from_json(result.to_json()))
