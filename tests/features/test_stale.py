"""Pictures that change after their features were kept: noticed by the file system, or by reading them all."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from command_server import Outcome, run
from theodolite.core.errors import InputError
from theodolite.data import digests
from theodolite.features import ExtractionSettings, FeatureStore, extract

MODEL = "python:small_models:Tiny?mean=0&size=8"
# Stored without compression each is 21,168 bytes: more than what is always read, and all of one size.
SIDE, SMALL = 145, 2**14
PICTURES = 60


def draw(path: Path, seed: int, *, keep_time: bool = False) -> None:
    """A grey bitmap of noise, in place of the one that is there; its dates may be set back."""
    before = path.stat() if path.exists() else None
    pixels = np.random.default_rng(seed).integers(0, 256, (SIDE, SIDE), dtype=np.uint8)
    with path.open("r+b" if before else "wb") as file:
        Image.fromarray(pixels).save(file, format="BMP")
    if keep_time and before is not None:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def folder_of(place: Path, first: int, count: int = PICTURES) -> Path:
    """Pictures in three classes."""
    for index in range(count):
        (place / "abc"[index % 3]).mkdir(parents=True, exist_ok=True)
        draw(place / "abc"[index % 3] / f"{index:02d}.bmp", first + index)
    return place


def paths_of(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.bmp"))


def redraw(folder: Path, first: int) -> None:
    for index, path in enumerate(paths_of(folder)):
        draw(path, first + index, keep_time=True)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("THEODOLITE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(digests, "_SETTLED", 0.0)
    return folder_of(tmp_path / "pictures", 0)


def rows(store: FeatureStore) -> torch.Tensor:
    return torch.cat([features for features, _, _ in store])


def fresh(folder: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> torch.Tensor:
    """The features of the pictures as they are now, by someone who knows nothing."""
    with monkeypatch.context() as other:
        other.setenv("THEODOLITE_CACHE", str(place / "empty-cache"))
        return rows(extract(folder, MODEL, output=place / f"fresh-{time.monotonic_ns()}"))


def test_sixty_pictures_changed_in_place_get_new_features(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Same names, same size, and the date of the last change set back: the file system still shows it."""
    first = extract(folder, MODEL)
    sizes = {path.stat().st_size for path in paths_of(folder)}
    assert len(sizes) == 1
    assert sizes.pop() > SMALL
    dates = [path.stat().st_mtime_ns for path in paths_of(folder)]
    redraw(folder, 1_000)
    assert [path.stat().st_mtime_ns for path in paths_of(folder)] == dates
    second = extract(folder, MODEL)
    assert second.path != first.path
    torch.testing.assert_close(rows(second), fresh(folder, tmp_path, monkeypatch))
    assert float((rows(first) - rows(second)).abs().amax(dim=1).min()) > 1e-3, "every row is another"


@pytest.mark.parametrize("where", [0, SIDE * SIDE // 3, -1])
def test_one_byte_of_one_picture_is_enough(folder: Path, where: int) -> None:
    """Wherever it is: at the edges of what 0.1.0 looked at, or between them."""
    before = extract(folder, MODEL)
    path = paths_of(folder)[17]
    content = bytearray(path.read_bytes())
    place = 1_100 + where if where >= 0 else where
    content[place] ^= 255
    path.write_bytes(content)
    after = extract(folder, MODEL)
    assert after.path != before.path
    changed = (rows(before) != rows(after)).any(dim=1).nonzero().flatten().tolist()
    assert set(changed) <= {17}


def test_a_file_that_nothing_happened_to_is_not_read_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    real = digests._content

    def counting(file: digests._File, known: str | None) -> str:
        read.extend([file.path.name] if known is None else [])
        return real(file, known)

    monkeypatch.setattr(digests, "_content", counting)
    first = extract(folder, MODEL)
    assert len(read) == PICTURES
    read.clear()
    assert extract(folder, MODEL).path == first.path
    assert read == []
    paths_of(folder)[5].touch()
    assert extract(folder, MODEL).path == first.path, "touched, but the same picture"
    assert read == [paths_of(folder)[5].name]
    read.clear()
    assert extract(folder, MODEL, settings=ExtractionSettings(verify=True)).path == first.path
    assert len(read) == PICTURES


def test_a_file_that_has_just_changed_is_not_yet_trusted(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock of a file system may be too coarse to tell two changes apart."""
    monkeypatch.setattr(digests, "_SETTLED", 3_600.0)
    extract(folder, MODEL)
    assert not (folder.parent / "cache" / digests.FILE).exists()


def deceive(folder: Path) -> None:
    """Make the digests that are kept stand for the files as they are now, though they are of others.

    So it is after a change that left no trace in size, dates and number: a restored disk image, a clock that
    was set back.
    """
    with sqlite3.connect(folder.parent / "cache" / digests.FILE) as database:
        for path in paths_of(folder):
            seen = digests._File.at(path)
            changed = database.execute("update files set state = ? where path = ?", (seen.state, seen.key))
            assert changed.rowcount == 1


def test_verify_reads_what_the_file_system_does_not_show(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = extract(folder, MODEL)
    redraw(folder, 2_000)
    deceive(folder)
    assert extract(folder, MODEL).path == first.path, "no date shows it"
    seen = extract(folder, MODEL, settings=ExtractionSettings(verify=True))
    assert seen.path != first.path
    torch.testing.assert_close(rows(seen), fresh(folder, tmp_path, monkeypatch))
    assert extract(folder, MODEL).path == seen.path, "what was read is known from then on"


def test_a_store_at_a_place_of_its_own_is_never_taken_for_changed_pictures(
    folder: Path, tmp_path: Path
) -> None:
    extract(folder, MODEL, output=tmp_path / "store")
    draw(paths_of(folder)[0], 9)
    with pytest.raises(InputError, match=r"holds other features: data .*Pictures were added, removed or ch"):
        extract(folder, MODEL, output=tmp_path / "store")
    paths_of(folder)[0].unlink()
    with pytest.raises(InputError, match="holds other features"):
        extract(folder, MODEL, output=tmp_path / "store")


def test_damaged_digests_cost_time_and_nothing_else(folder: Path) -> None:
    first = extract(folder, MODEL)
    kept = folder.parent / "cache" / digests.FILE
    for content in (b"no database at all" * 100, kept.read_bytes()[:5_000]):
        kept.write_bytes(content)
        assert extract(folder, MODEL).path == first.path
    draw(paths_of(folder)[3], 77)
    assert extract(folder, MODEL).path != first.path


# ---------------------------------------------------------------------- the commands


def command(name: str, folder: Path, out: Path, *more: str) -> Outcome:
    cache = {"THEODOLITE_CACHE": str(folder.parent / "cache")}
    args: dict[str, tuple[str | Path, ...]] = {
        "extract": ("--data", folder, "-o", out / "store"),
        "fit": (
            *("--data", folder, "--calibration-data", folder.parent / "test"),
            *("-o", out / "guard.safetensors", "--detector", "knn?k=3", "--force"),
        ),
        "bench": (
            *("--id", folder.parent / "test", "--fit", folder, "--ood", f"far={folder.parent / 'far'}"),
            *("--detector", "energy", "-o", out, "--force"),
        ),
    }
    return run(name, "--model", MODEL, *args[name], "--workers", "0", *more, env=cache)


def answer(name: str, out: Path) -> str:
    """What a command has written that depends on the features of the folder."""
    if name == "fit":
        return hashlib.sha256((out / "guard.safetensors").read_bytes()).hexdigest()
    if name == "bench":
        return str(json.loads((out / "results.json").read_text())["models"][MODEL]["digests"]["id_fit"])
    return FeatureStore(out / "store").key


@pytest.mark.parametrize("name", ["extract", "fit", "bench"])
def test_no_command_takes_old_features_for_changed_pictures(name: str, folder: Path, tmp_path: Path) -> None:
    """A change that leaves no trace is seen with --verify, any other without it as well.

    `fit` looks at the changed pictures; `extract` and `bench`, whose folders have fixed names, refuse.
    """
    for place, first in (("test", 300), ("far", 400)):
        folder_of(tmp_path / place, first, 30)
    (tmp_path / "out").mkdir()
    done = command(name, folder, tmp_path / "out")
    assert done.code == 0, done.err
    known = answer(name, tmp_path / "out")
    extract(folder, MODEL)  # here the pictures count as settled, so their digests are kept
    redraw(folder, 3_000)
    deceive(folder)
    assert command(name, folder, tmp_path / "out").code == 0
    assert answer(name, tmp_path / "out") == known
    known = assert_noticed(name, command(name, folder, tmp_path / "out", "--verify"), tmp_path / "out", known)
    redraw(folder, 4_000)
    assert_noticed(name, command(name, folder, tmp_path / "out"), tmp_path / "out", known)


def assert_noticed(name: str, outcome: Outcome, out: Path, known: str) -> str:
    if name == "fit":
        assert outcome.code == 0, outcome.err
        assert answer(name, out) != known
    else:
        assert outcome.code == 2, outcome
        assert "holds other features" in outcome.err
        assert "Traceback" not in outcome.err
        assert answer(name, out) == known
    return answer(name, out)
