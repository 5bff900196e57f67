"""Processes that read pictures and die: one paragraph that says so, no traceback, nothing lost."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from command_server import Outcome, run
from theodolite.core.errors import WorkerError
from theodolite.data import Sample
from theodolite.features import ExtractionSettings, FeatureStore, Running, extract, fill_store
from theodolite.models import load_model

MODEL = "python:small_models:Tiny?mean=0&size=8"
DYING = "python:small_models:dying"
WORKERS = ExtractionSettings(shard_rows=16, running=Running(workers=1, batch_size=8))

# PyTorch opens files to see whether descriptors are left, and sockets to take over a batch; the signal of a
# child's death can strike in the middle of that and leave one to the collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")


@pytest.fixture(autouse=True)
def nothing_is_left_to_later_tests() -> Iterator[None]:
    yield
    gc.collect()


class Deadly:
    """Pictures of which one ends the process that reads it, as the kernel does when memory runs out."""

    class_names = None

    def __init__(self, fatal: int, kill: bool) -> None:
        self.fatal, self.kill, self.home = fatal, kill, os.getpid()

    def __len__(self) -> int:
        return 60

    def __getitem__(self, index: int) -> Sample:
        if index == self.fatal and os.getpid() != self.home:
            if self.kill:
                os.kill(os.getpid(), signal.SIGKILL)
            os._exit(9)
        return Sample(Image.fromarray(np.full((8, 8), index, dtype=np.uint8)), None, f"{index}.png")

    def listing(self) -> Iterator[str]:
        return (f"{index}.png\t-\t{index}" for index in range(60))


@pytest.mark.parametrize("kill", [True, False], ids=["SIGKILL", "exit"])
def test_a_killed_worker_is_one_error_of_ours(tmp_path: Path, kill: bool) -> None:
    """Also where it dies while it hands over a batch, as it does in some of the attempts."""
    loaded = load_model(MODEL)
    for attempt in range(6):
        store, source = tmp_path / str(attempt), Deadly(59 - attempt // 3, kill)
        with pytest.raises(WorkerError, match=r"a process that reads pictures has died.*--workers") as told:
            fill_store(loaded, source, store, settings=WORKERS)
        assert "\n" not in str(told.value)
        assert FeatureStore(store, incomplete_ok=True).shards < 4


def test_what_was_written_before_is_kept_and_gone_on_from(tmp_path: Path) -> None:
    loaded, source, store = load_model(MODEL), Deadly(59, True), tmp_path / "store"
    with pytest.raises(WorkerError):
        fill_store(loaded, source, store, settings=WORKERS)
    kept = FeatureStore(store, incomplete_ok=True).shards
    assert kept >= 1, "the last batch is read ahead of the third"
    alone = replace(WORKERS, running=Running(workers=0, batch_size=8))
    fill_store(loaded, source, store, settings=alone)
    fill_store(loaded, source, tmp_path / "whole", settings=alone)
    for path in (tmp_path / "whole").iterdir():
        assert path.read_bytes() == (store / path.name).read_bytes()


def test_an_error_within_a_worker_is_not_taken_for_its_death(tmp_path: Path) -> None:
    class Unreachable(Deadly):
        def __getitem__(self, index: int) -> Sample:
            raise ConnectionResetError("the server of the pictures is gone")

    with pytest.raises(ConnectionResetError, match="the server of the pictures is gone"):
        fill_store(load_model(MODEL), Unreachable(0, False), tmp_path / "store", settings=WORKERS)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 grey pictures, of which a white one ends the process that prepares it."""
    folder = tmp_path_factory.mktemp("pictures")
    pixels = np.random.default_rng(0).integers(0, 200, (60, 8, 8), dtype=np.uint8)
    np.save(folder / "calm.npy", pixels)
    pixels[33] = 255
    np.save(folder / "deadly.npy", pixels)
    np.save(folder / "other.npy", pixels[:33] // 2)
    return folder


def assert_told(outcome: Outcome) -> None:
    assert outcome.code == 2, outcome
    assert "Traceback" not in outcome.err
    assert outcome.err.startswith("error: a process that reads pictures has died")
    assert outcome.err.strip().count("\n") == 0
    assert "--workers" in outcome.err


def test_every_command_that_looks_at_pictures_says_it(pictures: Path, tmp_path: Path) -> None:
    cache = {"THEODOLITE_CACHE": str(tmp_path / "cache")}
    model, workers = ("--model", DYING), ("--workers", "1")
    deadly, guard = pictures / "deadly.npy", tmp_path / "guard.safetensors"
    assert_told(run("extract", *model, "--data", deadly, "-o", tmp_path / "store", *workers, env=cache))
    assert_told(run("fit", *model, "--data", deadly, "-o", guard, *workers, env=cache))
    own = ("--id", pictures / "other.npy", "--fit", deadly, "--ood", f"far={pictures / 'calm.npy'}")
    assert_told(run("bench", *model, *own, "--cache", tmp_path / "b", "-o", tmp_path / "r", *workers))
    extract(pictures / "calm.npy", DYING, output=tmp_path / "calm")
    fitted = run("fit", "--data", tmp_path / "calm", "--false-alarm-rate", "0.2", "-o", guard, env=cache)
    assert fitted.code == 0, fitted.err
    assert_told(run("score", guard, *model, deadly, *workers, "-o", tmp_path / "scores.csv"))
    assert not (tmp_path / "scores.csv").exists()
    scored = run("score", guard, *model, pictures / "calm.npy", *workers, "-o", tmp_path / "scores.csv")
    assert scored.code == 0, scored.err
