"""`theodolite score`: verdicts on images or on stored features, on screen and in a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from rich.console import Console

from ..errors import InputError
from . import options

if TYPE_CHECKING:
    from torch import Tensor

    from ..features.capture import Capture
    from ..features.extract import Running
    from ..features.store import FeatureStore
    from ..guard import Guard
    from ..models import LoadedModel
    from ..report.score_files import ScoreRow

_SHOWN = 20
_BATCH = 64


def score(
    guard: Annotated[str, typer.Argument(help="A guard file, or a ready-made one: imagenet-lite0.")],
    paths: Annotated[list[str], typer.Argument(help="Images, folders, data files or feature stores.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write all rows: .csv, .jsonl or .parquet.")
    ] = None,
    weights: options.Weights = None,
    kind: options.Kind = None,
    false_alarm_rate: options.FalseAlarmRate = None,
    batch_size: options.BatchSize = None,
    workers: options.Workers = None,
    device: options.Device = "auto",
    autocast: options.Autocast = False,
    channels_last: options.ChannelsLast = False,
    limit: options.Limit = None,
    skip_unreadable: options.SkipUnreadable = False,
) -> None:
    """Say for every image what the classifier sees, and whether to trust it."""
    from ..features.extract import Running
    from ..guard import Guard
    from ..report.score_files import open_sink
    from .progress import progress_bar
    from .summary import Summary

    console = Console()
    judge = Guard.load(guard)
    if false_alarm_rate is not None:
        judge.calibration.threshold(false_alarm_rate)
        judge.false_alarm_rate = false_alarm_rate
    running = Running(device, workers, autocast, channels_last, skip_unreadable)
    looker = Looker(judge, weights, kind, running, batch_size or _BATCH, limit)
    summary = Summary(judge, shown=_SHOWN)
    with open_sink(output) as sink, progress_bar(console, "scoring") as show:
        for names, features in looker.features(paths):
            rows = verdict_rows(judge, names, features)
            sink.write(rows)
            summary.add(rows)
            show(summary.count, looker.total)
    summary.print(console, looker.skipped, output)


class Looker:
    """Features of whatever the paths name. The model is loaded at the first image, not for stores."""

    def __init__(
        self,
        guard: Guard,
        weights: Path | None,
        kind: str | None,
        running: Running,
        batch_size: int,
        limit: int | None,
    ) -> None:
        self.guard = guard
        self.weights = weights
        self.kind = kind
        self.running = running
        self.batch_size = batch_size
        self.limit = limit
        self.total = 0
        self.skipped: list[str] = []
        self._capture: Capture | None = None

    def features(self, paths: Sequence[str]) -> Iterator[tuple[Sequence[str], Tensor]]:
        """(names, features) in batches, path after path."""
        from ..features.store import FeatureStore, is_store

        for path in paths:
            if is_store(path):
                yield from self._of_store(FeatureStore(path))
            else:
                yield from self._of_images(path)

    def _of_store(self, store: FeatureStore) -> Iterator[tuple[Sequence[str], Tensor]]:
        recipe, origin = store.manifest.recipe, self.guard.provenance
        if origin is not None and (recipe.weights, recipe.layer) != (origin.weights, origin.layer):
            raise InputError(
                f"{store.path} holds features of {recipe.model} ({recipe.layer}), but the guard was "
                f"fitted on {origin.model} ({origin.layer}). Remedy: extract with the guard's model"
            )
        rows = len(store) if self.limit is None else min(self.limit, len(store))
        self.total += rows
        for index in range(store.shards):
            shard = store.shard(index)
            names, features = shard.names[:rows], shard.features[:rows]
            if len(names):
                yield names, features
            rows -= len(names)

    def _of_images(self, path: str) -> Iterator[tuple[Sequence[str], Tensor]]:
        from ..data import open_source
        from ..features.extract import stream
        from ..features.loading import consecutive

        source = open_source(path, kind=self.kind)
        loaded, capture = self._model()
        samples = len(source) if self.limit is None else min(self.limit, len(source))
        self.total += samples
        plan = consecutive(range(samples), self.batch_size)
        for features, batch in stream(loaded, capture, source, plan, self.running, samples=samples):
            self.skipped += [failure.name for failure in batch.failures]
            if features is not None:
                yield _full(batch.names, source), features.cpu()

    def _model(self) -> tuple[LoadedModel, Capture]:
        """The guard's own model, loaded and checked once."""
        from ..features.probe import choose_device, probe
        from ..models import load_model

        origin, loaded = self.guard.provenance, self.guard.loaded
        if origin is None:
            raise InputError("the guard does not know its model: it can score feature stores, not images")
        if loaded is None:
            loaded = load_model(origin.model, weights=self._weights(origin.weights_file))
            self.guard.attach(loaded)
        if self._capture is None:
            self._capture = probe(loaded, origin.layer, choose_device(self.running.device))
        return loaded, self._capture

    def _weights(self, remembered: str | None) -> Path | None:
        if self.weights is not None or remembered is None:
            return self.weights
        if not Path(remembered).is_file():
            raise InputError(f"the checkpoint {remembered} is gone: say where it is with --weights")
        return Path(remembered)


def _full(names: Sequence[str], source: object) -> Sequence[str]:
    """Paths as they can be opened, where the samples are files below a folder."""
    root = getattr(source, "root", None)
    return names if root is None else [str(root / name) for name in names]


def verdict_rows(guard: Guard, names: Sequence[str], features: Tensor) -> list[ScoreRow]:
    """The verdicts of one batch, a row a sample."""
    from ..report.score_files import ScoreRow
    from .summary import ID, OOD

    predicted, scores, p_values, flags = (np.asarray(column).tolist() for column in guard.verdicts(features))
    return [
        ScoreRow(name, label, guard.class_name(label), value, p_value, OOD if flagged else ID)
        for name, label, value, p_value, flagged in zip(
            names, predicted, scores, p_values, flags, strict=True
        )
    ]
