"""What must hold of every loaded model."""

from __future__ import annotations

import torch
from PIL import Image

from theodolite.features.capture import Capture
from theodolite.models import LoadedModel

PICTURE = Image.effect_noise((40, 30), 80)  # grey, and every model must take it


def assert_works(loaded: LoadedModel, classes: int) -> None:
    """One picture through the model's own preprocessing gives features that explain the logits."""
    inputs = loaded.preprocess(PICTURE)[None]
    assert tuple(inputs.shape[1:]) == loaded.input_shape
    capture = Capture(loaded.model, loaded.layer)
    features, logits = capture(inputs)
    assert logits.shape == (1, classes)
    torch.testing.assert_close(capture.head(features), logits, rtol=1e-4, atol=1e-4)
    assert loaded.class_names is None or len(loaded.class_names) == classes
    assert not loaded.model.training
    assert len(loaded.digest) == 64
