"""Extraction as a process: killed, interrupted, on a full disk, with damaged files, and with much data."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch

from command_server import KILLED, Outcome, run
from theodolite.features.manifest import shard_name
from theodolite.features.store import FeatureStore

SAMPLES = 14_000
# A shard takes a third of a second.
SLOW = {"THEODOLITE_TEST_DELAY": "0.02"}


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Grey 8×8 noise with labels."""
    return write_images(tmp_path_factory.mktemp("data") / "images.npz", SAMPLES)


def write_images(path: Path, count: int) -> Path:
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, size=(count, 8, 8), dtype=np.uint8)
    np.savez(path, images=pixels, labels=rng.integers(0, 3, size=count))
    return path


@pytest.fixture(scope="module")
def complete(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed") / "store"
    assert extract(images, folder).code == 0
    return folder


@pytest.fixture(scope="module")
def undisturbed(complete: Path) -> dict[str, bytes]:
    return contents(complete)


def extract(images: Path, folder: Path, *more: str, **how: object) -> Outcome:
    command = (
        "extract",
        "--model",
        "python:small_models:Tiny?mean=0&size=8",
        "--data",
        images,
        "-o",
        folder,
        *more,
    )
    return run(*command, **how)  # type: ignore[arg-type]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_features_are_the_models_own(images: Path, tmp_path: Path) -> None:
    from small_models import Tiny

    assert extract(images, tmp_path / "s", "--limit", "100").code == 0
    store = FeatureStore(tmp_path / "s")
    chosen = [int(name.partition("#")[2]) for name in store.names()]
    with np.load(images) as file:
        pixels, labels = torch.from_numpy(file["images"][chosen]), file["labels"][chosen]
    model = Tiny()
    with torch.no_grad():
        expected = model.body(pixels[:, None].float() / 255)
    (batch,) = list(store)
    torch.testing.assert_close(batch[0], expected)
    assert batch[1] is not None
    assert batch[1].tolist() == labels.tolist()
    assert store.head is not None
    torch.testing.assert_close(store.head(batch[0]), model(pixels[:, None].float() / 255).detach())


def test_killed_ten_times_at_random_moments_it_resumes_to_the_same_bytes(
    images: Path, undisturbed: dict[str, bytes], tmp_path: Path
) -> None:
    """Four times after a shard more was written, six times soon after the start."""
    folder, rng, survived = tmp_path / "s", random.Random(4), 0
    for kill in range(10):
        more = folder / shard_name(survived) if kill % 3 == 0 else None
        assert extract(images, folder, env=SLOW, kill_after=rng.uniform(0, 0.3), once=more).code == KILLED
        survived = len(list(folder.glob("shard-*.safetensors")))
    assert 4 <= survived < len(undisturbed) - 2
    assert extract(images, tmp_path / "s").code == 0
    assert contents(tmp_path / "s") == undisturbed


def test_killed_between_any_two_flushes_it_resumes_to_the_same_bytes(images: Path, tmp_path: Path) -> None:
    """Head, digests, manifest and each shard flush a file and its folder: 1 to 14 are all, up to shard 1."""
    limit = ("--limit", "2000")
    assert extract(images, tmp_path / "whole", *limit).code == 0
    for flush in range(1, 15):
        folder = tmp_path / str(flush)
        assert extract(images, folder, *limit, kill_at_flush=flush).code == KILLED
        assert extract(images, folder, *limit).code == 0
        assert contents(folder) == contents(tmp_path / "whole")


def test_interrupted_it_says_how_to_go_on(
    images: Path, undisturbed: dict[str, bytes], tmp_path: Path
) -> None:
    first = tmp_path / "s" / shard_name(0)
    outcome = extract(images, tmp_path / "s", env=SLOW, interrupt_after=0.1, once=first)
    assert outcome.code == 130
    assert "Run the same command again" in outcome.err
    assert "Traceback" not in outcome.err
    resumed = extract(images, tmp_path / "s")
    assert resumed.code == 0
    assert "going on from" in resumed.out
    assert contents(tmp_path / "s") == undisturbed


def test_worker_processes_give_the_same_bytes(
    images: Path, undisturbed: dict[str, bytes], tmp_path: Path
) -> None:
    assert extract(images, tmp_path / "s", "--workers", "2").code == 0
    assert contents(tmp_path / "s") == undisturbed


def test_repair_extracts_a_damaged_shard_alone(
    images: Path, undisturbed: dict[str, bytes], tmp_path: Path
) -> None:
    assert extract(images, tmp_path / "s").code == 0
    damaged = tmp_path / "s" / shard_name(2)
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 4
    damaged.write_bytes(content)
    found = run("inspect", tmp_path / "s", "--verify")
    assert found.code == 2
    assert f"{shard_name(2)} is missing or damaged" in found.err
    refused = run("fit", "--data", tmp_path / "s", "-o", tmp_path / "guard.safetensors")
    assert refused.code == 2
    assert shard_name(2) in refused.err
    times = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "s").glob("shard-*")}
    assert extract(images, tmp_path / "s", "--repair").code == 0
    assert contents(tmp_path / "s") == undisturbed
    after = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "s").glob("shard-*")}
    assert [name for name in times if times[name] != after[name]] == [shard_name(2)]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_full_disk_is_said_clearly_and_loses_nothing(
    images: Path, undisturbed: dict[str, bytes], tmp_path: Path
) -> None:
    folder = tmp_path / "s"
    outcome = extract(images, folder, full_disk=shard_name(2))
    assert outcome.code == 2
    assert "No space left on device" in outcome.err
    assert "free some space" in outcome.err
    assert "Traceback" not in outcome.err
    kept = contents(folder)
    assert {name for name in kept if name.startswith("shard")} == {shard_name(0), shard_name(1)}
    assert all(kept[name] == undisturbed[name] for name in (shard_name(0), shard_name(1)))
    assert extract(images, folder).code == 0
    assert contents(folder) == undisturbed


def test_memory_stays_flat_as_the_data_grows_tenfold(tmp_path: Path) -> None:
    """512 features a sample: held in memory, 18,000 more samples would take 35 MiB."""
    peaks: dict[str, list[float]] = {"extract": [], "fit": [], "score": []}
    for count in (2_000, 20_000):
        images = write_images(tmp_path / f"{count}.npz", count)
        store, guard = tmp_path / f"store-{count}", tmp_path / f"{count}.safetensors"
        model = ("--model", "python:small_models:Wide?mean=0&size=8")
        steps = {
            "extract": run("extract", *model, "--data", images, "-o", store, "--batch-size", "256"),
            "fit": run("fit", "--data", store, "--force", "-o", guard),
            "score": run(
                "score", *model, guard, images, "-o", tmp_path / "scores.csv", "--batch-size", "256"
            ),
        }
        for name, outcome in steps.items():
            assert outcome.code == 0, outcome.err
            peaks[name].append(outcome.peak)
    for name, (small, large) in peaks.items():
        assert large - small < 20, f"{name}: {small:.0f} MiB for 2,000 samples, {large:.0f} MiB for 20,000"
