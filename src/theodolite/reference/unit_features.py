"""Whether a head in a file takes unit features: a cosine head must not come back as a linear one.

Files of ours say ``unit_features`` in their description. A file that another program wrote says it in the
metadata of safetensors (``{"unit_features": "true"}``), or as one more entry beside weight and bias.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from ..core.errors import FormatError

UNIT_FEATURES = "unit_features"
_DESCRIBED = "theodolite"
_SAID = {"true": True, "1": True, "false": False, "0": False}


def takes_unit_features(tensors: Mapping[str, Tensor], metadata: Mapping[str, str], path: Path) -> bool:
    """What a file says of its head; refused where it says it in a way that cannot be read."""
    said: list[bool] = []
    if UNIT_FEATURES in tensors:
        entry = tensors[UNIT_FEATURES]
        if entry.numel() != 1 or float(entry) not in (0.0, 1.0):
            raise FormatError(f"{path}: its entry {UNIT_FEATURES} must be one number, 1 or 0")
        said.append(bool(entry))
    if UNIT_FEATURES in metadata:
        word = metadata[UNIT_FEATURES].strip().lower()
        if word not in _SAID:
            raise FormatError(f"{path}: its metadata say {UNIT_FEATURES} {word!r}, expected true or false")
        said.append(_SAID[word])
    if _DESCRIBED in metadata:
        try:
            description = json.loads(metadata[_DESCRIBED])
        except ValueError as error:
            raise FormatError(f"{path} is damaged: its description cannot be read") from error
        said.append(isinstance(description, dict) and description.get(UNIT_FEATURES) is True)
    if len(set(said)) > 1:
        raise FormatError(f"{path} says two things of {UNIT_FEATURES}: leave one out")
    return bool(said) and said[0]
