"""Several guards over the same pictures: each sees them through its own model, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from ..core.arrays import as_tensor
from ..core.errors import InputError
from ..features.folders import HOLDS_FEATURES, holds_features
from ..features.loading import living_workers
from ..features.settings import Running
from ..features.store import is_store
from .guard import Guard
from .members import models_of
from .path_reader import PathBatch, PathReader


class Seen(NamedTuple):
    """One batch: the names of the pictures, the features of every member, what could not be read, and the
    samples of all paths opened so far."""

    names: Sequence[str]
    features: Sequence[Tensor]
    unread: Sequence[str]
    total: int


def in_lockstep(
    members: Sequence[Guard],
    paths: str | Path | Sequence[str | Path],
    *,
    kind: str | None = None,
    limit: int | None = None,
    model: str | Sequence[str] | None = None,
    running: Running | None = None,
    finite: bool = True,
) -> Iterator[Seen]:
    """The same pictures as every member sees them; each is read once for every member.

    Features at a path are those of one model, and refused. ``model`` names code that members may run.
    """
    named = [str(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
    for path in named:
        _require_pictures(path, kind)
    readers = [
        one.reader(own, None, kind=kind, limit=limit, running=running, finite=finite)
        for one, own in zip(members, models_of(members, model), strict=True)
    ]
    return _read(readers, named)


def _read(readers: Sequence[PathReader], named: Sequence[str]) -> Iterator[Seen]:
    with living_workers():
        for batches in zip_longest(*(reader.read(named) for reader in readers)):
            first = batches[0]
            if len({_pictures(batch) for batch in batches}) > 1:
                raise InputError("the members did not read the same pictures: a file changed in between")
            features = [batch.features for batch in batches if batch.features is not None]
            yield Seen(first.names, features, first.unread, readers[0].total)


def _require_pictures(path: str, kind: str | None) -> None:
    """Features that lie at a path are one model's, and would be read as every member's."""
    if kind == HOLDS_FEATURES or is_store(path) or holds_features(path, kind):
        raise InputError(
            f"{path} holds the features of one model, and an ensemble judges pictures, which every member "
            f"sees through its own. Features are given one array a member, in Python: verdicts([one, other])"
        )


def scores_in_lockstep(
    members: Sequence[Guard],
    path: str | Path,
    model: str | Sequence[str] | None,
    running: Running | None,
    progress: Callable[[int, int], None],
) -> list[Tensor]:
    """Every member's scores of all pictures at a path."""
    parts: list[list[Tensor]] = [[] for _ in members]
    done = 0
    for seen in in_lockstep(members, path, model=model, running=running):
        for part, one, rows in zip(parts, members, seen.features, strict=bool(seen.features)):
            part.append(member_scores(one, rows))
        done += len(seen.names)
        progress(done, seen.total)
    if not parts[0]:
        raise InputError(f"{path} holds no picture that could be read: there is nothing to calibrate on")
    return [torch.cat(part) for part in parts]


def member_scores(guard: Guard, features: Tensor, *, flag: bool = False) -> Tensor:
    """A member's scores in float64; with ``flag``, NaN where it has none."""
    return as_tensor(guard.judge(features, flag=flag).score, "scores").double().cpu()


def _pictures(batch: PathBatch | None) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    return None if batch is None else (tuple(batch.names), tuple(batch.unread))
