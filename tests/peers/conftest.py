"""Checks against other libraries: `make test-peers`. They are not even imported with the core tests."""

from __future__ import annotations

import pytest


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    return True if "not peers" in config.getoption("markexpr") else None
