"""How many digits of the paper's equation float32 keeps, over classes, widths, conditioning and offsets.

The bounds are those that docs/scores.md states: 1e-5 radians at any width, 3e-6 from 32 features on. Relative
to the angle it is 1e-5 from five classes on; with two or three the largest angle of a row can itself be tiny.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

import oracles
from theodolite import ORA, Head

ROWS = 24


@pytest.mark.parametrize("width", [2, 3, 8, 32, 256])
@pytest.mark.parametrize("classes", [2, 3, 5, 10, 40])
def test_float32_is_the_equation_to_the_stated_bound(classes: int, width: int) -> None:
    worst, relative = 0.0, 0.0
    for condition, offset, seed in itertools.product((1.0, 1e4), (0.0, 10.0), (11, 12)):
        rng = torch.Generator().manual_seed(1000 * seed + 10 * width + classes)
        scale = torch.logspace(-math.log10(condition), 0, width)
        mean = offset * torch.randn(width, generator=rng)
        head = Head(torch.randn(classes, width, generator=rng), torch.randn(classes, generator=rng))
        train = mean + scale * torch.randn(200, width, generator=rng)
        rows = mean + 3 * scale * torch.randn(ROWS, width, generator=rng)
        found = ORA().fit(train, head=head).score(rows)
        assert found.dtype == torch.float32
        expected = oracles.ora(
            rows.double().numpy(),
            head.weight.double().numpy(),
            head.bias.double().numpy(),
            train.double().mean(dim=0, keepdim=True).numpy(),
        )
        error = np.abs(found.double().numpy() - expected)
        worst, relative = max(worst, error.max()), max(relative, (error / expected).max())
    assert worst <= (3e-6 if width >= 32 else 1e-5)
    assert classes < 5 or relative <= 1e-5
