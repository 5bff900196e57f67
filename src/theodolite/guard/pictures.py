"""From paths on the command line to features: stores are read, images go through the guard's own model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

from torch import Tensor

from ..core.errors import InputError
from ..data import ImageSource, open_source
from ..data.files import SUFFIXES, ImageFiles
from ..features.capture import Capture
from ..features.checked import choose_device, probe
from ..features.extract import Running, stream
from ..features.loading import consecutive
from ..features.store import FeatureStore, is_store
from ..models import LoadedModel, load_model
from .guard import Guard, trusted_spec


class Looker:
    """Features of whatever the paths name. The model is loaded at the first image, not for stores."""

    def __init__(
        self,
        guard: Guard,
        running: Running,
        *,
        batch_size: int,
        model: str | None = None,
        weights: Path | None = None,
        kind: str | None = None,
        limit: int | None = None,
    ) -> None:
        self.guard = guard
        self.running = running
        self.batch_size = batch_size
        self.model = model
        self.weights = weights
        self.kind = kind
        self.limit = limit
        self.total = 0
        self.skipped: list[str] = []
        self._capture: Capture | None = None

    def features(self, paths: Sequence[str]) -> Iterator[tuple[Sequence[str], Tensor]]:
        """(names, features) in batches, path after path; neighbouring picture files share batches."""
        for loose, group in groupby(paths, key=self._is_picture):
            if loose:
                yield from self._of_images(_loose_pictures(group))
                continue
            for path in group:
                if is_store(path):
                    yield from self._of_store(FeatureStore(path))
                else:
                    yield from self._of_images(open_source(path, kind=self.kind))

    def _is_picture(self, path: str) -> bool:
        return self.kind is None and Path(path).suffix.lower() in SUFFIXES and Path(path).is_file()

    def _of_store(self, store: FeatureStore) -> Iterator[tuple[Sequence[str], Tensor]]:
        recipe, origin = store.manifest.recipe, self.guard.provenance
        made_by = (recipe.weights, recipe.layer, recipe.preprocess)
        if origin is not None and made_by != (origin.weights, origin.layer, origin.preprocess):
            raise InputError(
                f"{store.path} holds features of {recipe.model} ({recipe.layer}) with other weights, layer "
                f"or preprocessing than the guard's {origin.model} ({origin.layer}). Remedy: extract with "
                f"the guard's model"
            )
        rows = self._counted(len(store))
        for index in range(store.shards):
            shard = store.shard(index)
            names, features = shard.names[:rows], shard.features[:rows]
            if len(names):
                yield names, features
            rows -= len(names)

    def _of_images(self, source: ImageSource) -> Iterator[tuple[Sequence[str], Tensor]]:
        loaded, capture = self._model()
        samples = self._counted(len(source))
        plan = consecutive(range(samples), self.batch_size)
        for features, batch in stream(loaded, capture, source, plan, self.running, samples=samples):
            self.skipped += [failure.name for failure in batch.failures]
            if features is not None:
                yield _full(batch.names, source), features.cpu()

    def _counted(self, samples: int) -> int:
        samples = samples if self.limit is None else min(self.limit, samples)
        self.total += samples
        return samples

    def _model(self) -> tuple[LoadedModel, Capture]:
        """The guard's own model, loaded and checked once."""
        origin, loaded = self.guard.provenance, self.guard.loaded
        if origin is None:
            raise InputError("the guard does not know its model: it can score feature stores, not images")
        if loaded is None:
            loaded = load_model(trusted_spec(origin, self.model), weights=self._weights(origin.weights_file))
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


def _loose_pictures(paths: Iterable[str]) -> ImageFiles:
    return ImageFiles(Path(), [(path, None) for path in paths])


def _full(names: Sequence[str], source: ImageSource) -> Sequence[str]:
    """Paths as they can be opened, where the samples are files below a folder."""
    if not isinstance(source, ImageFiles):
        return names
    return [str(source.root / name) for name in names]
