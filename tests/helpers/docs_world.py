"""Where the pages of the docs happen: the files they speak of, names of a reader's things, and tiny models in
the places of large ones.

Everything is made data. Whoever adds a page finds here what its blocks can use, and adds what is missing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor, nn

import theodolite as th
from small_models import Tiny
from theodolite.data import formats
from theodolite.detectors import _registry
from theodolite.features import save_probe
from theodolite.models import registry

SIDE, CLASSES = 8, ("cat", "dog", "sea lion")
TINY = f"python:small_models:Tiny?mean=0&size={SIDE}"
# Sources whose models are of the size of the real ones, and their options.
LARGE = ("timm", "torchvision", "lite")
_OPTIONS = ("size", "crop", "mean", "std", "num_classes", "pretrained")
# A module of the reader's own, with a model and what goes before it.
_MODULE = """
import torch
from small_models import Tiny


def preprocess(image):
    return torch.tensor([*image.convert("L").resize((8, 8)).tobytes()]).reshape(1, 8, 8) / 255


def factory():
    return Tiny().eval(), preprocess
"""
Names = dict[str, Any]


def _tiny(request: registry.Request) -> th.LoadedModel:
    loaded = th.load_model(TINY)
    request.fill(loaded.model)
    return replace(loaded, spec=request.spec, class_names=CLASSES)


@contextmanager
def stood_in() -> Iterator[None]:
    """Models of large sources are `small_models.Tiny` within, and what pages register is forgotten."""
    with pytest.MonkeyPatch.context() as patch:
        for home, table in (
            (registry, "_sources"),
            (formats, "_formats"),
            (_registry, "_records"),
            (_registry, "_by_spelling"),
        ):
            patch.setattr(home, table, dict(getattr(home, table)))
        for prefix in LARGE:
            registry._sources[prefix] = registry.Source(prefix, _tiny, _OPTIONS, lambda _: True)
        yield


def images(count: int, seed: int) -> Tensor:
    """Grey noise, (N, 1, 8, 8)."""
    return torch.rand(count, 1, SIDE, SIDE, generator=torch.Generator().manual_seed(seed))


def make_world(folder: Path) -> None:
    """The files that pages speak of, below ``folder``; it is the current one."""
    capture = th.Capture(Tiny())
    for place, count, seed in (("train", 240, 0), ("val", 120, 1), ("new", 24, 2)):
        _write_pictures(folder / "pictures" / place, count, seed, classes=place != "new")
        features, logits = capture(images(count, seed))
        np.save(folder / f"{place}.npy", features.numpy())
        np.savez(folder / f"{place}.npz", features=features.numpy(), labels=logits.argmax(1).numpy())
    for link, place in (("train", "train"), ("val", "val"), ("new", "new"), ("pictures/today", "new")):
        (folder / link).symlink_to(folder / "pictures" / place)
    for name in ("photo.jpg", "cell.png", "a.jpg", "b.jpg", "cat.jpg", "dog.jpg"):
        _write_picture(folder / name, images(1, len(name))[0])
    save_probe(capture.head, folder / "head.safetensors")
    (folder / "names.txt").write_text("\n".join(CLASSES), encoding="utf-8")
    for name in ("mine.pt", "model.pt"):
        torch.save(Tiny().state_dict(), folder / name)
    (folder / "my_module.py").write_text(_MODULE, encoding="utf-8")
    np.save(folder / "fog.npy", np.random.default_rng(0).normal(size=(200, 12)).astype("float32"))
    _write_texts(folder)
    _write_features(folder)


def _write_texts(folder: Path) -> None:
    for name in ("train.jsonl", "val.jsonl"):
        rows = [{"text": f"say word {number}", "label": "talk"} for number in range(8)]
        (folder / name).write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")


def _write_features(folder: Path) -> None:
    """Stores of the pictures, guards of them, and feature folders."""
    for place in ("train", "val", "test"):
        th.extract(
            folder / "pictures" / ("val" if place == "test" else place), "lite0", output=f"features/{place}"
        )
    np.save("features.npy", np.load("train.npy"))
    for name, detector in (
        ("guard", None),
        ("guard-a", "ora"),
        ("guard-b", "mds"),
        ("a", "ora"),
        ("b", "mds"),
    ):
        fitted = th.fit_guard("features/train", calibration="features/val", detector=detector)
        fitted.guard.save(f"{name}.safetensors")
    for name, seed in (("FOLDER", 0), ("vit", 1), ("seed0", 2), ("seed1", 3), ("features/resnet18", 0)):
        _write_folder(Path(name), seed)
    th.extract("FOLDER/textures.safetensors", head="FOLDER/head.safetensors", output="fog-features")
    Path("parts").mkdir()


def _write_folder(folder: Path, seed: int) -> None:
    """A feature folder: four classes around their weights, and two OOD sets around the origin."""
    rng = torch.Generator().manual_seed(seed)
    folder.mkdir(parents=True)
    weight = torch.randn(4, 12, generator=rng)
    save_file({"weight": weight, "bias": torch.zeros(4)}, folder / "head.safetensors")
    for name, count in (("id_fit", 800), ("id_test", 120)):
        labels = torch.arange(count) % 4
        features = 2 * weight[labels] + torch.randn(count, 12, generator=rng)
        save_file({"features": features, "labels": labels}, folder / f"{name}.safetensors")
    for name, scale in (("svhn", 1.2), ("textures", 2.4)):
        features = scale * torch.randn(80, 12, generator=rng)
        save_file({"features": features}, folder / f"{name}.safetensors")


def _write_pictures(folder: Path, count: int, seed: int, *, classes: bool) -> None:
    """Named as the tiny model names them, so that it is the classifier of this data."""
    rows = images(count, seed)
    with torch.no_grad():
        answers = Tiny()((rows * 255).round() / 255).argmax(dim=1).tolist()
    for name in CLASSES if classes else ():
        (folder / name).mkdir(parents=True, exist_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    for number, (row, answer) in enumerate(zip(rows, answers, strict=True)):
        _write_picture((folder / CLASSES[answer] if classes else folder) / f"{number:03}.png", row)


def _write_picture(path: Path, row: Tensor) -> None:
    Image.fromarray((row[0] * 255).round().to(torch.uint8).numpy()).save(path)


def common_names() -> Names:
    """A reader's own model, pictures, features and loaders, by the names that pages give them."""
    model = Tiny().eval()
    capture = th.Capture(model)
    train, val, new = images(240, 0), images(120, 1), images(24, 2)
    (train_features, logits), (val_features, _), (new_features, _) = map(capture, (train, val, new))
    labels = logits.argmax(dim=1)
    picture = Image.fromarray((new[0, 0] * 255).round().to(torch.uint8).numpy())
    return {
        "np": np,
        "th": th,
        "torch": torch,
        "nn": nn,
        "Path": Path,
        "json": json,
        "folder": Path("results"),
        "model": model,
        "head": capture.head,
        "images": new,
        "picture": picture,
        "preprocess": _prepared,
        "train_features": train_features,
        "val_features": val_features,
        "new_features": new_features,
        "features": train_features,
        "train_labels": labels,
        "labels": labels,
        "ids": torch.arange(len(labels)),
        "train_loader": [*zip(torch.split(train, 60), torch.split(labels, 60), strict=True)],
        "val_loader": [*torch.split(val, 60)],
        "detector": th.ORA().fit(train_features, head=capture.head),
    }


def _prepared(image: Image.Image) -> Tensor:
    grey = image.convert("L").resize((SIDE, SIDE)).tobytes()
    return torch.tensor([*grey]).reshape(1, SIDE, SIDE) / 255
