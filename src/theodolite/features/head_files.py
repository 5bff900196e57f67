"""A head in a file of its own: weight (C, D) and bias (C,), whoever wrote it."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ..core.errors import FormatError, InputError
from ..core.files import read_tensors
from ..core.owned import read_owned
from ..reference.head import Head
from .linear_probe import FORMAT as PROBE_FORMAT
from .store import HEAD_FORMAT, FeatureStore, is_store

# The files of a feature folder that we wrote ourselves.
FOLDER_FORMAT = "theodolite-features/1"
_DESCRIBED = "theodolite"


def read_head(path: str | Path) -> Head:
    """The head in a safetensors file (weight, bias), or that of a feature store.

    A file of ours says whether its head takes unit features, and a probe's checksum is compared.
    """
    place = Path(path).expanduser()
    if is_store(place):
        return FeatureStore(place).head
    if place.is_dir():
        raise InputError(f"{place} is a folder: name the safetensors file of the head, or a feature store")
    tensors, metadata = read_owned(place)
    if "weight" not in tensors:
        raise FormatError(f"{place} holds {sorted(tensors)}, expected weight (C, D) and bias (C,)")
    if _DESCRIBED not in metadata:
        return Head(tensors["weight"], tensors.get("bias"))
    sealed = any(known in metadata[_DESCRIBED] for known in (PROBE_FORMAT, FOLDER_FORMAT))
    tensors, description = read_tensors(place, PROBE_FORMAT, FOLDER_FORMAT, HEAD_FORMAT, sealed=sealed)
    unit_features = description.get("unit_features") is True
    return Head(tensors["weight"], tensors.get("bias"), unit_features=unit_features)


def head_digest(head: Head) -> str:
    """sha256 over the weights of a head, and whether it takes unit features."""
    digest = hashlib.sha256(f"{tuple(head.weight.shape)} {head.unit_features}".encode())
    for tensor in (head.weight, head.bias):
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
