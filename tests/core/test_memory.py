"""Memory that is freed stays while it is asked for, in whatever order that ends, and goes back afterwards."""

from __future__ import annotations

import ctypes

import pytest

from theodolite.core import memory


class Library:
    """What glibc is told."""

    def __init__(self) -> None:
        self.told: list[tuple[int, ...]] = []

    def mallopt(self, *given: int) -> int:
        self.told.append(given)
        return 1

    def malloc_trim(self, pad: int) -> int:
        self.told.append((pad,))
        return 1


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    made = Library()
    monkeypatch.setattr(memory, "_glibc", lambda: made)
    for name in (*memory._OWN, "GLIBC_TUNABLES"):
        monkeypatch.delenv(name, raising=False)
    return made


def test_the_last_one_to_leave_gives_it_back(library: Library) -> None:
    first, second = memory.kept(), memory.kept()
    with first:
        said = list(library.told)
        second.__enter__()
        assert library.told == said == [*memory._KEEP.items()]
    assert library.told == said
    second.__exit__(None, None, None)
    assert library.told == [*said, *memory._AS_USUAL.items(), (0,)]


@pytest.mark.parametrize(
    ("name", "value"), [("MALLOC_MMAP_MAX_", "9"), ("GLIBC_TUNABLES", "glibc.malloc.trim_threshold=1")]
)
def test_settings_of_the_environment_stay(
    name: str, value: str, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with memory.kept():
        pass
    assert library.told == []


def test_the_real_library_takes_it_or_there_is_none() -> None:
    memory._glibc.cache_clear()
    with memory.kept():
        assert memory._glibc() is None or isinstance(memory._glibc(), ctypes.CDLL)
