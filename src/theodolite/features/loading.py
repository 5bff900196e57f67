"""From samples on disk to batches a model takes: read, prepare and stack, here or in worker processes.

A sample that cannot be read travels as a `Failure`, not as an exception: the reader decides whether to skip
it, and the message arrives without the traceback of a worker.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from ..core.errors import InputError, TheodoliteError, UnreadableImageError
from ..data import ImageSource, Sample, as_picture
from ..models import LoadedModel

Item: TypeAlias = "tuple[Tensor, int | None, str] | Failure"

# Below this many samples, starting worker processes takes longer than they save.
_WORTH_WORKERS = 2_000
_MOST_WORKERS = 8


@dataclass(frozen=True)
class Failure:
    """A sample that could not be read or prepared."""

    name: str
    error: TheodoliteError


@dataclass(frozen=True)
class ImageBatch:
    """Prepared images (n, 3, H, W) of the samples that could be read; None if none could."""

    images: Tensor | None
    labels: list[int | None] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)


class _Prepared(Dataset[Item]):
    """The source through the model's preprocessing."""

    def __init__(self, source: ImageSource, loaded: LoadedModel) -> None:
        self._source = source
        self._spec, self._preprocess = loaded.spec, loaded.preprocess

    def __getitem__(self, index: int) -> Item:
        try:
            sample = self._source[index]
            return self._prepare(sample), sample.label, sample.id
        except UnreadableImageError as error:
            return Failure(error.path or f"sample {index}", error)
        except TheodoliteError as error:
            return Failure(f"sample {index}", error)

    def _prepare(self, sample: Sample) -> Tensor:
        try:
            return self._preprocess(as_picture(sample.image))
        except Exception as error:
            raise InputError(
                f"the preprocessing of {self._spec} fails on {sample.id}: {type(error).__name__}: {error}"
            ) from error


def image_batches(
    loaded: LoadedModel,
    source: ImageSource,
    plan: Iterable[list[int]],
    *,
    workers: int = 0,
    skip_unreadable: bool = False,
) -> Iterator[ImageBatch]:
    """The planned batches, in order; an unreadable sample is an error unless it shall be skipped."""
    loader = DataLoader(
        _Prepared(source, loaded),
        batch_sampler=plan,
        num_workers=workers,
        collate_fn=_stack,
        prefetch_factor=4 if workers else None,
    )
    for batch in loader:
        for failure in batch.failures:
            if not (skip_unreadable and isinstance(failure.error, UnreadableImageError)):
                raise failure.error
        yield batch


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
    images, labels, names = zip(*good, strict=True)
    shapes = {tuple(image.shape) for image in images}
    if len(shapes) > 1:
        error = InputError(
            f"images of one batch have different shapes after preprocessing: {sorted(shapes)}. "
            f"Remedy: resize them, or give the model a preprocessing that does"
        )
        return ImageBatch(None, failures=[*failures, Failure(names[0], error)])
    return ImageBatch(torch.stack(images), list(labels), list(names), failures)
