"""CLIP, zero-shot: class names are the classifier, and pictures unlike those it is used on are flagged.

A tiny CLIP of random weights is made here, so that this runs offline: its classes mean nothing. The real
one is `openclip:ViT-B-32/laion2b_s34b_b79k`, or `hf:openai/clip-vit-base-patch32`, in its place.
Install: pip install 'theodolite[clip]'
"""

import json
import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file

import theodolite as th
from theodolite.core.compat import import_module

open_clip = import_module("open_clip")  # also beside a torchvision that was built for another torch

vision = {"image_size": 32, "layers": 2, "width": 64, "patch_size": 8, "head_width": 32}
text = {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1}
pixels = {"mean": [0.5, 0.5, 0.5], "std": [0.25, 0.25, 0.25]}
settings = {"model_cfg": {"embed_dim": 32, "vision_cfg": vision, "text_cfg": text}, "preprocess_cfg": pixels}
rng = np.random.default_rng(0)


def drawn(side: int) -> Image.Image:
    """So many colours a side, blown up: a few are soft like a sky or a wall, many are noise."""
    colours = rng.integers(0, 256, (side, side, 3), np.uint8)
    return Image.fromarray(colours).resize((48, 48), Image.Resampling.BICUBIC)


with tempfile.TemporaryDirectory() as folder:
    clip = Path(folder, "clip")
    clip.mkdir()
    (clip / "open_clip_config.json").write_text(json.dumps(settings), encoding="utf-8")
    torch.manual_seed(0)
    weights = open_clip.create_model(f"local-dir:{clip}", load_weights=False).state_dict()
    weights = {name: weight.clone() for name, weight in weights.items()}
    save_file(weights, clip / "open_clip_model.safetensors")
    for place in ("train", "val"):
        Path(folder, place).mkdir()
        for number in range(200):
            drawn(3).save(Path(folder, place, f"{number:03}.png"))

    spec = f"openclip:{clip}?classes=cat,dog,sea lion"  # or a file, a name a line; &templates= for prompts
    guard = th.fit_guard(f"{folder}/train", spec, calibration=f"{folder}/val").guard
    guard.attach(th.load_model(spec))
    print(f"zero-shot classes: {', '.join(guard.class_names or ())}; score: {guard.detector.record.title}")
    for what, side in (("soft colours, as in training", 3), ("noise", 48)):
        verdicts = guard.verdicts([drawn(side) for _ in range(50)])
        print(f"{what}: {np.asarray(verdicts.is_ood).mean():.0%} flagged")
