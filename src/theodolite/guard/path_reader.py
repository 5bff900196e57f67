"""From paths to features: stores and arrays are read, pictures go through a guard's own model."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple, TypeAlias

from torch import Tensor

from ..core.addresses import require_named
from ..core.errors import TheodoliteWarning
from ..data import ImageSource, open_source
from ..data.files import ImageFiles
from ..data.left_out import warn_left_out
from ..data.pictures import is_picture
from ..data.sampling import check_limit, sample_of, sampled_rows
from ..data.selection import files_of
from ..features.arrays import FeatureArray, open_array
from ..features.asking import AsksModel
from ..features.checked import checked_capture
from ..features.device import choose_device
from ..features.engine import require_here
from ..features.extraction import stream
from ..features.folders import HOLDS_PICTURES, feature_sets, holds_features, is_feature_folder
from ..features.forward import Forward
from ..features.loading import FIRST_BATCH, consecutive, living_workers, warn_cut
from ..features.run_log import RunLog
from ..features.settings import Running
from ..features.store import FeatureStore, is_store
from ..features.writer import BATCH_SIZE
from ..models import LoadedModel
from ..reference.head import Head
from .in_memory import require_like_head
from .inputs import warn_tilted
from .origin import Origin, require_array, require_like_origin
from .provenance import Provenance, require_store
from .verdicts import PathVerdict, Verdicts, path_verdicts, unreadable

Place: TypeAlias = FeatureStore | FeatureArray | ImageSource


class PathBatch(NamedTuple):
    """Neighbouring samples: the names and features (n, D) of those that could be read, and the others."""

    names: Sequence[str]
    features: Tensor | None
    unread: Sequence[str]

    def verdicts(
        self, judge: Callable[[Tensor], Verdicts], class_name: Callable[[int], str]
    ) -> list[PathVerdict]:
        """A row for each of them."""
        rows: list[PathVerdict] = []
        if self.features is not None and len(self.features):
            rows = path_verdicts(self.names, judge(self.features), class_name)
        return [*rows, *map(unreadable, self.unread)]


class PathReader:
    """Features of whatever paths name: pictures, folders, data files, feature stores, arrays of features.

    ``model`` gives the model of the ``provenance``; it is asked for at the first picture, not for features.
    ``kind`` may say what the paths hold: ``"features"``, ``"pictures"``, or which kind of pictures.
    ``total`` counts the samples of the paths opened so far. Unless they must be ``finite``, features may hold
    NaN and infinity. Stores of a model whose code has changed are refused unless ``accept_code_change``.
    ``score`` is the guard's, where it asks more of the model than the features of inputs as they are.
    """

    accept_code_change = False
    score: AsksModel | None = None

    def __init__(
        self,
        provenance: Provenance | None,
        model: Callable[[], LoadedModel],
        *,
        kind: str | None = None,
        limit: int | None = None,
        running: Running | None = None,
        finite: bool = True,
    ) -> None:
        check_limit(limit)
        if running is not None:
            require_here(running.engine, "to judge paths", "score_on_ray (theodolite score -o NAME.parquet)")
        self.provenance = provenance
        self.model = model
        self.kind = kind
        self.limit = limit
        self.running = running or Running()
        self.log = self.running.log or RunLog()
        self.finite = finite
        self.total = 0
        self._known: tuple[LoadedModel, Forward] | None = None
        self._tilted: list[str] = []
        self._cut = 0
        self._width: int | None = None
        self._head: Head | None = None
        self._origin: Origin | None = None

    def knows(self, width: int, head: Head | None, origin: Origin | None) -> None:
        """What features must be like: as wide as the guard's, and of its head where they name one."""
        self._width, self._head, self._origin = width, head, origin

    def read(self, paths: Iterable[str]) -> Iterator[PathBatch]:
        """Batches, path after path; neighbouring picture files share batches."""
        for place in self.places(paths):
            if isinstance(place, FeatureStore):
                yield from self._of_store(place)
            elif isinstance(place, FeatureArray):
                yield from self._of_array(place)
            else:
                yield from self._of_pictures(place)
        self.say_tilted()

    def say_tilted(self) -> None:
        """Warn of pictures that were judged as they are stored, and of texts that were cut off, if there were
        any."""
        if self._tilted:
            warn_tilted(self._tilted)
            self._tilted = []
        warn_cut(self._cut, self.total, "what was judged")
        self._cut = 0

    def places(self, paths: Iterable[str]) -> Iterator[Place]:
        """What paths name, each opened when its turn comes; neighbouring picture files are one source."""
        paths = list(paths)
        _warn_of_one_name([path for path in paths if not self._is_picture(path)])
        for loose, group in groupby(paths, key=self._is_picture):
            if loose:
                yield ImageFiles(Path(), [(path, None) for path in group])
                continue
            for path in group:
                yield from self._of_path(path)

    def _of_path(self, path: str) -> Iterator[Place]:
        require_named(path)
        if is_store(path):
            yield FeatureStore(path)
        elif not holds_features(path, self.kind):
            source = open_source(path, kind=None if self.kind == HOLDS_PICTURES else self.kind)
            warn_left_out(source, path)
            yield source
        elif is_feature_folder(path):
            for part in feature_sets(Path(path)).values():
                yield from self._of_path(str(part))
        else:
            yield open_array(path)

    def verdicts(
        self,
        paths: Iterable[str],
        judge: Callable[[Tensor], Verdicts],
        class_name: Callable[[int], str],
        progress: Callable[[int, int], None],
    ) -> Iterator[list[PathVerdict]]:
        """What a guard says of the samples, a row each, in batches."""
        done = 0
        with living_workers():
            for batch in self.read(paths):
                rows = batch.verdicts(judge, class_name)
                self.log.lap("first verdict")
                done += len(rows)
                progress(done, self.total)
                yield rows

    def _is_picture(self, path: str) -> bool:
        return self.kind is None and is_picture(Path(path))

    def _of_array(self, array: FeatureArray) -> Iterator[PathBatch]:
        self.require(array)
        blocks = ((names, features) for features, _, names in array.blocks())
        yield from self._of_rows(blocks, len(array))

    def require(self, rows: FeatureStore | FeatureArray) -> None:
        """Refuse features of another model than the guard's."""
        if isinstance(rows, FeatureArray):
            require_array(rows, self._width, self.provenance, self._origin)
            return
        require_store(self.provenance, rows, accept_code_change=self.accept_code_change)
        if self.provenance is None:
            require_like_origin(self._origin, rows, self._width)

    def _of_store(self, store: FeatureStore) -> Iterator[PathBatch]:
        self.require(store)
        shards = (store.shard(index) for index in range(store.shards))
        yield from self._of_rows(((shard.names, shard.features) for shard in shards), len(store))

    def _of_rows(self, blocks: Iterable[tuple[Sequence[str], Tensor]], count: int) -> Iterator[PathBatch]:
        """Names and features in blocks, ``count`` rows in all; of more than the limit it takes a sample."""
        limited = self.limit is not None and self.limit < count
        chosen = set(sampled_rows([None] * count, self.limit)) if limited and self.limit else set()
        self.total += len(chosen) if limited else count
        start = 0
        for names, features in blocks:
            places = [place for place in range(len(names)) if start + place in chosen]
            start += len(names)
            if not limited:
                yield PathBatch(names, features, ())
            elif places:
                yield PathBatch([names[place] for place in places], features[places], ())

    def _of_pictures(self, source: ImageSource) -> Iterator[PathBatch]:
        source = sample_of(source, self.limit)
        self.ready(len(source))
        self.total += len(source)
        yield from self.pictures(source, self.plan(len(source)))

    def plan(self, samples: int) -> Iterator[list[int]]:
        """So many pictures as batches."""
        size, first = self.running.batch_size or BATCH_SIZE, None if self.running.batch_size else FIRST_BATCH
        return consecutive(range(samples), size, first=first)

    def pictures(self, source: ImageSource, plan: Iterable[list[int]]) -> Iterator[PathBatch]:
        """The planned batches of a source of pictures."""
        loaded, forward = self.ready(len(source))
        turn = self.provenance is not None and self.provenance.turns
        batches = stream(loaded, forward, source, plan, finite=self.finite, turn=turn)
        for features, batch in batches:
            unread = [failure.name for failure in batch.failures]
            rows = None if features is None else features.cpu()
            self._tilted += () if turn else batch.tilted
            self._cut += len(batch.cut)
            yield PathBatch(_as_openable(batch.names, source), rows, unread)

    def ready(self, samples: int) -> tuple[LoadedModel, Forward]:
        """The model with its checked head, once for all paths; ``samples`` are those of the first one."""
        if self._known is None:
            self.log.lap("listing")
            loaded, known = self.model(), self.provenance or self._origin
            layer = None if known is None else known.layer
            device = choose_device(self.running.device)
            capture = checked_capture(loaded, layer, device, self.score)
            if not capture.headless:
                require_like_head(self._head, capture.head, loaded.spec)
            self._known = loaded, Forward(capture, self.running, samples=samples)
            self.log.lap("model")
        return self._known


def _warn_of_one_name(paths: Sequence[str]) -> None:
    """Rows of a file with many samples are called by the name of the file: two of one name are mixed up."""
    files = [Path(path) for path in dict.fromkeys(paths) if Path(path).is_file()]
    seen: dict[str, Path] = {}
    for file in files:
        other = seen.setdefault(file.name, file)
        if other is not file:
            warnings.warn(
                f"{other} and {file} have the same file name, by which their rows are called: rows of one "
                f"cannot be told from those of the other but by their order. Judge them one by one",
                TheodoliteWarning,
                stacklevel=2,
            )
            return


def _as_openable(names: Sequence[str], source: ImageSource) -> Sequence[str]:
    """Paths as they can be opened, where the samples are files below a folder."""
    files = files_of(source)
    if not isinstance(files, ImageFiles):
        return names
    return [str(files.root / name) for name in names]
