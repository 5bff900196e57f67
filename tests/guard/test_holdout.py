"""Calibration data that would break the promise is refused."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, SubsetRandomSampler

from made_guards import clusters, head
from small_models import Tiny
from theodolite import KNN
from theodolite.core.errors import InputError, TheodoliteWarning
from theodolite.features import Capture, extract
from theodolite.features.manifest import Recipe, listing_digest
from theodolite.features.store import FeatureStore, StoreParts
from theodolite.features.writer import Rows, StoreWriter
from theodolite.guard import Guard, fit_guard


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


FITTED_ON = "rows to calibrate on are fitted on as well"


def test_rows_that_are_fitted_on_are_recognised_by_their_numbers(tmp_path: Path) -> None:
    """In another order, precision or container, and among others: the same rows are the same rows."""
    features, labels = clusters(1_000, 0)
    half, fresh = features.half(), clusters(300, 1)[0]
    for calibration in (
        features.clone(),
        features[torch.randperm(1_000)][:200],
        features.double().numpy()[::-1],
        [features[:50], features[50:100]],
        torch.cat([fresh, features[:20]]),
    ):
        with pytest.raises(InputError, match=FITTED_ON):
            Guard.fit(features, labels, head=head(), calibration=calibration)
    with pytest.raises(InputError, match=f"100 of 100 {FITTED_ON}"):
        Guard.fit([(half, labels)], head=head(), calibration=half[:100].float())
    np.save(tmp_path / "train.npy", features.numpy())
    np.save(tmp_path / "val.npy", features[:200].numpy())
    with pytest.raises(InputError, match=f"200 of 200 {FITTED_ON}"):
        fit_guard(tmp_path / "train.npy", calibration=tmp_path / "val.npy", detector="knn")
    store = write_store(tmp_path / "store", 400)
    with pytest.raises(InputError, match=f"100 of 100 {FITTED_ON}"):
        Guard.fit(store, head=store.head, calibration=clusters(400, 0)[0][:100])
    bank = KNN(k=1, store=store.path)
    with pytest.raises(InputError, match=f"100 of 100 {FITTED_ON}"):
        Guard.fit(fresh, head=head(), detector=bank, calibration=clusters(400, 0)[0][:100])


def test_rows_that_are_equal_by_chance_are_not_fitted_on() -> None:
    """A few samples twice, and features of few values, of which any two samples share rows."""
    features, fresh = clusters(1_000, 0)[0], clusters(1_000, 1)[0]
    Guard.fit(features, head=head(), calibration=torch.cat([fresh, features[:10]]))
    generator = torch.Generator().manual_seed(0)
    leaves = torch.randn(600, 16, generator=generator)
    for seed in range(20):
        rows = torch.randint(600, (700,), generator=generator.manual_seed(seed))
        known, new = leaves[rows[:500]], leaves[rows[500:]]
        assert torch.isin(rows[500:], rows[:500]).float().mean() > 0.4
        Guard.fit(known, detector="mds", labels=rows[:500] % 4, calibration=new)
        with pytest.raises(InputError, match=FITTED_ON):
            Guard.fit(known, detector="mds", labels=rows[:500] % 4, calibration=known[:200])


def test_a_loader_does_not_calibrate_what_it_fits() -> None:
    """Nor do two loaders of one data set; two that choose among its samples may be of different ones."""
    images = torch.rand(200, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    data = torch.utils.data.TensorDataset(images)
    capture = Capture(Tiny())

    def fitted(train: DataLoader[Any], val: DataLoader[Any]) -> Guard:
        return Guard.fit(
            capture.over(train), head=capture.head, calibration=capture.over(val), detector="energy"
        )

    capture(images[:2])
    loader = DataLoader(data, batch_size=50)
    others = (loader, DataLoader(data, batch_size=20), DataLoader(data, shuffle=True))
    for other in others:
        with pytest.raises(InputError, match="the calibration data is the data to fit on"):
            fitted(loader, other)
    first, second = (SubsetRandomSampler(range(start, start + 100)) for start in (0, 100))
    apart = fitted(DataLoader(data, sampler=first), DataLoader(data, sampler=second))
    parts = torch.utils.data.random_split(data, [100, 100])
    split = fitted(DataLoader(parts[0]), DataLoader(parts[1]))
    assert len(apart.calibration) == len(split.calibration) == 100


MODEL = "python:small_models:Tiny?mean=0&size=8"


@pytest.fixture
def pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """200 pictures to fit on, and 100 others."""
    monkeypatch.setenv("THEODOLITE_CACHE", str(tmp_path / "cache"))
    pixels = np.random.default_rng(0).integers(0, 256, (300, 8, 8), dtype=np.uint8)
    for index, image in enumerate(pixels):
        place = tmp_path / ("train" if index < 200 else "val")
        place.mkdir(exist_ok=True)
        Image.fromarray(image).save(place / f"{index}.png")
    np.save(tmp_path / "train.npy", pixels[:200])
    np.save(tmp_path / "val.npy", pixels[200:])
    return tmp_path


def test_pictures_that_are_fitted_on_are_recognised_by_their_content(pictures: Path) -> None:
    """Under other names, in other folders and files, in stores made before, and named by a list."""
    (pictures / "copies").mkdir()
    for index in range(100):
        shutil.copy(pictures / "train" / f"{index}.png", pictures / "copies" / f"copy-{index}.png")
    (pictures / "list.txt").write_text("".join(f"train/{index}.png\n" for index in range(50)))
    shutil.copy(pictures / "train.npy", pictures / "renamed.npy")
    for train, val in (("train", "copies"), ("train", "list.txt"), ("train.npy", "renamed.npy")):
        with pytest.raises(InputError, match="samples to calibrate on are fitted on as well"):
            fit_guard(pictures / train, MODEL, calibration=pictures / val, detector="energy")
        stores = [extract(pictures / name, MODEL, output=pictures / f"store-{name}") for name in (train, val)]
        with pytest.raises(InputError, match="samples to calibrate on are fitted on as well"):
            fit_guard(stores[0].path, calibration=stores[1].path, detector="energy")
        shutil.rmtree(stores[0].path)
    for train, val in (("train", "val"), ("train.npy", "val.npy")):
        fitted = fit_guard(pictures / train, MODEL, calibration=pictures / val, detector="energy")
        assert len(fitted.guard.calibration) == 100


def test_one_picture_in_a_hundred_is_said_and_no_more(pictures: Path) -> None:
    shutil.copy(pictures / "train" / "7.png", pictures / "val" / "200.png")
    with pytest.warns(TheodoliteWarning, match="1 of 100 samples to calibrate on are fitted on as well"):
        fit_guard(pictures / "train", MODEL, calibration=pictures / "val", detector="energy")
    shutil.copy(pictures / "train" / "8.png", pictures / "val" / "201.png")
    with pytest.raises(InputError, match="2 of 100 samples"):
        fit_guard(pictures / "train", MODEL, calibration=pictures / "val", detector="energy")


def test_a_folder_within_the_other_is_refused_before_any_picture_is_read(pictures: Path) -> None:
    inner = pictures / "train" / "held-out"
    inner.mkdir()
    shutil.copy(pictures / "val" / "200.png", inner)
    for one, other in ((pictures / "train", inner), (inner, pictures / "train")):
        with pytest.raises(InputError, match="lie one within the other"):
            fit_guard(one, "timm:no-such-model", calibration=other)
