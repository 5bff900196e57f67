"""Feature folders of made data, as `theodolite bench features:FOLDER` takes them."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

WIDTH, CLASSES = 12, 4


def make_folder(folder: Path, *, seed: int = 0, about: dict[str, str] | None = None) -> Path:
    """Features around four class means, which are the class weights, and OOD sets around the origin."""
    rng = torch.Generator().manual_seed(seed)
    folder.mkdir(parents=True)
    weight = torch.randn(CLASSES, WIDTH, generator=rng)
    save_file({"weight": weight, "bias": torch.zeros(CLASSES)}, folder / "head.safetensors")
    for name, count in (("id_fit", 1500), ("id_test", 300)):
        labels = torch.arange(count) % CLASSES
        noise = torch.randn(count, WIDTH, generator=rng)
        features = (2 * weight[labels] + noise).half()
        save_file({"features": features, "labels": labels.short()}, folder / f"{name}.safetensors")
    for name, scale in (("svhn", 1.2), ("isun", 1.6), ("places365", 2.0), ("textures", 2.4)):
        features = scale * torch.randn(250, WIDTH, generator=rng)
        save_file({"features": features.half()}, folder / f"{name}.safetensors")
    if about is not None:
        (folder / "about.json").write_text(json.dumps(about))
    return folder
