"""The weights of a network by one number."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor, nn


def weights_digest(model: nn.Module) -> str:
    """sha256 over names, shapes, dtypes and bytes of the weights: two models with one digest are one."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        if not isinstance(tensor, Tensor):  # what a module keeps beside its weights
            continue
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
        values = tensor.int_repr() if tensor.is_quantized else tensor
        content = values.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        digest.update(content.numpy().data)
    return digest.hexdigest()
