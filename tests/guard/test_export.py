"""Exported guards: every score as a graph, judged by onnxruntime alone, says what PyTorch says."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import theodolite as th
from score_graphs import Scores
from synthetic import Problem, make_problem
from theodolite.core.errors import ExportError, InputError, TheodoliteWarning
from theodolite.features.linear_probe import save_probe
from theodolite.guard import Guard, Verdicts
from theodolite.guard.export import export as export_module
from theodolite.guard.export import translations as translations_module
from theodolite.guard.export.export import recorded
from theodolite.guard.export.onnx_file import translated
from theodolite.guard.export.rows import made_rows, unrest

ort = pytest.importorskip("onnxruntime", reason="pip install 'theodolite[onnx]'")
pytest.importorskip("onnxscript", reason="pip install 'theodolite[onnx]'")
pytestmark = pytest.mark.usefixtures("operators_once", "few_waves")

# Every shaping, on scores that are short formulas.
SHAPED = [
    "energy+react:80",
    "fdbd?metric=mahalanobis+ash-s:90",
    "energy+ash-b:65",
    "msp+ash-p:60",
    "mds+scale:85",
    "energy+vra:60,90",
    "energy+vra-at:0.5,1",
    "msp+vra-clip:10,90",
    "mds+vra-clip-units:1,99",
    "energy+ras",
    "corp?components=64+vra",
]
VARIANTS = [
    "ora?centre=predicted",
    "ora?metric=mahalanobis&aggregate=mean",
    "knn?half_bank=true",
    "nnguide?half_bank=true",
    "csi?half_bank=true",
]
EVERY, GRAPHS = [*th.list_detectors(), *SHAPED, *VARIANTS], 6
GUARDS = ["relative-energy", "ora+react:80", "knn", "msp"]
PROGRAMS = ["ora+react:80", "knn"]
ONE_RANK = 1.0


@pytest.fixture(scope="module")
def problem() -> Problem:
    return make_problem(rows=600, width=24)


def fit(spec: str, problem: Problem, **more: Any) -> Guard:
    return Guard.fit(problem.train, problem.labels, head=problem.head, detector=spec, **more)


def session_of(path: Path) -> Any:
    options = ort.SessionOptions()
    options.log_severity_level = 3
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def assert_same(found: Verdicts, guard: Guard, rows: Tensor, rate: float | None = None) -> None:
    right = guard.verdicts(rows.numpy(), false_alarm_rate=rate)
    scores, expected = np.asarray(found.score), np.asarray(right.score)
    usual = np.median(np.abs(guard.calibration.scores))
    assert np.all(np.abs(scores - expected) <= 1e-5 * np.maximum(np.abs(expected), usual))
    np.testing.assert_array_equal(found.predicted, right.predicted)
    np.testing.assert_array_equal(found.is_ood, right.is_ood)
    moved = np.abs(np.asarray(found.p_value) - np.asarray(right.p_value)) * (len(guard.calibration) + 1)
    assert moved.max() < (ONE_RANK + 0.1 if guard.detector.record.name != "msp" else 5)


@pytest.mark.parametrize("part", range(GRAPHS))
def test_every_score_in_onnxruntime(part: int, problem: Problem) -> None:
    """The scores alone, on ordinary rows and on those at the edge: what a guard adds is the same for all."""
    specs = EVERY[part::GRAPHS]
    guards = [fit(spec, problem) for spec in specs]
    program = recorded(Scores(guards), (problem.test[:2],), (0,))
    graph = translated(program, ("features", *(f"score {place}" for place in range(len(specs)))), ("rows",))
    session = ort.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    for place, (spec, guard) in enumerate(zip(specs, guards, strict=True)):
        for name, rows in (*made_rows(guard).items(), ("real", problem.test), ("one", problem.ood[:1])):
            (found,) = session.run([f"score {place}"], {"features": rows.numpy()})
            assert_same_scores(found, guard, rows, (spec, name))


def assert_same_scores(found: Any, guard: Guard, rows: Tensor, case: tuple[str, str]) -> None:
    """Where a step in the last digit of a made row moves its score by more, it may differ by that."""
    whole = torch.isfinite(rows).all(dim=1).numpy()
    right = guard.detector.score(rows[whole]).numpy()
    assert np.isnan(found[~whole]).all(), case
    with np.errstate(invalid="ignore"):
        apart = np.where(found[whole] == right, 0, np.abs(found[whole] - right))
    far = ~(apart <= 1e-5 * np.maximum(np.abs(right), np.median(np.abs(guard.calibration.scores))))
    if far.any():
        assert case[1] not in ("real", "one"), case
        assert (apart[far] <= 16 * unrest(guard, rows[whole][far])).all(), case


@pytest.mark.parametrize("spec", GUARDS)
def test_guards_in_onnxruntime(spec: str, problem: Problem, tmp_path: Path) -> None:
    guard = fit(spec, problem)
    done = guard.export(tmp_path / "guard.onnx", check=problem.test)
    session = session_of(tmp_path / "guard.onnx")
    assert [output.name for output in session.get_outputs()] == ["logits", *Verdicts._fields]
    for rows in (problem.test, problem.ood, problem.ood[:1]):
        logits, *columns = session.run(None, {"features": rows.numpy()})
        assert_same(Verdicts(*columns), guard, rows)
        np.testing.assert_allclose(logits, problem.head(rows).numpy(), rtol=1e-4, atol=1e-4)
    _, *columns = session.run(None, {"features": problem.ood.numpy(), "false_alarm_rate": np.array(0.3)})
    assert_same(Verdicts(*columns), guard, problem.ood, 0.3)
    assert {one.inputs for one in done.record.compared} >= {"random", "far out", "nearly degenerate", "real"}


def test_words_against_class_names_in_onnxruntime(problem: Problem, tmp_path: Path) -> None:
    """NegLabel, on a cosine head: 40 words are four groups, and the file of words is needed no more."""
    drawn = torch.randn(40, problem.head.width, generator=torch.Generator().manual_seed(5))
    save_probe(th.Head.cosine(drawn), tmp_path / "words.safetensors")
    head, asked = (
        th.Head.cosine(problem.head.weight),
        th.create("neglabel", negatives=tmp_path / "words.safetensors", group_words=9, share=1.0),
    )
    guard = Guard.fit(problem.train, head=head, detector=asked)
    assert len(guard.detector.get_buffer("groups")) == 4
    (tmp_path / "words.safetensors").unlink()
    guard.export(tmp_path / "guard.onnx", check=problem.test)
    session = session_of(tmp_path / "guard.onnx")
    for rows in (problem.test, problem.ood, 1e-3 * problem.ood[:1]):
        logits, *columns = session.run(None, {"features": rows.numpy()})
        assert_same(Verdicts(*columns), guard, rows)
        np.testing.assert_allclose(logits, head(rows).numpy(), atol=1e-5)


@pytest.mark.parametrize("spec", PROGRAMS)
def test_some_as_programs(spec: str, problem: Problem, tmp_path: Path) -> None:
    guard = fit(spec, problem)
    guard.export(tmp_path / "guard.pt2", check=problem.test)
    loaded = th.load_exported(tmp_path / "guard.pt2", trust=True)
    for rows in (problem.test, problem.ood, problem.ood[:1]):
        assert_same(loaded.verdicts(rows.numpy()), guard, rows)
    assert_same(loaded.verdicts(problem.ood.numpy(), false_alarm_rate=0.3), guard, problem.ood, 0.3)


def test_a_calibration_by_class(problem: Problem, tmp_path: Path) -> None:
    known, new, labels = problem.train[:300], problem.train[300:], problem.labels[:300]
    guard = Guard.fit(known, labels, head=problem.head, detector="maxlogit", calibration=new, per_class=30)
    guard.export(tmp_path / "guard.onnx")
    loaded = th.load_exported(tmp_path / "guard.onnx")
    assert_same(loaded.verdicts(problem.ood.numpy()), guard, problem.ood)
    assert_same(loaded.verdicts(problem.test.numpy(), false_alarm_rate=0.1), guard, problem.test, 0.1)
    assert loaded.calibration.smallest_p_value == guard.calibration.smallest_p_value
    with pytest.raises(InputError, match="cannot support"):
        loaded.verdicts(problem.ood.numpy(), false_alarm_rate=0.01)


def test_a_guard_without_a_head(problem: Problem, tmp_path: Path) -> None:
    guard = Guard.fit(problem.train, problem.labels, detector="mds")
    guard.export(tmp_path / "guard.onnx")
    session = session_of(tmp_path / "guard.onnx")
    assert [output.name for output in session.get_outputs()] == list(Verdicts._fields)
    found = th.load_exported(tmp_path / "guard.onnx").verdicts(problem.ood.numpy())
    assert set(np.asarray(found.predicted).tolist()) == {-1}
    assert_same(found, guard, problem.ood)


def test_rows_and_rates_that_have_no_answer(problem: Problem, tmp_path: Path) -> None:
    """A graph cannot raise: it flags rows without a score, and everything at a rate it cannot promise."""
    guard = fit("ora", problem)
    guard.export(tmp_path / "guard.onnx")
    session, rows = session_of(tmp_path / "guard.onnx"), problem.test.numpy().copy()
    rows[1, 2], rows[4, 0], rows[6, 1] = np.nan, np.inf, -np.inf
    _, predicted, score, p_value, is_ood = session.run(None, {"features": rows})
    lost = [1, 4, 6]
    assert is_ood[lost].all()
    assert (predicted[lost] == -1).all()
    assert np.isnan(score[lost]).all()
    assert np.isnan(p_value[lost]).all()
    others = [row for row in range(len(rows)) if row not in lost]
    assert_same(Verdicts(*(column[others] for column in (predicted, score, p_value, is_ood))), guard,
                problem.test[others])  # fmt: skip
    smallest = 1 / (len(guard.calibration) + 1)
    for rate, promised in (
        (smallest, True),
        (0.99 * smallest, False),
        (0.0, False),
        (np.nan, False),
        (1, False),
    ):
        given = {"features": problem.test.numpy(), "false_alarm_rate": np.array(rate, dtype=np.float64)}
        (flagged,) = session.run(["is_ood"], given)
        assert flagged.all() != promised


def test_a_graph_that_differs_is_not_written(
    problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(translations_module, "_TERMS", 1)  # an arctangent of three digits
    with pytest.raises(
        ExportError, match=r"differs from PyTorch in the score .*row \d+.*Nothing was written"
    ):
        fit("ora", problem).export(tmp_path / "guard.onnx")
    assert list(tmp_path.iterdir()) == []


def test_a_calibration_that_differs_is_not_written(
    problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scores are right, and p-values are not: the search counts one score too many."""
    right = translations_module.translations

    def wrong() -> dict[Any, Any]:
        from onnxscript import opset18 as op

        table = right()
        key = torch.ops.aten.searchsorted.Tensor
        search = table[key]
        table[key] = lambda *given, **named: op.Add(search(*given, **named), op.Constant(value_int=1))
        return table

    monkeypatch.setattr("theodolite.guard.export.onnx_file.translations", wrong)
    with pytest.raises(ExportError, match="in a p-value of its own score"):
        fit("mds", problem).export(tmp_path / "guard.onnx")


def test_a_bank_that_is_too_large(problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_module, "BANK_ENTRIES", 24 * 100)
    with pytest.raises(ExportError, match="takes at most 100"):
        fit("knn", problem).export(tmp_path / "guard.onnx")


def test_a_bank_that_is_searched_approximately(problem: Problem, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TheodoliteWarning)
        guard = fit("knn?recall=0.9", problem)
    for name in ("guard.onnx", "guard.pt2"):
        with pytest.raises(InputError, match="fit KNN with recall=1"):
            guard.export(tmp_path / name)


def test_what_cannot_be_asked_for(problem: Problem, tmp_path: Path) -> None:
    guard = fit("msp", problem)
    with pytest.raises(InputError, match=r"must end in \.onnx or \.pt2"):
        guard.export(tmp_path / "guard.tflite")
    with pytest.raises(InputError, match="preprocessing is of pictures"):
        guard.export(tmp_path / "guard.onnx", with_preprocessing=True)
    with pytest.raises(InputError, match="does not know its model"):
        guard.export(tmp_path / "guard.onnx", takes="images")
    with pytest.raises(InputError, match="takes features or images"):
        guard.export(tmp_path / "guard.onnx", takes="sound")
    with pytest.raises(InputError, match="width 3"):
        guard.export(tmp_path / "guard.onnx", check=np.zeros((4, 3), dtype=np.float32))
    assert list(tmp_path.iterdir()) == []
