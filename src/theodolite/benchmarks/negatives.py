"""Negatives: every picture of a source with its values turned round. They need no file of their own."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from PIL import Image

from ..data import ImageSource, Sample
from ..data.sample import line


class Negatives:
    """Every picture of a source as 1 − x; without labels."""

    class_names = None

    def __init__(self, source: ImageSource) -> None:
        self.source = source
        self.from_arrays = getattr(source, "from_arrays", False)

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> Sample:
        sample = self.source[index]
        if isinstance(sample.image, torch.Tensor):
            return Sample(1 - sample.image, None, f"negative/{sample.id}")
        turned = Image.fromarray(255 - np.asarray(sample.image))
        return Sample(turned, None, f"negative/{sample.id}")

    def listing(self) -> Iterator[str]:
        for entry in self.source.listing():
            name, _, content = entry.split("\t")
            yield line(f"negative/{name}", None, content)
