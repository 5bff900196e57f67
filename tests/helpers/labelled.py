"""Labels for made pictures: mostly what a small model says of them, so that the two belong together."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from small_models import Tiny

# Every so many labels are not the model's answer, as of any classifier.
_WRONG = 8


def labels_of(images: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """Labels of 8×8 pictures, seven of eight those that `Tiny` gives."""
    with torch.no_grad():
        answers = Tiny()(torch.from_numpy(images)[:, None].float() / 255).argmax(dim=1).numpy()
    wrong = np.arange(len(images)) % _WRONG == 0
    labels: npt.NDArray[np.int64] = np.where(wrong, (answers + 1) % 3, answers).astype(np.int64)
    return labels
