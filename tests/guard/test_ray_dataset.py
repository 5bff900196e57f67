"""Blocks and batches of a Ray dataset, without Ray: what is empty, what is left over, what has no label."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from theodolite.core.errors import InputError, UnreadableImageError
from theodolite.features.checked import checked_capture
from theodolite.features.ray_extract import SentModel
from theodolite.features.ray_told import Folders, untold
from theodolite.features.settings import Running
from theodolite.guard import ray_dataset
from theodolite.guard.part_source import PartSource
from theodolite.guard.ray_batches import BatchSource, DatasetColumns
from theodolite.models import load_model
from theodolite.reference.seen import Seen

TINY = "python:small_models:Tiny?mean=0&size=8"
COLUMNS = DatasetColumns("image", "label", "id")


def grouped(*sizes: int | None) -> list[list[int]]:
    """The numbers of blocks of such sizes, in groups of at least 10 rows."""
    blocks = SimpleNamespace(
        block_refs=[*range(len(sizes))], metadata=[SimpleNamespace(num_rows=rows) for rows in sizes]
    )
    found: Any = SimpleNamespace(iter_internal_ref_bundles=lambda: iter([blocks]))
    return [*ray_dataset._grouped(found)]


def test_blocks_without_rows_are_left_out_and_a_small_rest_joins_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ray_dataset, "_ROWS", 10)
    assert grouped(4, 0, 6, 0, 10, 3, 7) == [[0, 2], [4], [5, 6]]
    assert grouped(10, 10, 1) == [[0], [1, 2]]
    assert grouped(0, 1, 0) == [[1]]
    assert grouped(None, 10, 3) == [[0, 1, 2]], "of one whose size is not known it is known later"
    with pytest.raises(InputError, match="the dataset is empty"):
        grouped(0, 0)


def test_datasets_are_told_apart_by_their_samples() -> None:
    def source(*ids: int) -> PartSource:
        seen = Seen()
        seen.add(torch.tensor(ids))
        return PartSource((ray_dataset._lot(seen),), labelled=True)

    assert source(1, 2, 3).lots == source(3, 1, 2).lots
    assert len((source(1, 2, 3) + source(4, 5)).lots) == 2
    with pytest.raises(InputError, match="there twice"):
        source(1, 2, 3) + source(2, 3, 1)


def batch(labels: Any) -> dict[str, Any]:
    kept = io.BytesIO()
    Image.fromarray(np.zeros((8, 8), np.uint8)).save(kept, "png")
    pictures = np.array([kept.getvalue()] * len(labels), dtype=object)
    return {"image": pictures, "label": labels, "id": np.array([f"row-{n}" for n in range(len(labels))])}


@pytest.mark.parametrize(
    "labels", [np.array([0.0, 1.0, np.nan]), np.array([0, 1, None], object), np.array([0, 1, -1])]
)
def test_the_row_without_a_label_is_the_one_that_is_named(labels: Any) -> None:
    with pytest.raises(InputError, match="row-2 of the dataset has no label"):
        [*map(BatchSource(batch(labels), COLUMNS).__getitem__, range(3))]


def test_rows_of_a_batch_are_samples() -> None:
    source = BatchSource(batch(np.array([2, 0])), COLUMNS)
    assert [(source[row].id, source[row].label) for row in range(2)] == [("row-0", 2), ("row-1", 0)]
    assert len({*source.contents.values()}) == 1, "the same picture"


def test_a_dataset_leaves_no_picture_out_unnamed() -> None:
    """Known before Ray is asked for anything."""
    with pytest.raises(InputError, match="filter the dataset before"):
        ray_dataset.collect_dataset(object(), TINY, running=Running(engine="ray", skip_unreadable=True))


def test_a_picture_that_cannot_be_read_is_named_by_the_part() -> None:
    """The error travels in a column, and is raised as it was."""
    loaded = load_model(TINY)
    capture = checked_capture(loaded, None, torch.device("cpu"))
    sent = SentModel.of(loaded, capture, None, Running(channels_last=False, engine="ray"))
    given = batch(np.array([0, 1, 2]))
    given["image"][1] = b"no picture"
    made = ray_dataset._Featuring(Folders.here(), sent, COLUMNS, torch.get_num_threads())(given)
    told = untold(made["error"][0]).raised()
    assert isinstance(told, UnreadableImageError)
    assert told.path == "row-1"
