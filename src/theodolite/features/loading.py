"""From samples on disk to batches a model takes: read and prepare, ahead of the model.

Threads of this process do it by default, or worker processes, or nobody: then the model waits for its
pictures.

A sample that cannot be read travels as a `Failure`, not as an exception: the reader decides whether to skip
it, and the message arrives without the traceback of a worker.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, TypeAlias

from torch.utils.data import DataLoader, Dataset

from ..core.batches import Inputs
from ..core.errors import (
    InputError,
    TheodoliteError,
    TheodoliteWarning,
    UnreadableImageError,
    UnreadableTextError,
    WorkerError,
)
from ..data import ImageSource, Sample, as_picture
from ..data.files import ImageFiles
from ..data.orientation import orientation, upright
from ..data.sample import PICTURES, held_by
from ..data.selection import files_of
from ..models import LoadedModel
from ..models.preprocess import Pixels, Rgb
from ..models.registry import Collate
from .reading import AHEAD, cores, default_threads, read_ahead

Item: TypeAlias = "Prepared | Failure"

# Where nothing is kept, a small first batch has the first verdict out before a whole one is read.
FIRST_BATCH = 8


@dataclass(frozen=True)
class Failure:
    """A sample that could not be read or prepared."""

    name: str
    error: TheodoliteError


class Prepared(NamedTuple):
    """A sample as a model takes it; ``tilted`` if it is stored in another than its EXIF orientation, ``cut``
    if the model sees only a part of it."""

    content: object
    label: int | None
    name: str
    tilted: bool = False
    cut: bool = False


@dataclass(frozen=True)
class ImageBatch:
    """Prepared images (n, 3, H, W), or whatever else the model takes, of the samples that could be read; None
    if none could.

    ``tilted`` are the names of those that are stored in another than their EXIF orientation, ``cut`` of those
    that are longer than what the model takes.
    """

    inputs: Inputs | None
    labels: list[int | None] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    tilted: list[str] = field(default_factory=list)
    cut: list[str] = field(default_factory=list)


class _Prepared(Dataset[Item]):
    """The source through the model's preprocessing, turned upright first if that is wanted."""

    def __init__(self, source: ImageSource, loaded: LoadedModel, turn: bool) -> None:
        self._source, self._turn = source, turn
        self._spec, self._preprocess = loaded.spec, loaded.preprocess
        self._pictures = loaded.takes == PICTURES

    def __getitem__(self, index: int) -> Item:
        try:
            sample = self._source[index]
            return self._prepare(sample)
        except UnreadableImageError as error:
            return Failure(error.path or f"sample {index}", error)
        except TheodoliteError as error:
            return Failure(f"sample {index}", error)

    def _prepare(self, sample: Sample) -> Prepared:
        content, tilted = sample.content, False
        if self._pictures:
            picture = as_picture(sample.image)
            tilted = orientation(picture) != 1
            content = upright(picture) if self._turn else picture
        try:
            prepared = self._preprocess(content)
        except UnreadableTextError as error:
            raise UnreadableTextError.of(sample.id, "it is empty") from error
        except TheodoliteError:
            raise
        except Exception as error:
            raise InputError(
                f"the preprocessing of {self._spec} fails on {sample.id}: {type(error).__name__}: {error}"
            ) from error
        return Prepared(prepared, sample.label, sample.id, tilted, getattr(prepared, "cut", False))


def image_batches(
    loaded: LoadedModel,
    source: ImageSource,
    plan: Iterable[list[int]],
    *,
    workers: int | None = 0,
    skip_unreadable: bool = False,
    turn: bool = True,
) -> Generator[ImageBatch, None, None]:
    """The planned batches, in order; an unreadable sample is an error unless it shall be skipped.

    ``workers`` are processes; None are threads, as many as `reading_threads` says. ``turn`` makes pictures
    upright as their EXIF orientation says; otherwise they are taken as stored.
    """
    loaded.require_content(held_by(source), "the data")
    prepared = _Prepared(source, loaded, turn)
    together = partial(_together, loaded.together)
    if workers is None:
        threads = reading_threads(loaded, source)
        batches = _stacked(read_ahead(prepared.__getitem__, plan, threads=threads), together)
    else:
        loader = DataLoader(
            prepared,
            batch_sampler=plan,
            num_workers=workers,
            collate_fn=together,
            prefetch_factor=AHEAD if workers else None,
        )
        batches = _received(loader)
    with closing(batches):
        for batch in batches:
            for failure in batch.failures:
                if not (skip_unreadable and isinstance(failure.error, UnreadableImageError)):
                    raise failure.error
            yield batch


def _stacked(
    batches: Generator[list[Item], None, None], together: Callable[[list[Item]], ImageBatch]
) -> Generator[ImageBatch, None, None]:
    with closing(batches):
        yield from map(together, batches)


def _received(loader: DataLoader[Item]) -> Generator[ImageBatch, None, None]:
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
        f"the same command with fewer --workers (none: threads of this process) or a smaller --batch-size; "
        f"what was written before is kept"
    )


def warn_cut(cut: int, samples: int, what: str) -> None:
    """Say how many samples were longer than what the model takes, if any were."""
    if cut:
        warnings.warn(
            f"{what}: {cut:,} of {samples:,} samples are longer than the model takes, and were cut off at "
            f"its limit: nothing behind it counts",
            TheodoliteWarning,
            stacklevel=3,
        )


def consecutive(samples: range, size: int, *, first: int | None = None) -> Iterator[list[int]]:
    """Batches of at most ``size`` neighbours, the ``first`` one smaller where that is asked for."""
    if size < 1:
        raise InputError(f"batch size must be at least 1, got {size}")
    start = samples.start
    while start < samples.stop:
        stop = min(start + (size if first is None else min(first, size)), samples.stop)
        yield list(range(start, stop))
        start, first = stop, None


def reading_threads(loaded: LoadedModel, source: ImageSource) -> int:
    """Threads that read pictures by default: half of the cores, at most 8, at least one.

    One alone where code of others reads or prepares them: it need not bear several at once.
    """
    ours = isinstance(loaded.preprocess, Pixels | Rgb) and isinstance(files_of(source), ImageFiles)
    return default_threads() if ours else 1


def said_of_readers(workers: int | None, loaded: LoadedModel, source: ImageSource) -> str:
    """What reads the pictures, in words."""
    if workers is not None:
        return f"{workers} processes read" if workers else "no readers beside the model"
    threads = reading_threads(loaded, source)
    return f"{threads} thread{'s read' if threads > 1 else ' reads'} ahead ({cores()} cores)"


def _together(joined: Collate, items: list[Item]) -> ImageBatch:
    failures = [item for item in items if isinstance(item, Failure)]
    good = [item for item in items if not isinstance(item, Failure)]
    if not good:
        return ImageBatch(None, failures=failures)
    try:
        inputs = joined([item.content for item in good])
    except InputError as error:
        return ImageBatch(None, failures=[*failures, Failure(good[0].name, error)])
    return ImageBatch(
        inputs,
        [item.label for item in good],
        [item.name for item in good],
        failures,
        [item.name for item in good if item.tilted],
        [item.name for item in good if item.cut],
    )
