"""A thread that records a graph changes nothing for the others: they go on refusing what cannot be scored."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor, nn

import made_guards
from theodolite.core.errors import InputError
from theodolite.core.graphs import exporting, recording
from theodolite.guard import Guard, Verdicts

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")

PATIENCE = 60  # seconds, after which a test fails rather than hangs


class Pause:
    """A place in the middle of a recording: it says when it is reached, and waits until it may go on."""

    def __init__(self) -> None:
        self.reached, self.go_on = threading.Event(), threading.Event()
        self.seen: tuple[bool, bool] | None = None

    def here(self) -> bool:
        self.reached.set()
        assert self.go_on.wait(PATIENCE)
        return True


class Paused(nn.Module):
    """A guard that stops before its verdicts when Python itself runs it, as a trace and an export do."""

    def __init__(self, guard: Guard, pause: Pause) -> None:
        super().__init__()
        self.guard, self.pause = guard, pause

    def forward(self, rows: Tensor) -> Verdicts:
        self.pause.seen = recording(), exporting()
        self.pause.here()
        verdicts: Verdicts = self.guard(rows)
        return verdicts


def trace(guard: Guard, rows: Tensor, pause: Pause) -> object:
    graph: object = torch.jit.trace(Paused(guard, pause), rows, check_trace=False)  # type: ignore[no-untyped-call]
    assert pause.seen is not None
    assert pause.seen[0]
    return graph


def export(guard: Guard, rows: Tensor, pause: Pause) -> object:
    program = torch.export.export(Paused(guard, pause), (rows,), strict=False)
    assert pause.seen == (True, True)
    return program


def export_by_bytecode(guard: Guard, rows: Tensor, pause: Pause) -> object:
    @torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
    def while_it_reads() -> bool:
        return pause.here()

    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.guard = guard

        def forward(self, rows: Tensor) -> Verdicts:
            while_it_reads()
            verdicts: Verdicts = self.guard(rows)
            return verdicts

    return torch.export.export(Reader(), (rows,), strict=True)


def compile_(guard: Guard, rows: Tensor, pause: Pause) -> object:
    def backend(graph: torch.fx.GraphModule, _: list[Tensor]) -> Callable[..., object]:
        pause.here()
        return graph.forward

    torch._dynamo.reset()
    return torch.compile(guard, fullgraph=True, backend=backend)(rows)


WAYS = [trace, export, export_by_bytecode, compile_]


@pytest.fixture(scope="module")
def guard() -> Guard:
    return made_guards.fitted(400)


@contextmanager
def in_the_middle(way: Callable[[Guard, Tensor, Pause], object], guard: Guard) -> Iterator[None]:
    """While another thread is at the pause of its recording, which must then come to a good end."""
    pause = Pause()
    with ThreadPoolExecutor(1) as thread:
        # A copy: PyTorch puts stand-ins in the place of a module's tensors while it exports it.
        end = thread.submit(way, copy.deepcopy(guard), made_guards.clusters(40, 1)[0], pause)
        try:
            while not pause.reached.wait(0.05):
                if end.done():
                    end.result()
                    pytest.fail("the recording ended without a pause")
            yield
        finally:
            pause.go_on.set()
        end.result(PATIENCE)


@pytest.mark.parametrize("way", WAYS)
def test_a_thread_beside_a_recording_refuses_as_ever(
    way: Callable[[Guard, Tensor, Pause], object], guard: Guard
) -> None:
    rows = made_guards.clusters(40, 2)[0]
    spoilt = rows.clone()
    spoilt[3, 2] = torch.nan
    expected = guard.verdicts(rows)
    with in_the_middle(way, guard):
        assert not recording()
        assert not exporting()
        with pytest.raises(InputError, match="row 3"):
            guard.verdicts(spoilt)
        with pytest.raises(InputError, match="row 3"):
            guard.detector.score(spoilt)
        with pytest.raises(InputError, match="row 3"):
            guard(spoilt)
        with pytest.raises(InputError, match="logits have 7 rows, but features have 40"):
            guard.detector.score(rows, torch.zeros(7, made_guards.CLASSES))
        for judge in (guard, guard.verdicts):
            for column, right in zip(judge(rows), expected, strict=True):
                assert torch.equal(torch.as_tensor(column), torch.as_tensor(right))


def test_nothing_is_recorded_by_itself() -> None:
    assert not recording()
    assert not exporting()
