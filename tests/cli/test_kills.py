"""A command killed at any moment leaves whole files: the old ones, the new ones, or none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_server import KILLED, Outcome, run
from made_folders import make_folder
from made_guards import clusters, head
from made_stores import store_of
from theodolite.benchmarks import RunResult
from theodolite.guard import Guard


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    features, labels = clusters(600, 0)
    return store_of(tmp_path_factory.mktemp("data") / "store", features, labels, head()).path


def fit(store: Path, guard: Path, detector: str, **how: object) -> Outcome:
    return run("fit", "--data", store, "--detector", detector, "-o", guard, **how)  # type: ignore[arg-type]


def test_a_guard_is_the_old_one_or_the_new_one(store: Path, tmp_path: Path) -> None:
    """At every flush to disk and between them, where a guard is there already and where none is."""
    versions = {}
    for detector in ("ora", "knn"):
        assert fit(store, tmp_path / f"{detector}.st", detector).code == 0
        versions[detector] = (tmp_path / f"{detector}.st").read_bytes()
    (tmp_path / "out").mkdir()
    fresh, guard = tmp_path / "out" / "fresh.st", tmp_path / "out" / "guard.st"
    guard.write_bytes(versions["ora"])
    moments: list[dict[str, object]] = [{"kill_at_flush": flush} for flush in (1, 2)]
    moments += [{"kill_after": 0.1 * 2**step} for step in range(2)]
    ended = 0
    for moment in moments:
        for path in (fresh, guard):
            ended += fit(store, path, "knn", **moment).code == KILLED
            content = path.read_bytes() if path.exists() else None
            assert content in (versions["knn"], versions["ora"] if path == guard else None)
            if content is not None:
                assert len(Guard.load(path).calibration) > 100
        fresh.unlink(missing_ok=True)
        guard.write_bytes(versions["ora"])
    assert ended >= 4
    assert fit(store, guard, "knn").code == 0
    assert guard.read_bytes() == versions["knn"]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["guard.st"], "what was begun is swept up"


def test_results_are_the_old_ones_or_the_new_ones(tmp_path: Path) -> None:
    folder, out = make_folder(tmp_path / "features"), tmp_path / "out"

    def bench(detector: str, **how: object) -> int:
        place = ("-o", out, "--cache", tmp_path / "cache")
        return run("bench", f"features:{folder}", "--detector", detector, *place, **how).code  # type: ignore[arg-type]

    written = {}
    for detector in ("msp", "energy", "msp", "energy"):  # the second time from kept scores, in no seconds
        assert bench(detector) == 0
        written[detector] = {path.name: path.read_bytes() for path in out.iterdir()}
    assert written["msp"].keys() == written["energy"].keys() >= {"results.json", "report.html"}
    # Each of the files of results flushes itself and its folder: the first, one between, the last.
    for flush in (1, len(written["msp"]), 2 * len(written["msp"]) - 1):
        assert bench("msp", kill_at_flush=flush) == KILLED
        for name in written["msp"]:
            assert (out / name).read_bytes() in (written["msp"][name], written["energy"][name]), name
        RunResult.from_json(json.loads((out / "results.json").read_text(encoding="utf-8")))
    assert bench("msp") == 0
    assert {path.name: path.read_bytes() for path in out.iterdir()} == written["msp"]
