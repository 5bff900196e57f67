"""The extraction loop: images through a model into a feature store.

Batches never cross a shard, and a shard is always the same samples: a run that was interrupted computes the
same batches as one that was not, so its shards have the same bytes. Memory holds one shard and a few batches,
whatever the number of samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor

from ..core.errors import FormatError, InputError
from ..data import ImageSource
from ..models import LoadedModel
from .capture import Capture
from .checked import checked_capture
from .device import choose_device
from .loading import ImageBatch, consecutive, default_workers, image_batches
from .manifest import Recipe, listing_digest
from .settings import ExtractionSettings, Running
from .store import FeatureStore
from .writer import Rows, StoreWriter


def fill_store(
    loaded: LoadedModel,
    source: ImageSource,
    output: str | Path | Callable[[Recipe], Path],
    *,
    name: str = "",
    weights_file: str | None = None,
    settings: ExtractionSettings | None = None,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> FeatureStore:
    """Extract the features of an open source into a store, or go on where an earlier run stopped.

    ``output`` is the store's folder, or a function that names it once it is known what will be in it. The
    manifest notes ``name``, where the samples come from, and the ``weights_file`` of the model.
    ``progress`` gets samples done and in all.
    """
    settings = settings or ExtractionSettings()
    running = settings.running
    capture = checked_capture(loaded, settings.layer, choose_device(running.device))
    recipe = recipe_of(loaded, capture, source, settings)
    writer = StoreWriter.open(
        output(recipe) if callable(output) else output,
        recipe,
        capture.head,
        source=name,
        weights_file=weights_file,
        class_names=loaded.class_names,
        folders=source.class_names,
        shard_rows=settings.shard_rows,
        batch_size=running.batch_size,
    )
    shards = sorted({*(_repairs(writer, capture) if settings.repair else []), *writer.missing()})
    done = recipe.samples - sum(len(writer.samples(index)) for index in shards)
    progress(done, recipe.samples)
    size = running.batch_size or writer.manifest.batch_size
    plan = (batch for index in shards for batch in consecutive(writer.samples(index), size))
    batches = stream(loaded, capture, source, plan, running, samples=recipe.samples - done)
    for index in shards:
        rows = Rows()
        while rows.samples < len(writer.samples(index)):
            _add(rows, *next(batches))
            progress(done + rows.samples, recipe.samples)
        writer.write(index, rows)
        done += rows.samples
    return FeatureStore(writer.folder, recipe=recipe)


def recipe_of(
    loaded: LoadedModel, capture: Capture, source: ImageSource, settings: ExtractionSettings
) -> Recipe:
    """What decides the features of a source under a model."""
    limit = settings.limit
    if limit is not None and limit < 1:
        raise InputError(f"limit must be at least 1, got {limit}")
    samples = len(source) if limit is None else min(limit, len(source))
    if samples == 0:
        raise InputError("the data holds no sample")
    return Recipe(
        model=loaded.spec,
        weights=loaded.digest,
        preprocess=loaded.preprocess_id,
        layer=capture.layer,
        data=listing_digest(islice(source.listing(), samples)),
        samples=samples,
        dtype=settings.dtype,
        limit=limit,
        autocast=settings.running.autocast,
    )


def stream(
    loaded: LoadedModel,
    capture: Capture,
    source: ImageSource,
    plan: Iterable[list[int]],
    running: Running,
    *,
    samples: int,
) -> Iterator[tuple[Tensor | None, ImageBatch]]:
    """(features, batch) for every planned batch of samples; features are None where none could be read."""
    device = next(capture.model.parameters()).device
    layout = torch.channels_last if running.channels_last else torch.contiguous_format
    if running.channels_last:
        capture.model.to(memory_format=layout)  # type: ignore[call-overload]
    autocast = torch.autocast(device.type, torch.bfloat16) if running.autocast else nullcontext()
    workers = default_workers(samples) if running.workers is None else running.workers
    skip = running.skip_unreadable
    for batch in image_batches(loaded, source, plan, workers=workers, skip_unreadable=skip):
        features = None
        if batch.images is not None:
            try:
                with autocast:
                    features, _ = capture(batch.images.to(device, memory_format=layout))
            except torch.OutOfMemoryError as error:
                raise InputError(
                    f"{len(batch.names)} images at a time are too many for the memory of {device}: "
                    f"pass a smaller --batch-size"
                ) from error
        yield features, batch


def _add(rows: Rows, features: Tensor | None, batch: ImageBatch) -> None:
    if features is not None:
        rows.features.append(features.cpu())
    rows.labels += batch.labels
    rows.names += batch.names
    rows.skipped += [failure.name for failure in batch.failures]


def _repairs(writer: StoreWriter, capture: Capture) -> list[int]:
    """Damaged shards, after a damaged head was written again."""
    try:
        return writer.damaged()
    except FormatError:
        writer.restore_head(capture.head)
        return writer.damaged()
