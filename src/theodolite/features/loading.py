"""From samples on disk to batches a model takes: read, prepare and stack, here or in worker processes.

A sample that cannot be read travels as a `Failure`, not as an exception: the reader decides whether to skip
it, and the message arrives without the traceback of a worker.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from ..core.errors import InputError, TheodoliteError, UnreadableImageError, WorkerError
from ..data import ImageSource, Sample, as_picture
from ..data.orientation import orientation, upright
from ..models import LoadedModel

Item: TypeAlias = "Prepared | Failure"

# Below this many samples, starting worker processes takes longer than they save.
_WORTH_WORKERS = 2_000
_MOST_WORKERS = 8


@dataclass(frozen=True)
class Failure:
    """A sample that could not be read or prepared."""

    name: str
    error: TheodoliteError


class Prepared(NamedTuple):
    """A sample as a model takes it; ``tilted`` if it is stored in another than its EXIF orientation."""

    image: Tensor
    label: int | None
    name: str
    tilted: bool


@dataclass(frozen=True)
class ImageBatch:
    """Prepared images (n, 3, H, W) of the samples that could be read; None if none could.

    ``tilted`` are the names of those that are stored in another than their EXIF orientation.
    """

    images: Tensor | None
    labels: list[int | None] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    tilted: list[str] = field(default_factory=list)


class _Prepared(Dataset[Item]):
    """The source through the model's preprocessing, turned upright first if that is wanted."""

    def __init__(self, source: ImageSource, loaded: LoadedModel, turn: bool) -> None:
        self._source, self._turn = source, turn
        self._spec, self._preprocess = loaded.spec, loaded.preprocess

    def __getitem__(self, index: int) -> Item:
        try:
            sample = self._source[index]
            return self._prepare(sample)
        except UnreadableImageError as error:
            return Failure(error.path or f"sample {index}", error)
        except TheodoliteError as error:
            return Failure(f"sample {index}", error)

    def _prepare(self, sample: Sample) -> Prepared:
        picture = as_picture(sample.image)
        tilted = orientation(picture) != 1
        try:
            image = self._preprocess(upright(picture) if self._turn else picture)
        except Exception as error:
            raise InputError(
                f"the preprocessing of {self._spec} fails on {sample.id}: {type(error).__name__}: {error}"
            ) from error
        return Prepared(image, sample.label, sample.id, tilted)


def image_batches(
    loaded: LoadedModel,
    source: ImageSource,
    plan: Iterable[list[int]],
    *,
    workers: int = 0,
    skip_unreadable: bool = False,
    turn: bool = True,
) -> Iterator[ImageBatch]:
    """The planned batches, in order; an unreadable sample is an error unless it shall be skipped.

    ``turn`` makes pictures upright as their EXIF orientation says; otherwise they are taken as stored.
    """
    loader = DataLoader(
        _Prepared(source, loaded, turn),
        batch_sampler=plan,
        num_workers=workers,
        collate_fn=_stack,
        prefetch_factor=4 if workers else None,
    )
    for batch in _received(loader):
        for failure in batch.failures:
            if not (skip_unreadable and isinstance(failure.error, UnreadableImageError)):
                raise failure.error
        yield batch


def _received(loader: DataLoader[Item]) -> Iterator[ImageBatch]:
    """The batches of a loader, whose processes end with this: torch would raise the death of one that is
    left to itself in whatever runs then."""
    batches = iter(loader)
    try:
        yield from batches
    # A process that dies while it hands a batch over is a broken connection. Errors within it say "Caught".
    except (ConnectionError, EOFError, FileNotFoundError) as error:
        if str(error).startswith("Caught "):
            raise
        raise _died(error) from error
    finally:
        shut_down = getattr(batches, "_shutdown_workers", None)
        if shut_down is not None:
            with suppress(RuntimeError):  # the death of a process, once more
                shut_down()


@contextmanager
def living_workers() -> Iterator[None]:
    """Say what it means when a process that reads pictures dies; torch raises it wherever the work is."""
    try:
        yield
    except RuntimeError as error:
        if isinstance(error, TheodoliteError) or "DataLoader worker" not in str(error):
            raise
        raise _died(error) from error


def _died(error: Exception) -> WorkerError:
    reason = " ".join(str(error).split())[:160] or type(error).__name__
    return WorkerError(
        f"a process that reads pictures has died ({reason}): most often the memory ran out. Remedy: run "
        f"the same command with fewer --workers (0 reads in this process) or a smaller --batch-size; "
        f"what was written before is kept"
    )


def consecutive(samples: range, size: int) -> Iterator[list[int]]:
    """Batches of at most ``size`` neighbours."""
    if size < 1:
        raise InputError(f"batch size must be at least 1, got {size}")
    for start in range(samples.start, samples.stop, size):
        yield list(range(start, min(start + size, samples.stop)))


def default_workers(samples: int) -> int:
    """Worker processes where they pay: many samples, and cores to spare beside the model's own threads."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return 0 if samples < _WORTH_WORKERS or cores <= 2 else min(_MOST_WORKERS, cores // 2)


def _stack(items: list[Item]) -> ImageBatch:
    failures = [item for item in items if isinstance(item, Failure)]
    good = [item for item in items if not isinstance(item, Failure)]
    if not good:
        return ImageBatch(None, failures=failures)
    shapes = {tuple(item.image.shape) for item in good}
    if len(shapes) > 1:
        error = InputError(
            f"images of one batch have different shapes after preprocessing: {sorted(shapes)}. "
            f"Remedy: resize them, or give the model a preprocessing that does"
        )
        return ImageBatch(None, failures=[*failures, Failure(good[0].name, error)])
    return ImageBatch(
        torch.stack([item.image for item in good]),
        [item.label for item in good],
        [item.name for item in good],
        failures,
        [item.name for item in good if item.tilted],
    )
