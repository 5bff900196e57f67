"""From paths to features: stores are read, pictures go through a guard's own model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from ..core.errors import InputError
from ..data import ImageSource, open_source
from ..data.files import SUFFIXES, ImageFiles
from ..features.capture import Capture
from ..features.checked import checked_capture
from ..features.device import choose_device
from ..features.extraction import stream
from ..features.loading import consecutive
from ..features.settings import Running
from ..features.store import FeatureStore, is_store
from ..features.writer import BATCH_SIZE
from ..models import LoadedModel
from .provenance import Provenance, require_store
from .verdicts import PathVerdict, Verdicts, path_verdicts, unreadable


class PathBatch(NamedTuple):
    """Neighbouring samples: the names and features (n, D) of those that could be read, and the others."""

    names: Sequence[str]
    features: Tensor | None
    unread: Sequence[str]


class PathReader:
    """Features of whatever paths name: pictures, folders, data files, feature stores.

    ``model`` gives the model of the ``provenance``; it is asked for at the first picture, not for stores.
    ``total`` counts the samples of the paths opened so far.
    """

    def __init__(
        self,
        provenance: Provenance | None,
        model: Callable[[], LoadedModel],
        *,
        kind: str | None = None,
        limit: int | None = None,
        running: Running | None = None,
    ) -> None:
        if limit is not None and limit < 1:
            raise InputError(f"limit must be at least 1, got {limit}")
        self.provenance = provenance
        self.model = model
        self.kind = kind
        self.limit = limit
        self.running = running or Running()
        self.total = 0
        self._known: tuple[LoadedModel, Capture] | None = None

    def read(self, paths: Iterable[str]) -> Iterator[PathBatch]:
        """Batches, path after path; neighbouring picture files share batches."""
        for loose, group in groupby(paths, key=self._is_picture):
            if loose:
                yield from self._of_pictures(ImageFiles(Path(), [(path, None) for path in group]))
                continue
            for path in group:
                if is_store(path):
                    yield from self._of_store(FeatureStore(path))
                else:
                    yield from self._of_pictures(open_source(path, kind=self.kind))

    def verdicts(
        self,
        paths: Iterable[str],
        judge: Callable[[Tensor], Verdicts],
        class_name: Callable[[int], str],
        progress: Callable[[int, int], None],
    ) -> Iterator[list[PathVerdict]]:
        """What a guard says of the samples, a row each, in batches."""
        done = 0
        for names, features, unread in self.read(paths):
            rows = [] if features is None else path_verdicts(names, judge(features), class_name)
            rows += map(unreadable, unread)
            done += len(rows)
            progress(done, self.total)
            yield rows

    def _is_picture(self, path: str) -> bool:
        return self.kind is None and Path(path).suffix.lower() in SUFFIXES and Path(path).is_file()

    def _of_store(self, store: FeatureStore) -> Iterator[PathBatch]:
        require_store(self.provenance, store)
        rows = self._counted(len(store))
        for index in range(store.shards):
            shard = store.shard(index)
            names, features = shard.names[:rows], shard.features[:rows]
            if len(names):
                yield PathBatch(names, features, ())
            rows -= len(names)

    def _of_pictures(self, source: ImageSource) -> Iterator[PathBatch]:
        loaded, capture = self._model()
        samples = self._counted(len(source))
        plan = consecutive(range(samples), self.running.batch_size or BATCH_SIZE)
        for features, batch in stream(loaded, capture, source, plan, self.running, samples=samples):
            unread = [failure.name for failure in batch.failures]
            rows = None if features is None else features.cpu()
            yield PathBatch(_as_openable(batch.names, source), rows, unread)

    def _counted(self, samples: int) -> int:
        samples = samples if self.limit is None else min(self.limit, samples)
        self.total += samples
        return samples

    def _model(self) -> tuple[LoadedModel, Capture]:
        """The model and its checked head, once for all paths."""
        if self._known is None:
            loaded, layer = self.model(), self.provenance.layer if self.provenance else None
            self._known = loaded, checked_capture(loaded, layer, choose_device(self.running.device))
        return self._known


def _as_openable(names: Sequence[str], source: ImageSource) -> Sequence[str]:
    """Paths as they can be opened, where the samples are files below a folder."""
    if not isinstance(source, ImageFiles):
        return names
    return [str(source.root / name) for name in names]
