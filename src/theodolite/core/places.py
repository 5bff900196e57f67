"""Where things lie on this machine: kept features and scores, data sets, released weights. One rule each.

An option given wins, then a variable of ours, then the cache folder of the user (``XDG_CACHE_HOME``).
"""

from __future__ import annotations

import os
from pathlib import Path

from .errors import InputError

CACHE, DATA, WEIGHTS = "THEODOLITE_CACHE", "THEODOLITE_DATA", "THEODOLITE_WEIGHTS"


def cache_folder(given: str | Path | None = None) -> Path:
    """Where features and scores are kept: as given, what THEODOLITE_CACHE names, or the user's cache."""
    named = given or os.environ.get(CACHE)
    return Path(named).expanduser() if named else _user_cache()


def data_root(given: str | Path | None = None) -> Path | None:
    """The folder of all data sets: as given, or what THEODOLITE_DATA names."""
    named = given or os.environ.get(DATA)
    if not named:
        return None
    root = Path(named).expanduser()
    if not root.is_dir():
        raise InputError(f"the data root {root} is not a folder: check --root or {DATA}")
    return root


def weights_folder() -> Path:
    """Where checkpoints of public releases are looked for. They are no cache: nothing brings them back."""
    named = os.environ.get(WEIGHTS)
    return Path(named).expanduser() if named else _user_cache() / "weights"


def _user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "theodolite"
