"""The folder of scores: there when all of it is, and with nothing in it but what was written to the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from made_guards import fitted
from theodolite import Running
from theodolite.core.errors import InputError, StorageError
from theodolite.report.ray_scores import replacing_folder, score_on_ray


def test_what_a_killed_worker_left_is_not_in_the_folder(tmp_path: Path) -> None:
    with replacing_folder(tmp_path / "scores.parquet") as folder:
        (folder / "part-000001.parquet").write_bytes(b"whole")
        (folder / "part-000001.parquet.00000a-77.partial").write_bytes(b"PAR1")
    assert [path.name for path in (tmp_path / "scores.parquet").iterdir()] == ["part-000001.parquet"]


def test_a_place_that_is_taken_is_an_error_of_ours_and_leaves_nothing(tmp_path: Path) -> None:
    output = tmp_path / "scores.parquet"
    with pytest.raises(StorageError, match=r"cannot become .*scores\.parquet"), replacing_folder(output):
        (output / "of someone else").mkdir(parents=True)
    assert [path.name for path in tmp_path.iterdir()] == ["scores.parquet"]
    (tmp_path / "link.parquet").symlink_to("nowhere")
    with pytest.raises(InputError, match="there already"), replacing_folder(tmp_path / "link.parquet"):
        pass


def test_scores_are_written_into_a_new_folder_of_parquet(tmp_path: Path) -> None:
    """Known before Ray is asked for anything."""
    guard = fitted(200)
    with pytest.raises(InputError, match=r"NAME\.parquet"):
        score_on_ray(guard, tmp_path, tmp_path / "scores.csv")
    (tmp_path / "scores.parquet").mkdir()
    with pytest.raises(InputError, match="there already"):
        score_on_ray(guard, tmp_path, tmp_path / "scores.parquet")
    with pytest.raises(InputError, match="the engine is local"):
        score_on_ray(guard, tmp_path, tmp_path / "other.parquet", running=Running())
