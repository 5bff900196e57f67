"""Calibration data that would break the promise is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from made_guards import clusters, head
from theodolite import KNN
from theodolite.core.errors import InputError
from theodolite.features.manifest import Recipe, listing_digest
from theodolite.features.store import FeatureStore, StoreParts
from theodolite.features.writer import Rows, StoreWriter
from theodolite.guard import Guard


def write_store(folder: Path, count: int) -> FeatureStore:
    features, labels = clusters(count, 0)
    names = [f"{index}.png" for index in range(count)]
    recipe = Recipe(
        model="python:toy:make",
        weights="a" * 64,
        preprocess="plain",
        layer="fc",
        data=listing_digest(names),
        samples=count,
    )
    writer = StoreWriter.open(folder, recipe, head(), source="toy", shard_rows=count)
    writer.write(0, Rows(features=[features], labels=labels.tolist(), names=names, skipped=[]))
    return FeatureStore(folder)


def test_a_bank_on_disk_cannot_be_calibrated_on_itself(tmp_path: Path) -> None:
    store = write_store(tmp_path / "store", 400)
    with pytest.raises(InputError, match="pass calibration= features of other samples"):
        Guard.fit(store, head=store.head, detector=KNN(k=1, store=store.path))
    with pytest.raises(InputError, match="the calibration data is the data to fit on"):
        Guard.fit(store, head=store.head, detector=KNN(k=1, store=store.path), calibration=store)
    with pytest.raises(InputError, match="pass calibration= features of other samples"):
        Guard.fit(fresh := clusters(9, 9)[0], head=head(), detector=KNN(store=store.path), calibration=store)
    with pytest.raises(InputError, match="the calibration data is the data to fit on"):
        Guard.fit(fresh, head=head(), calibration=fresh)
    fresh = clusters(400, 9)[0]
    guard = Guard.fit(store, head=store.head, detector=KNN(k=1, store=store.path), calibration=fresh)
    flagged = torch.as_tensor(guard.verdicts(clusters(4_000, 10)[0]).is_ood)
    assert float(flagged.double().mean()) < 0.05 + 3 * np.sqrt(0.05 * 0.95 * (1 / 400 + 1 / 4_000))


def test_a_loader_that_shuffles_cannot_be_split() -> None:
    features, labels = clusters(400, 0)
    data = torch.utils.data.TensorDataset(features, labels)
    shuffled = torch.utils.data.DataLoader(data, batch_size=50, shuffle=True)
    with pytest.raises(InputError, match="the loader shuffles"):
        Guard.fit(shuffled, head=head())
    guard = Guard.fit(shuffled, head=head(), calibration=clusters(100, 1)[0])
    assert len(guard.calibration) == 100


def test_parts_are_named_once_and_never_calibrate_themselves(tmp_path: Path) -> None:
    store = write_store(tmp_path / "store", 100)
    with pytest.raises(InputError, match="two parts hold the same features"):
        StoreParts([store, store])
    other = write_store(tmp_path / "other", 90)
    with pytest.raises(InputError, match="the calibration data is the data to fit on"):
        Guard.fit(StoreParts([store, other]), head=store.head, calibration=other)
