"""A model of rows of a table: a matrix is taken for features; the guard says where it may be inputs."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import theodolite as th
from theodolite.core.errors import InputError, TheodoliteWarning


def guarded(inputs: int, width: int) -> tuple[th.Guard, Tensor]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, 3)).eval()
    rows = torch.randn(400, inputs)
    capture = th.Capture(model)
    known, held_out = capture.over([rows[:200]]), capture.over([rows[200:]])
    return th.Guard.fit(known, head=capture.head, calibration=held_out).attach(model), rows


def test_inputs_as_wide_as_features_are_told() -> None:
    guard, rows = guarded(8, 8)
    with pytest.warns(TheodoliteWarning, match=r"taken for features.*pass \(inputs,\)"):
        guard.verdicts(rows)
    assert float(torch.as_tensor(guard.verdicts((rows,)).is_ood).float().mean()) < 0.1


def test_inputs_of_another_width_are_refused_with_what_to_pass() -> None:
    guard, rows = guarded(5, 8)
    with pytest.raises(InputError, match=r"width 5, and a matrix is taken for features.*\(inputs,\)"):
        guard.verdicts(rows)
    assert guard.model is not None
    features, _ = th.Capture(guard.model)(rows)
    assert torch.equal(
        torch.as_tensor(guard.verdicts(features).is_ood), torch.as_tensor(guard.verdicts((rows,)).is_ood)
    )
