"""The pages of a run: one a model, each a view of the result that computes nothing."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest

from made_folders import make_folder
from report_parser import ParsedPage
from sample_report import make_result
from theodolite.benchmarks.feature_folder import from_folder
from theodolite.benchmarks.runner import Highlight, run
from theodolite.core.errors import StorageError
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
            rows = found.tables[metric.name][1:]
            for (label, cells), row in zip(table.rows, rows, strict=True):
                assert row[0] == [label]
                assert [cell[-1] for cell in row[1:]] == [cell.text for cell in cells]
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
