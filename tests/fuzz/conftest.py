"""The number of cases that were run, group by group, at the end of `make fuzz`; workers tell theirs."""

from __future__ import annotations

from typing import Any

import pytest

from fuzzing import LONG, TALLY, tally_lines


def pytest_sessionfinish(session: pytest.Session) -> None:
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["fuzz"] = [[*key, cases] for key, cases in TALLY.items()]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    for group, kind, end, cases in getattr(node, "workeroutput", {}).get("fuzz", []):
        TALLY[group, kind, end] += cases


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if TALLY:
        terminalreporter.section(f"fuzz, {'long' if LONG else 'bounded'} profile")
        for line in tally_lines():
            terminalreporter.line(line)
