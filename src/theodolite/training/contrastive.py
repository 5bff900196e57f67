"""The supervised contrastive loss (Khosla et al., NeurIPS 2020), and the projection that it is taken of.

For rows z_i on the unit sphere, A(i) all rows but i and P(i) those of them with the label of i:

    L = mean over i of  −1/|P(i)| Σ_{p ∈ P(i)} log( exp(z_i·z_p / τ) / Σ_{a ∈ A(i)} exp(z_i·z_a / τ) )

This is L_out of the paper: the mean over positives stands outside the logarithm. The paper sums over i; we
take the mean, so that the loss does not grow with the batch. Views of one picture are rows with one label.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..core.errors import InputError


def supcon_loss(projections: Tensor, labels: Tensor, *, temperature: float = 0.1) -> Tensor:
    """L of rows (N, D), which are brought to unit length, and labels (N,).

    A row whose label no other row has is no anchor, but all others are told apart from it.
    """
    if projections.ndim != 2 or labels.shape != projections.shape[:1]:
        raise InputError(
            f"projections must have shape (N, D) and labels (N,), got {tuple(projections.shape)} and "
            f"{tuple(labels.shape)}"
        )
    if not temperature > 0:
        raise InputError(f"temperature must be above 0, got {temperature}")
    rows = functional.normalize(projections, dim=1)
    alike = rows @ rows.T / temperature
    itself = torch.eye(len(rows), dtype=torch.bool, device=rows.device)
    positive = (labels[:, None] == labels[None, :]) & ~itself
    count = positive.sum(dim=1)
    anchors = count > 0
    if not bool(anchors.any()):
        raise InputError("no two rows have one label: the loss compares rows of one class, such as two views")
    log_share = alike - alike.masked_fill(itself, -torch.inf).logsumexp(dim=1, keepdim=True)
    mean_positive = torch.where(positive, log_share, 0).sum(dim=1)[anchors] / count[anchors]
    return -mean_positive.mean()


class Projection(nn.Sequential):
    """Features to the space of the loss: two linear layers around a ReLU. Left behind after training."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, out))
