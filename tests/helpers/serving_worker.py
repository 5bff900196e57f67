"""What a worker process of an engine does: unpickle a function and call it."""

from __future__ import annotations

import pickle
from typing import Any


def call(pickled: bytes, batch: dict[str, Any]) -> dict[str, Any]:
    """The columns that the function adds to a batch."""
    judged = pickle.loads(pickled)(batch)
    return {name: column for name, column in judged.items() if name not in batch}
