"""A fit on any `ray.data.Dataset` of pictures: what `collect` learns from a folder, from rows that stream by.

    dataset = ray.data.read_parquet("s3://bucket/train/")
    part = collect_dataset(dataset, "timm:resnet50", columns=DatasetColumns("image", "label", "id"))
    guard = fit_parts([part]).guard

Model actors turn blocks of pictures into blocks of features, a task makes a part of a few of these, and tasks
merge the parts in pairs. The driver sees references to them, and the last one. Verdicts on a dataset are
`dataset.map_batches(BatchGuard, …)`.
"""

from __future__ import annotations

import copy
import hashlib
import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..core.errors import InputError, TheodoliteError
from ..detectors import Detector
from ..features.checked import checked_capture
from ..features.device import choose_device
from ..features.engine import RayEngine, engine_of
from ..features.extraction import shard_of
from ..features.forward import Forward
from ..features.manifest import EXIF
from ..features.ray_cluster import cluster, import_ray, merged_by_tasks
from ..features.ray_extract import SentModel
from ..features.ray_pool import processes
from ..features.ray_told import Folders, done, told, untold
from ..features.settings import Running
from ..features.store import UNLABELLED, number_of
from ..features.writer import BATCH_SIZE
from ..models import LoadedModel, load_model
from ..reference.head import Head
from ..reference.reference import Batch
from ..reference.seen import Seen
from .choice import choose_detector, require_head
from .collecting import Pass, learnt
from .guard import CALIBRATION_SHARE
from .holdout import check_share
from .part import Part
from .part_source import Lot, PartSource
from .provenance import Provenance
from .ray_batches import BatchSource, Columns, DatasetColumns

# Rows that make a part.
_ROWS = 8192


def collect_dataset(
    dataset: Any,
    model: str | LoadedModel,
    *,
    columns: DatasetColumns | None = None,
    detectors: Sequence[Detector | str] = (),
    weights: str | Path | None = None,
    calibration_share: float = CALIBRATION_SHARE,
    layer: str | None = None,
    running: Running | None = None,
) -> Part:
    """What ``detectors`` learn from a dataset of pictures, as one part for `fit_parts`.

    ``model``, ``weights`` and ``layer`` are as for `extract`, ``calibration_share`` as for `collect`. A
    shaping that learns takes two passes over the dataset. ``running.engine`` says how many models run at
    once; one core is left for whatever reads the dataset.

    >>> import ray.data
    >>> pixels = np.random.default_rng(0).integers(0, 256, (60, 28, 28), np.uint8)
    >>> dataset = ray.data.from_items([{"image": image, "label": n % 3} for n, image in enumerate(pixels)])
    >>> model = th.load_model("net:lenet5?num_classes=3", pretrained=False)
    >>> columns = th.DatasetColumns("image", "label")
    >>> part = th.collect_dataset(dataset, model, columns=columns, detectors=["mds"])
    >>> 30 < part.fitted_on < 60  # the rest is held out
    True
    """
    if calibration_share != 0:
        check_share(calibration_share)
    columns, running = columns or DatasetColumns(), running or Running(engine="ray")
    if running.skip_unreadable:
        raise InputError(
            "skip_unreadable is for folders and lists, of which every picture that is left out can be named: "
            "filter the dataset before"
        )
    engine = engine_of(running.engine) or RayEngine()
    asked = [choose_detector(one) for one in detectors or (None,)]
    for detector in asked:
        if detector.model_score is not None or detector.of_layers:
            raise InputError(
                f"{detector.record.title} asks more of the model than features of pictures as they are, "
                f"which a dataset of Ray does not give: extract a folder with --engine ray, and fit on that"
            )
    loaded = load_model(model, weights=weights) if isinstance(model, str) else model
    with cluster(engine) as ray:
        capture = checked_capture(loaded, layer, choose_device(engine.device(running.device)))
        for detector in asked:
            require_head(detector, capture.head)
        provenance = Provenance.of_model(loaded, capture.layer, orientation=EXIF)
        file = None if weights is None else str(Path(weights).resolve())
        source = PartSource(
            (), columns.label is not None, replace(provenance, weights_file=file), None, loaded.class_names
        )
        plain = replace(running, channels_last=bool(running.channels_last), engine=engine)
        sent = SentModel.of(loaded, capture, None, plain)
        made = _Made(asked, capture.head, calibration_share, source)
        features = _featured(dataset, sent, columns, engine, ray)
        first = made.merged(ray, features)
        whole = made.merged(ray, features, first) if first.first_look else first
    return replace(whole, source=replace(whole.source, lots=(_lot(whole.samples),)))


def _lot(samples: Seen) -> Lot:
    """A dataset by a digest of the ids of its samples: it has no name, and parts of several are merged."""
    digest = hashlib.blake2b(samples.values.numpy().tobytes(), digest_size=8).hexdigest()
    return Lot((f"the Ray dataset {digest}",), samples.count, 1, 1)


def _featured(dataset: Any, model: SentModel, columns: DatasetColumns, engine: RayEngine, ray: Any) -> Any:
    """The dataset of features: actors hold the model, and one core at least is left to read."""
    count, cpus = processes(ray, engine), engine.cpus
    if engine.concurrency is None and count * cpus > ray.cluster_resources().get("CPU", 0) - 1:
        count, cpus = max(1, count - 1), cpus if count > 1 else cpus / 2
    return dataset.map_batches(
        _Featuring,
        fn_constructor_args=(Folders.here(), model, columns, engine.threads),
        batch_size=model.running.batch_size or BATCH_SIZE,
        batch_format="numpy",
        compute=importlib.import_module("ray.data").ActorPoolStrategy(size=count),
        num_cpus=cpus,
        num_gpus=engine.gpus or None,
    )


class _Featuring:
    """In a worker: features of batches of pictures, with labels, ids and digests of the pictures.

    An error of ours travels in a column of its own, as it was raised.
    """

    def __init__(self, _: Folders, model: SentModel, columns: DatasetColumns, threads: int) -> None:
        torch.set_num_threads(threads)
        self._model, self._columns = model, columns
        self._forward: Forward | None = None

    def __call__(self, batch: Columns) -> Columns:
        self._forward = self._forward or self._model.forward(1)
        width = self._forward.capture.head.width
        try:
            source = BatchSource(batch, self._columns)
            rows = shard_of(self._model.loaded, self._forward, source, len(source))
        except TheodoliteError as error:
            nothing = np.zeros(1, np.int64)
            features = np.zeros((1, width), np.float32)
            return _columns(features, nothing, nothing, nothing, told(error))
        features = torch.cat([torch.zeros(0, width), *(one.float() for one in rows.features)]).numpy()
        labels = [UNLABELLED if label is None else label for label in rows.labels]
        ids = [number_of(name) for name in rows.names]
        contents = [source.contents[name] for name in rows.names]
        return _columns(features, labels, ids, contents, "")


def _columns(features: Any, labels: Any, ids: Any, contents: Any, error: str) -> Columns:
    numbers = {"label": labels, "id": ids, "content": contents}
    return {
        "features": features,
        **{name: np.asarray(values, np.int64) for name, values in numbers.items()},
        "error": np.array([error] * len(features), dtype=object),
    }


@dataclass(frozen=True)
class _Made:
    """How blocks of features become parts."""

    detectors: list[Detector]
    head: Head
    share: float
    source: PartSource

    def merged(self, ray: Any, features: Any, first_look: Part | None = None) -> Part:
        """One pass over the dataset: parts as blocks come, merged in pairs."""
        plan, folders = ray.put((self, first_look)), Folders.here()
        make = ray.remote(num_cpus=0, max_retries=3)(_part)
        whole = merged_by_tasks(ray, (make.remote(folders, [plan], blocks) for blocks in _grouped(features)))
        assert isinstance(whole, Part)
        return whole


def _grouped(features: Any) -> Iterator[list[Any]]:
    """References to blocks, so many that they hold enough rows for a part; the last few join those before
    them, as of very few all may be held out."""
    ready: list[Any] = []
    waiting: list[Any] = []
    rows = 0
    for bundle in features.iter_internal_ref_bundles():
        for block, metadata in zip(bundle.block_refs, bundle.metadata, strict=True):
            if metadata.num_rows == 0:
                continue  # what a filter leaves has no columns
            waiting.append(block)
            rows += metadata.num_rows or 0
            if rows >= _ROWS:
                if ready:
                    yield ready
                ready, waiting, rows = waiting, [], 0
    if not ready and not waiting:
        raise InputError("the dataset is empty: there is nothing to learn from")
    yield ready + waiting


def _part(_: Folders, plan: list[Any], blocks: list[Any]) -> object:
    """In a worker: a part of some blocks, or the error that one of them holds."""
    ray = import_ray()
    made, first_look = ray.get(plan[0])
    tables = [ray.get(block) for block in blocks]
    for table in tables:
        for error in table["error"].to_pylist():
            if error:
                return untold(error)
    return done(lambda _: _collected(made, first_look, tables), None)


def _collected(made: _Made, first_look: Part | None, tables: list[Any]) -> Part:
    looked = [] if first_look is None else [first_look]
    asked = copy.deepcopy(made.detectors)
    waits = learnt(asked, looked, made.head, made.source, made.share)
    contents = Seen()
    for table in tables:
        contents.add(torch.tensor(table["content"].to_numpy().copy()))
    columns = zip(*(_batch(table) for table in tables), strict=True)
    features, labels, ids = (torch.cat(column) for column in columns)
    rows: list[Batch] = [(features, labels if made.source.labelled else None, ids)]
    reading = Pass(rows, made.head.width, made.head, made.share, made.share)
    return reading.part(asked, made.source, waits, contents)


def _batch(table: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Features, labels and ids of a block."""
    column = table["features"].combine_chunks()
    chunk = column.chunk(0) if hasattr(column, "chunk") else column
    features = torch.from_numpy(np.array(chunk.to_numpy_ndarray(), dtype=np.float32))
    labels, ids = (torch.tensor(table[name].to_numpy().copy()) for name in ("label", "id"))
    return features, labels, ids
