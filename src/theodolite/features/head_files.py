"""A head in a file of its own: weight (C, D) and bias (C,), whoever wrote it."""

from __future__ import annotations

import hashlib
import warnings
from pathlib import Path

import torch

from ..core.errors import FormatError, InputError, TheodoliteWarning
from ..core.files import read_tensors
from ..core.owned import read_owned
from ..reference.head import Head
from ..reference.unit_features import UNIT_FEATURES, takes_unit_features
from .linear_probe import FORMAT as PROBE_FORMAT
from .store import HEAD_FORMAT, FeatureStore, is_store

# The files of a feature folder that we wrote ourselves.
FOLDER_FORMAT = "theodolite-features/1"
_DESCRIBED = "theodolite"
# As far from one as half precision leaves the length of a unit row.
_UNIT = 2.0**-9


def read_head(path: str | Path) -> Head:
    """The head in a safetensors file (weight, bias), or that of a feature store.

    Whether it takes unit features is what the file says (`reference.unit_features`); a probe's checksum is
    compared. Rows of unit length without a bias, of which nothing is said, are warned of.
    """
    place = Path(path).expanduser()
    if is_store(place):
        return require_head_of(FeatureStore(place))
    if place.is_dir():
        raise InputError(f"{place} is a folder: name the safetensors file of the head, or a feature store")
    tensors, metadata = read_owned(place)
    if "weight" not in tensors:
        raise FormatError(f"{place} holds {sorted(tensors)}, expected weight (C, D) and bias (C,)")
    unit_features = takes_unit_features(tensors, metadata, place)
    if _DESCRIBED in metadata:
        sealed = any(known in metadata[_DESCRIBED] for known in (PROBE_FORMAT, FOLDER_FORMAT))
        tensors, _ = read_tensors(place, PROBE_FORMAT, FOLDER_FORMAT, HEAD_FORMAT, sealed=sealed)
    head = Head(tensors["weight"], tensors.get("bias"), unit_features=unit_features)
    if _DESCRIBED not in metadata and UNIT_FEATURES not in {*metadata, *tensors} and _looks_cosine(head):
        warnings.warn(
            f"{place} holds rows of unit length and no bias, as the cosine head of a zero-shot model, and "
            f"does not say that it takes unit features: it is taken for a linear head. Remedy: say which it "
            f"is in the file's metadata, {UNIT_FEATURES} true or false",
            TheodoliteWarning,
            stacklevel=2,
        )
    return head


def _looks_cosine(head: Head) -> bool:
    lengths = torch.linalg.vector_norm(head.weight.double(), dim=1)
    return bool((head.bias == 0).all()) and bool(((lengths - 1).abs() < _UNIT).all())


def require_head_of(store: FeatureStore) -> Head:
    """The head of a store; refused where it has none."""
    if store.head is None:
        raise InputError(
            f"{store.path} holds features of an encoder, without a head: train one with `theodolite probe "
            f"{store.path} -o head.safetensors` and name it (--head, or head.safetensors of a feature folder)"
        )
    return store.head


def head_digest(head: Head) -> str:
    """sha256 over the weights of a head, and whether it takes unit features."""
    digest = hashlib.sha256(f"{tuple(head.weight.shape)} {head.unit_features}".encode())
    for tensor in (head.weight, head.bias):
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
