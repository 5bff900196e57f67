"""A guard that PyTorch records as a graph has everything inside: the same verdicts on any other batch."""

from __future__ import annotations

import io
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.jit import TracerWarning  # type: ignore[attr-defined]

import theodolite as th
from made_stores import store_of
from score_graphs import Scores
from synthetic import Problem, make_problem
from theodolite.core.errors import InputError
from theodolite.guard import Guard, Verdicts

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning"),
    pytest.mark.usefixtures("few_waves"),
]

Graph = Callable[[Tensor], tuple[Tensor, ...]]

SCORES = ["ora", "relative-energy", "msp", "knn", "mds", "ora+react:80"]
OTHERS = [
    *(name for name in th.list_detectors() if name not in SCORES),
    "ora?metric=mahalanobis",
    "ora?centre=predicted",
    "ora?centre=target",
    "ora?centre=sum-classes",
    "ora?aggregate=mean",
    "fdbd?metric=mahalanobis+ash-s:90",
    "energy+ash-b:65",
    "maxlogit+ash-p:60",
    "knn+scale:85",
    "ora+vra",
    "energy+vra-at",
    "cop+vra-clip",
    "energy+vra-clip-units",
    "energy+ras",
]
GRAPHS = 6


@pytest.fixture(scope="module")
def problem() -> Problem:
    return make_problem(rows=1_200)


@pytest.fixture(scope="module", params=SCORES)
def guard(request: pytest.FixtureRequest, problem: Problem) -> Guard:
    return fit(request.param, problem)


def trace(module: nn.Module, rows: Tensor) -> Graph:
    graph: Graph = torch.jit.trace(module, rows)  # type: ignore[no-untyped-call]
    return graph


def fit(spec: str, problem: Problem) -> Guard:
    return Guard.fit(problem.train, problem.labels, head=problem.head, detector=spec)


def traced(module: nn.Module, rows: Tensor) -> Graph:
    """Nothing is frozen: PyTorch warns of every value that a trace would keep from its first batch."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", TracerWarning)
        return trace(module, rows)


def program_of(module: nn.Module, rows: Tensor, *, strict: bool = False) -> torch.export.ExportedProgram:
    sizes = ({0: torch.export.Dim("rows")},)
    return torch.export.export(module, (rows,), dynamic_shapes=sizes, strict=strict)


def exported(module: nn.Module, rows: Tensor, *, strict: bool = False) -> Graph:
    graph: Graph = program_of(module, rows, strict=strict).module()
    return graph


def compiled(guard: Guard, backend: str = "aot_eager") -> Graph:
    torch._dynamo.reset()
    graph: Graph = torch.compile(guard, fullgraph=True, dynamic=True, backend=backend)
    return graph


def batches(problem: Problem) -> list[Tensor]:
    """Of the size that a graph was recorded on, and of others; ID and OOD, and numbers at the edge."""
    huge = problem.test.clone()
    huge[3] *= 1e25
    huge[5] = 0
    return [problem.test, problem.ood, problem.ood[:37], problem.test[:1], huge, mixed(problem)]


def mixed(problem: Problem) -> Tensor:
    """More rows than one tile of a search."""
    return torch.cat([problem.test, problem.ood] * 8)


def assert_same(graph: Graph, guard: Guard, problem: Problem) -> None:
    for rows in batches(problem):
        expected = guard.verdicts(rows)
        for name, column, right in zip(Verdicts._fields, graph(rows), expected, strict=True):
            assert torch.equal(column, torch.as_tensor(right)), (name, len(rows))
    assert float(torch.as_tensor(guard.verdicts(problem.ood).is_ood).double().mean()) > 0.2
    assert_flags(graph, guard, problem.test)


def spoilt_rows(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Rows of which some are no numbers any more, and which of them still are."""
    spoilt = rows.clone()
    spoilt[2, 1], spoilt[7, 0], spoilt[9, 4] = torch.nan, torch.inf, -torch.inf
    return spoilt, torch.isfinite(spoilt).all(dim=1)


def assert_flags(graph: Graph, guard: Guard, rows: Tensor) -> None:
    """A graph cannot refuse a row: it says that it is unscorable, and judges the others as if alone."""
    spoilt, whole = spoilt_rows(rows)
    said = Verdicts(*graph(spoilt))
    alone = guard.verdicts(rows)
    for column, right in zip(said, alone, strict=True):
        assert torch.equal(torch.as_tensor(column)[whole], torch.as_tensor(right)[whole])
    assert torch.equal(torch.as_tensor(said.unscorable), ~whole)
    assert bool(torch.as_tensor(said.is_ood)[~whole].all())
    assert bool(torch.isnan(torch.as_tensor(said.score)[~whole]).all())


def test_a_traced_guard(guard: Guard, problem: Problem, tmp_path: Path) -> None:
    """As it was recorded, and from a file."""
    graph = traced(guard, problem.test)
    assert_same(graph, guard, problem)
    torch.jit.save(graph, tmp_path / "guard.pt")
    assert_same(torch.jit.load(tmp_path / "guard.pt"), guard, problem)  # type: ignore[no-untyped-call]


def test_an_exported_guard(guard: Guard, problem: Problem) -> None:
    """As it was recorded, and from a file."""
    program, stored = program_of(guard, problem.test), io.BytesIO()
    assert_same(program.module(), guard, problem)
    torch.export.save(program, stored)
    assert_same(torch.export.load(stored).module(), guard, problem)


@pytest.mark.parametrize("guard", ["relative-energy", "knn", "ora+react:80"], indirect=True)
def test_a_compiled_guard(guard: Guard, problem: Problem) -> None:
    graph = compiled(guard)
    assert isinstance(graph(problem.test), Verdicts)
    for rows in (problem.test, problem.ood, problem.ood[:37]):
        for column, right in zip(graph(rows), guard.verdicts(rows), strict=True):
            assert torch.equal(column, torch.as_tensor(right))
    assert_flags(graph, guard, problem.test)


@pytest.mark.parametrize("part", range(GRAPHS))
def test_every_other_score(part: int, problem: Problem) -> None:
    specs = OTHERS[part::GRAPHS]
    judged = Scores(fit(spec, problem) for spec in specs)
    before = [detector.score(problem.ood) for detector in judged.scores]
    spoilt, whole = spoilt_rows(problem.test)
    for graph in (traced(judged, problem.test), exported(judged, problem.test)):
        for rows in batches(problem):
            for spec, found, detector in zip(specs, graph(rows), judged.scores, strict=True):
                assert torch.equal(found, detector.score(rows)), (spec, len(rows))
        for spec, found, detector in zip(specs, graph(spoilt), judged.scores, strict=True):
            assert torch.equal(found[whole], detector.score(problem.test)[whole]), spec
            assert bool(torch.isnan(found[~whole]).all()), spec
    for spec, then, detector in zip(specs, before, judged.scores, strict=True):
        assert torch.equal(detector.score(problem.ood), then), f"recording left a trace in {spec}"


def test_an_export_by_bytecode(problem: Problem) -> None:
    guard = fit("ora+react:80", problem)
    assert_same(exported(guard, problem.test, strict=True), guard, problem)


@pytest.mark.skipif(shutil.which("g++") is None, reason="Inductor needs a C++ compiler")
@pytest.mark.filterwarnings("ignore")
def test_fused_kernels_round_in_their_own_way_but_flag_the_same(problem: Problem) -> None:
    guard = fit("energy", problem)
    graph = compiled(guard, "inductor")
    for rows in (problem.test, problem.ood, problem.ood[:37]):
        predicted, score, _, is_ood = graph(rows)
        expected = guard.verdicts(rows)
        torch.testing.assert_close(score, torch.as_tensor(expected.score), rtol=1e-5, atol=1e-6)
        assert torch.equal(is_ood, torch.as_tensor(expected.is_ood))
        assert torch.equal(predicted, torch.as_tensor(expected.predicted))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions(dtype: torch.dtype, problem: Problem) -> None:
    guard, rows = fit("ora", problem), problem.test.to(dtype)
    for graph in (traced(guard, rows), exported(guard, rows)):
        for column, right in zip(graph(rows[:50]), guard.verdicts(rows[:50]), strict=True):
            assert torch.equal(column, torch.as_tensor(right))


def test_a_rate_set_later_is_in_the_graph(problem: Problem) -> None:
    guard = fit("msp", problem)
    guard.false_alarm_rate = 0.2
    flagged = exported(guard, problem.test)(problem.ood)[3]
    assert torch.equal(flagged, torch.as_tensor(guard.verdicts(problem.ood, false_alarm_rate=0.2).is_ood))
    assert guard.false_alarm_rate == 0.2
    with pytest.raises(InputError, match="at least 9999 are needed"):
        guard.false_alarm_rate = 1e-4
    assert guard.false_alarm_rate == 0.2


def test_what_cannot_be_recorded_is_refused(problem: Problem, tmp_path: Path) -> None:
    guard = fit("ora", problem)
    images = torch.rand(4, 3, 8, 8)
    with pytest.raises(InputError, match=r"traced, exported or compiled on features \(N, 48\)"):
        trace(guard, images)
    with pytest.raises(InputError, match="record its model by itself"):
        torch.export.export(guard, (images,))
    with pytest.raises(InputError, match="width 3"):
        torch.export.export(guard, (torch.rand(4, 3),))
    store = store_of(tmp_path / "store", problem.train, problem.labels, problem.head)
    stored = Guard.fit(store, head=problem.head, detector=th.KNN(store=store.path), calibration=problem.test)
    stored.verdicts(problem.ood)
    with pytest.raises(InputError, match="a feature store on disk, which a graph cannot read"):
        torch.export.export(stored, (problem.test,))
