"""Saving a detector that cannot be saved says why."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from made_guards import clusters, head
from theodolite import ORA, Detector
from theodolite.core.errors import InputError, NotFittedError
from theodolite.guard import Calibration, Guard


class Unregistered(Detector):
    """A score of one's own without a name."""

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:  # noqa: ARG002
        return logits.amax(dim=1)


def test_a_score_without_a_name_is_refused_fitted_or_not(tmp_path: Path) -> None:
    for detector in (Unregistered(), Unregistered().fit(head=head())):
        with pytest.raises(InputError, match="Unregistered is not registered: decorate the class"):
            detector.save(tmp_path / "detector.safetensors")
        with pytest.raises(InputError, match="Unregistered is not registered"):
            Guard(detector, Calibration(torch.arange(30.0)), head=head()).save(tmp_path / "guard.safetensors")
    assert not list(tmp_path.iterdir())


def test_a_score_that_is_not_fitted_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError, match="ORA is not fitted: there is nothing to save"):
        ORA().save(tmp_path / "detector.safetensors")
    ORA().fit(*clusters(50, 0), head=head()).save(tmp_path / "detector.safetensors")
