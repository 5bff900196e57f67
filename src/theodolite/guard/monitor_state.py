"""The state of a monitor as a file: counts, money, and what belongs to them, sealed by a checksum."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .._version import __version__
from ..core.errors import FormatError, InputError
from ..core.files import read_tensors, write_tensors
from ..core.plain import from_plain, to_plain
from .growing import IntArray
from .martingale import ACCOUNTS, JUMP_RATES, KINDS, Capital

# The way of betting is part of the format: other bets or jump rates are another one.
FORMAT = "theodolite-monitor/1"
_REMEDY = "begin a new state"

Number = TypeVar("Number", np.int64, np.float64)


@dataclass(frozen=True)
class MonitorState:
    """What is known of a monitor beside its arrays; ``calibration`` is the digest of its scores."""

    kind: str
    alarm: float
    seed: int
    calibration: str
    unscorable: int
    alarmed_at: int | None


class StoredState(NamedTuple):
    """A state as read."""

    said: MonitorState
    counts: IntArray
    capital: Capital
    peak: float


def write_state(path: Path, said: MonitorState, counts: IntArray, capital: Capital, peak: float) -> None:
    """Write a state atomically; a file that is there keeps its content until the new one is whole."""
    tensors = {
        "counts": torch.from_numpy(counts),
        "logs": torch.from_numpy(capital.logs),
        "shares": torch.from_numpy(capital.shares),
        "peak": torch.tensor(peak, dtype=torch.float64),
    }
    plain = to_plain(said)
    assert isinstance(plain, dict)
    write_tensors(path, tensors, {"format": FORMAT, "theodolite": __version__, "monitor": plain})


def read_state(path: Path, calibration: str, gaps: int) -> StoredState:
    """The state of a monitor of the ``calibration`` with that digest.

    That of another is refused, and so is one that is damaged or contradicts itself.
    """
    tensors, description = read_tensors(path, FORMAT)
    said = from_plain(MonitorState, description.get("monitor"), f"the state in {path}")
    if said.calibration != calibration:
        raise InputError(
            f"{path} is the state of a monitor with other calibration scores: give the guard that it was "
            f"made with, or begin a new state"
        )
    rates = len(JUMP_RATES)
    counts = _array(path, tensors, "counts", np.int64, (gaps,))
    logs = _array(path, tensors, "logs", np.float64, (rates,))
    shares = _array(path, tensors, "shares", np.float64, (rates, ACCOUNTS))
    peak = _array(path, tensors, "peak", np.float64, ())
    seen = int(counts.sum())
    if not (
        said.kind in KINDS
        and 0 < said.alarm < 1
        and said.seed >= 0
        and 0 <= said.unscorable <= seen
        and (said.alarmed_at is None or 1 <= said.alarmed_at <= seen)
        and (counts >= 0).all()
        and (np.isfinite(logs) | (logs == -np.inf)).all()  # before the first sample there may be none
        and (shares >= 0).all()
        and np.allclose(shares.sum(axis=1), 1)
        and not np.isnan(peak)
        and (said.alarmed_at is None) == bool(peak < -math.log10(said.alarm))
    ):
        raise FormatError(f"{path} contradicts itself: {_REMEDY}")
    return StoredState(said, counts, Capital(logs, shares), float(peak))


def _array(
    path: Path, tensors: Mapping[str, Tensor], name: str, dtype: type[Number], shape: tuple[int, ...]
) -> npt.NDArray[Number]:
    if name not in tensors or tensors[name].shape != shape or tensors[name].numpy().dtype != dtype:
        raise FormatError(f"{path} holds no {name} of this monitor: {_REMEDY}")
    return tensors[name].numpy().astype(dtype)
