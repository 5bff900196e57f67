"""The extraction loop: images through a model into a feature store.

Batches never cross a shard, and a shard is always the same samples: a run that was interrupted computes the
same batches as one that was not, so its shards have the same bytes. Memory holds a few shards and batches,
whatever the number of samples. Reading, the model and writing go on at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

from torch import Tensor

from ..core.errors import InputError
from ..data import ImageSource
from ..data.digests import recomputing
from ..data.left_out import warn_left_out
from ..data.relabelled import labelled_as
from ..data.sample import TEXTS, held_by
from ..data.sampling import METHOD, sample_of
from ..models import LoadedModel
from .behind import behind
from .capture import Capture
from .checked import checked_capture
from .device import choose_device
from .encoder import OUTPUT, output_width, refuse_with_head
from .engine import RayEngine, engine_of
from .forward import Forward
from .listing import listed
from .loading import ImageBatch, consecutive, image_batches, living_workers, said_of_readers, warn_cut
from .manifest import EXIF, NO_ORIENTATION, Recipe
from .ray_cluster import cluster, connected
from .ray_extract import fill_by_workers, listing_of_tasks
from .run_log import RunLog
from .settings import ExtractionSettings
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
    engine = engine_of(settings.running.engine)
    source = _as_taken(loaded, source, name or "the data", engine)
    if engine is not None and not connected():
        again = partial(fill_store, loaded, source, output, name=name, weights_file=weights_file)
        with cluster(engine):
            return again(settings=settings, progress=progress)
    log = settings.running.log or RunLog()
    log.lap("model")
    capture = _capture_of(loaded, settings)
    head = None if capture.headless else capture.head
    if len(source) == 0:
        raise InputError("the data holds no sample")
    log.lap("head")
    chosen = sample_of(source, settings.limit, settings.seed)
    warn_left_out(chosen, name or "the data")
    with recomputing(settings.verify):
        found = listed(chosen, None if engine is None else listing_of_tasks(chosen, verify=settings.verify))
    recipe = recipe_of(loaded, capture, chosen, settings, found.digest)
    if chosen is not source:
        recipe = replace(recipe, sample=f"{METHOD}, seed {settings.seed}")
    writer = StoreWriter.open(
        output(recipe) if callable(output) else output,
        recipe,
        head or output_width(capture),
        source=name,
        weights_file=weights_file,
        class_names=None if head is None else loaded.class_names,
        folders=chosen.class_names,
        shard_rows=settings.shard_rows,
        batch_size=settings.running.batch_size,
        contents=found.contents,
    )
    log.lap("listing")
    if settings.repair:
        if head is not None:
            writer.restore_head(head)
        writer.restore_contents(found.contents)
    with living_workers():
        if engine is None:
            _fill(writer, loaded, capture, chosen, settings, progress)
        else:
            fill_by_workers(writer, loaded, capture, chosen, settings, progress, shard_of)
    return _told(FeatureStore(writer.folder, recipe=recipe), name or "the data")


def _told(store: FeatureStore, name: str) -> FeatureStore:
    warn_cut(store.cut, len(store), name)
    return store


def _as_taken(loaded: LoadedModel, source: ImageSource, name: str, engine: RayEngine | None) -> ImageSource:
    """The source, if the model takes what it holds; names of classes are numbered as the model does."""
    loaded.require_content(held_by(source), name)
    if engine is not None:
        loaded.require_pictures("Ray")
    return labelled_as(source, loaded.class_names, name) if held_by(source) == TEXTS else source


def _capture_of(loaded: LoadedModel, settings: ExtractionSettings) -> Capture:
    """The model with its head, or as an encoder whose output is the feature."""
    if settings.headless:
        refuse_with_head(settings)
    layer = OUTPUT if settings.headless else settings.layer
    device = choose_device(settings.running.device)
    return checked_capture(loaded, layer, device, settings.score, force=settings.force)


def recipe_of(
    loaded: LoadedModel, capture: Capture, source: ImageSource, settings: ExtractionSettings, data: str
) -> Recipe:
    """What decides the features of a source under a model; ``data`` is the digest of its listing."""
    return Recipe(
        model=loaded.spec,
        weights=loaded.digest,
        preprocess=loaded.preprocess_id,
        layer=capture.layer,
        data=data,
        samples=len(source),
        dtype=settings.dtype,
        limit=settings.limit,
        autocast=settings.running.autocast,
        orientation=NO_ORIENTATION if getattr(source, "from_arrays", False) else EXIF,
        model_score=capture.model_score,
    )


def _fill(
    writer: StoreWriter,
    loaded: LoadedModel,
    capture: Capture,
    source: ImageSource,
    settings: ExtractionSettings,
    progress: Callable[[int, int], None],
) -> None:
    """Extract what is not in the store yet, or damaged and to be repaired."""
    samples = writer.manifest.recipe.samples
    shards = sorted({*(writer.damaged() if settings.repair else []), *writer.missing()})
    done = samples - sum(len(writer.samples(index)) for index in shards)
    progress(done, samples)
    size = settings.running.batch_size or writer.manifest.batch_size
    layout = writer.channels_last(settings.running.channels_last)
    running = replace(settings.running, channels_last=layout, batch_size=size)
    forward = Forward(capture, running, samples=samples - done)
    plan = (batch for index in shards for batch in consecutive(writer.samples(index), size))
    batches = stream(loaded, forward, source, plan)
    with closing(batches), behind(writer.write) as write:
        for index in shards:
            rows = Rows()
            while rows.samples < len(writer.samples(index)):
                _add(rows, *next(batches))
                progress(done + rows.samples, samples)
            write(index, rows, forward.layout)
            done += rows.samples


def shard_of(loaded: LoadedModel, forward: Forward, source: ImageSource, size: int) -> Rows:
    """All samples of a source as one shard, in batches of ``size``."""
    rows = Rows()
    batches = stream(loaded, forward, source, consecutive(range(len(source)), size))
    with closing(batches):
        for features, batch in batches:
            _add(rows, features, batch)
    return rows


def stream(
    loaded: LoadedModel,
    forward: Forward,
    source: ImageSource,
    plan: Iterable[list[int]],
    *,
    finite: bool = True,
    turn: bool = True,
) -> Generator[tuple[Tensor | None, ImageBatch], None, None]:
    """(features, batch) for every planned batch of samples; features are None where none could be read.

    Unless they are all ``finite``, they are an error where that is asked for; ``turn`` is as for
    `image_batches`. The next batches are read while the model is busy with one.
    """
    workers, skip = forward.running.workers, forward.running.skip_unreadable
    forward.log.readers = said_of_readers(workers, loaded, source)
    batches = image_batches(loaded, source, plan, workers=workers, skip_unreadable=skip, turn=turn)
    with closing(batches), forward.ready():
        for batch in batches:
            forward.log.lap("first pictures")
            yield None if batch.inputs is None else forward(batch.inputs, finite=finite), batch


def _add(rows: Rows, features: Tensor | None, batch: ImageBatch) -> None:
    if features is not None:
        rows.features.append(features.cpu())
    rows.labels += batch.labels
    rows.names += batch.names
    rows.skipped += [failure.name for failure in batch.failures]
    rows.turned += len(batch.tilted)
    rows.cut += len(batch.cut)
