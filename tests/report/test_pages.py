"""The pages of a run: one a model, each a view of the result that computes nothing."""

from __future__ import annotations

import errno
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from made_folders import make_folder
from report_parser import ParsedPage
from sample_report import make_result
from theodolite.benchmarks import join
from theodolite.benchmarks.feature_folder import from_folder
from theodolite.benchmarks.runner import Highlight, run
from theodolite.core.errors import InputError, StorageError
from theodolite.detectors import Detector
from theodolite.detectors.spec import parse_specs
from theodolite.evaluation import Curve, list_metrics
from theodolite.report.page import write_pages
from theodolite.report.page.write import file_names
from theodolite.report.tables import metric_table


def test_a_run_of_several_models_and_their_ensemble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subjects = [from_folder(make_folder(tmp_path / name)) for name in ("one", "two")]
    result = run(
        subjects,
        parse_specs(["msp", "ora"]),
        title="Two",
        command="both",
        ensemble=True,
        highlight=Highlight(),
    )

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a page computes nothing")

    monkeypatch.setattr(Curve, "of", refuse)
    monkeypatch.setattr(Detector, "fit", refuse)
    monkeypatch.setattr(Detector, "score", refuse)
    paths = write_pages(result, tmp_path / "new" / "pages")
    assert len(result.subject_names) == 3
    assert len(paths) == 3
    assert sorted((tmp_path / "new" / "pages").iterdir()) == sorted(paths)
    for subject, path in zip(result.subject_names, paths, strict=True):
        found = ParsedPage(path.read_text(encoding="utf-8"))
        assert f"Two: {subject}" in found.texts
        for metric in list_metrics():
            table = metric_table(result, subject, metric)
            head, *rows = found.tables[metric.name]
            shown = [cell[0] for cell in head[1:]]
            assert shown == ["average", *table.header[1:-1]]
            for (label, cells), row in zip(table.rows, rows, strict=True):
                assert row[0] == [label]
                by_column = dict(zip(table.header[1:], cells, strict=True))
                assert [cell[-1] for cell in row[1:]] == [by_column[column].text for column in shown]
        assert [entry["name"] for entry in found.scores["detectors"]] == ["MSP", "ORA"]
        is_ensemble = subject not in result.subjects
        assert ("Most suspicious ID" in found.texts) is not is_ensemble
        assert (subjects[0].digests["head"] in found.texts) is not is_ensemble
    assert result.subject_names[-1] not in result.subjects


def test_a_page_of_one_model_is_called_report(tmp_path: Path) -> None:
    result = make_result()
    (path,) = write_pages(result, tmp_path, id_name="made ID", summary=["Of my own."], provenance={"k": "v"})
    assert path == tmp_path / "report.html"
    texts = ParsedPage(path.read_text(encoding="utf-8")).texts
    assert {"A small run", "made ID", "Of my own.", "k", "v"} <= set(texts)
    before = path.read_bytes()
    write_pages(replace(result, highlight="fine"), tmp_path)
    after = path.read_text(encoding="utf-8")
    assert after.encode() != before
    assert "<option selected>fine</option>" in after
    assert "and yet fine scores them lowest" in after


def test_a_page_is_replaced_by_a_whole_one_or_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full at the very end, when all bytes are written and none is safe."""
    (path,) = write_pages(make_result(), tmp_path)
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(StorageError, match=r"cannot write .*report\.html.*free some space"):
            write_pages(replace(make_result(), highlight="fine"), tmp_path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    write_pages(replace(make_result(), highlight="fine"), tmp_path)
    assert path.read_bytes() != before


def test_pages_of_an_earlier_run_go_and_what_people_keep_stays(tmp_path: Path) -> None:
    one = make_result()
    (facts,) = one.subjects.values()
    cells = tuple(replace(cell, subject=name) for name in ("a", "b") for cell in one.cells)
    two = join(replace(one, cells=cells, subjects={"a": facts, "b": facts}))
    written = {path.name for path in write_pages(two, tmp_path)}
    assert written == {"report.html", "report-a.html", "report-b.html"}
    # A page that somebody kept under another name, one of their own, one that cannot be read.
    kept = tmp_path / "report-kept.html"
    kept.write_bytes((tmp_path / "report-a.html").read_bytes())
    (tmp_path / "report-mine.html").write_text("<p>mine</p>")
    (tmp_path / "report-folder.html").mkdir()
    others = {"report-kept.html", "report-mine.html", "report-folder.html"}
    write_pages(replace(two, highlight="fine"), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == written | others
    write_pages(one, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"report.html"} | others
    assert ParsedPage((tmp_path / "report.html").read_text(encoding="utf-8")).tables["fpr95"]


def test_rows_are_in_the_order_asked_for_and_the_heading_says_so(tmp_path: Path) -> None:
    result = make_result()
    (path,) = write_pages(result, tmp_path, sort="average")
    text = path.read_text(encoding="utf-8")
    for metric in list_metrics():
        rows = ParsedPage(text).tables[metric.name][1:]
        values = [float(next(part for part in row[1] if part[0] != "<")) for row in rows]
        assert values == sorted(values, reverse=not metric.lower_is_better)
        order = "ascending" if metric.lower_is_better else "descending"
        part = text.split(f'id="table-{metric.name}"')[1].split("</thead>")[0]
        assert re.findall(r'aria-sort="(\w+)"', part) == ["none", order, "none", "none"]
        assert "Select a heading to sort." in part
    (plain,) = write_pages(result, tmp_path)
    heads = re.findall(r'<th [^>]*aria-sort="(\w+)"', plain.read_text(encoding="utf-8"))
    assert set(heads) == {"none"}
    with pytest.raises(InputError, match="did you mean 'average'"):
        write_pages(result, tmp_path, sort="avrage")


def test_models_that_are_spelt_alike_have_files_of_their_own() -> None:
    cell = make_result().cells[0]

    def names(*subjects: str) -> list[str]:
        cells = tuple(replace(cell, subject=subject) for subject in subjects)
        return file_names(replace(make_result(), subjects={}, cells=cells))

    assert names("a:b", "a b", "c", "a/b") == [
        "report-a-b.html",
        "report-a-b-2.html",
        "report-c.html",
        "report-a-b-3.html",
    ]
    assert names("a:b", "a b", "a-b-2") == ["report-a-b.html", "report-a-b-2.html", "report-a-b-2-2.html"]
    # Not every file system tells them apart.
    assert names("ViT", "vit") == ["report-ViT.html", "report-vit-2.html"]
    assert names("only") == ["report.html"]


def test_a_model_without_any_score_has_no_page_but_is_counted() -> None:
    result = make_result()
    (facts,) = result.subjects.values()
    assert file_names(replace(result, subjects={**result.subjects, "refused": facts})) == ["report-made.html"]
