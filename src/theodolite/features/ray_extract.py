"""Extraction on Ray: workers hold the model and write shards, the driver lists the data and the shards.

A shard is the unit of work: the samples, the batches and the code of the local engine, so its bytes are those
that one machine writes. The folder of the store must be one that all machines see.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

from ..core.errors import StorageError
from ..data import ImageSource
from ..data.digests import recomputing
from ..models import LoadedModel
from .asking import AsksModel
from .capture import Capture
from .checked import checked_capture
from .device import choose_device
from .engine import RayEngine, engine_of
from .forward import Forward
from .layout import CHANNELS_LAST
from .loading import FIRST_BATCH, image_batches
from .manifest import Manifest, ShardRecord, shard_name
from .ray_cluster import import_ray, over_tasks
from .ray_pool import over_processes, processes
from .ray_source import SentSource
from .settings import ExtractionSettings, Running
from .writer import Rows, StoreWriter, write_shard

RowsOf: TypeAlias = Callable[[LoadedModel, Forward, ImageSource, int], Rows]
Written: TypeAlias = tuple[int, ShardRecord, str | None]

# Files that one task lists.
_LISTED = 8192
# Seconds between two writes of the manifest: of many shards it is long.
_NOTED = 1.0


@dataclass(frozen=True)
class SentModel:
    """A model on its way to workers, which get the very weights of the driver, and how they run it."""

    loaded: LoadedModel
    layer: str
    score: AsksModel | None
    running: Running

    @classmethod
    def of(
        cls, loaded: LoadedModel, capture: Capture, source: ImageSource | None, running: Running
    ) -> SentModel:
        """A model as all workers are to run it. The layout decides the last digits: where it is open, it is
        measured here, on the first pictures; for workers with a GPU, or without a source, it is the plain
        one."""
        loaded.require_pictures("Ray")
        engine = required_engine(running)
        layout = running.channels_last
        if layout is None and engine.gpus == 0 and source is not None:
            layout = _measured(loaded, capture, source, running) == CHANNELS_LAST
        loaded.model.to("cpu")  # which every machine has
        device = engine.device(running.device)
        known = replace(running, device=device, channels_last=bool(layout), engine=None, log=None)
        several = not capture.headless and capture.rows is not None
        return cls(loaded, capture.layer if several else capture.name, capture.score, known)

    def forward(self, samples: int) -> Forward:
        """The model on the device of this process, its head checked."""
        capture = checked_capture(self.loaded, self.layer, choose_device(self.running.device), self.score)
        return Forward(capture, self.running, samples=samples)


def required_engine(running: Running) -> RayEngine:
    """The Ray that a run asks for."""
    engine = engine_of(running.engine)
    assert engine is not None
    return engine


def _measured(loaded: LoadedModel, capture: Capture, source: ImageSource, running: Running) -> str | None:
    """The layout that the local engine would choose."""
    forward = Forward(capture, running, samples=len(source))
    plan = [list(range(min(FIRST_BATCH, len(source))))]
    with (
        closing(image_batches(loaded, source, plan, skip_unreadable=True)) as batches,
        forward.ready(),
    ):
        for batch in batches:
            if batch.inputs is not None:
                forward(batch.inputs, finite=False)
    return forward.layout


@dataclass(frozen=True)
class _ShardWriter:
    """What a worker needs to write shards of a store; called, it has its model ready."""

    model: SentModel
    source: SentSource
    folder: Path
    manifest: Manifest
    batch_size: int
    samples: int
    rows_of: RowsOf

    def __call__(self) -> Callable[[int], Written]:
        return partial(self._write, self.model.forward(self.samples))

    def _write(self, forward: Forward, index: int) -> Written:
        if not self.folder.is_dir():
            raise _not_shared(self.folder, "a worker does not see it")
        source = self.source.run(StoreWriter(self.folder, self.manifest).samples(index))
        rows = self.rows_of(self.model.loaded, forward, source, self.batch_size)
        return index, write_shard(self.folder, self.manifest, index, rows), forward.layout


def fill_by_workers(
    writer: StoreWriter,
    loaded: LoadedModel,
    capture: Capture,
    source: ImageSource,
    settings: ExtractionSettings,
    progress: Callable[[int, int], None],
    rows_of: RowsOf,
) -> None:
    """Extract what is not in the store yet, or damaged and to be repaired, by workers of Ray.

    A shard is named in the manifest when those before it are: of a run that is interrupted, the few that
    were ahead of the others are written again.
    """
    samples = writer.manifest.recipe.samples
    shards = sorted({*(writer.damaged() if settings.repair else []), *writer.missing()})
    done = samples - sum(len(writer.samples(index)) for index in shards)
    progress(done, samples)
    if not shards:
        return
    size = settings.running.batch_size or writer.manifest.batch_size
    layout = writer.channels_last(settings.running.channels_last)
    running = replace(settings.running, channels_last=layout, batch_size=size)
    work = _ShardWriter(
        SentModel.of(loaded, capture, source, running),
        SentSource.of(source),
        writer.folder.resolve(),
        replace(writer.manifest, shards=()),
        size,
        samples - done,
        rows_of,
    )
    ray, engine = import_ray(), required_engine(running)
    written = over_processes(ray, engine, work, shards, count=processes(ray, engine))
    with closing(written):
        _note(writer, _in_order(shards, written), partial(_count, writer, progress, done, samples))


def _count(
    writer: StoreWriter, progress: Callable[[int, int], None], done: int, samples: int, noted: list[int]
) -> None:
    progress(done + sum(len(writer.samples(index)) for index in noted), samples)


def _in_order(shards: list[int], written: Iterator[Written]) -> Iterator[Written]:
    """The shards in ascending order, each as soon as those before it are there."""
    ahead: dict[int, Written] = {}
    for wanted in shards:
        while wanted not in ahead:
            found = next(written)
            ahead[found[0]] = found
        yield ahead.pop(wanted)


def _note(writer: StoreWriter, written: Iterator[Written], count: Callable[[list[int]], None]) -> None:
    """Name shards in the manifest as they come, and write it now and then, also when it goes wrong."""
    noted: list[int] = []
    last = time.monotonic()
    try:
        for index, record, layout in written:
            if not (writer.folder / shard_name(index)).is_file():
                raise _not_shared(writer.folder, "what a worker wrote is not in it")
            writer.note(index, record, layout)
            noted.append(index)
            count(noted)
            if time.monotonic() - last > _NOTED:
                writer.manifest.write(writer.folder)
                last = time.monotonic()
    finally:
        writer.manifest.write(writer.folder)


def _not_shared(folder: Path, why: str) -> StorageError:
    return StorageError(
        f"{folder} is not on a file system that all machines of the cluster share ({why}): choose one that "
        f"is, --output FOLDER, or XDG_CACHE_HOME for features that are kept"
    )


def listing_of_tasks(source: ImageSource, *, verify: bool) -> Generator[str, None, None]:
    """The listing of a source, whose files are read by tasks: the driver sees their lines alone."""
    sent = SentSource.of(source)
    if sent.listing(range(0)) is None:
        yield from source.listing()
        return
    ray = import_ray()
    shipped = ray.put(sent)
    starts = range(0, len(source), _LISTED)
    units = (([shipped], range(start, min(start + _LISTED, len(source))), verify) for start in starts)
    yield from chain.from_iterable(over_tasks(ray, _lines, units))


def _lines(unit: tuple[list[Any], range, bool]) -> list[str]:
    """In a worker: the listing of a run of files."""
    (shipped,), run, verify = unit
    sent: SentSource = import_ray().get(shipped)
    with recomputing(verify):
        return [*(sent.listing(run) or ())]
