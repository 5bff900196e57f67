"""Verdicts on Ray: workers read, judge and write Parquet, the driver counts.

    tally = score_on_ray(guard, "pictures/new", "scores.parquet", running=Running(engine="ray"))

What is written is a folder of Parquet files with the columns of `open_sink`, one for each run of samples; it
is there when all are written, and not before. The rows are those that one machine gives. The driver sees
counts and the strangest rows alone.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from ..core.errors import InputError, StorageError
from ..data import ImageSource
from ..data.sampling import sample_of
from ..features.arrays import FeatureArray
from ..features.engine import RayEngine, engine_of
from ..features.ray_cluster import cluster, import_ray
from ..features.ray_extract import SentModel
from ..features.ray_pool import over_processes, processes
from ..features.ray_source import SentSource
from ..features.settings import Running
from ..features.store import FeatureStore
from ..guard import Guard
from ..guard.path_reader import PathBatch, PathReader
from ..guard.verdicts import RAISE, check_unscorable
from .score_files import open_sink
from .tally import Tally

SHOWN = 20
# Batches, or shards, in a file: enough files that no worker waits long for the last, but not too many.
_FEWEST, _MOST, _FILES = 2, 128, 8
_GUARD = "guard.safetensors"


@dataclass(frozen=True)
class _Unit:
    """Neighbouring samples: ``batches`` of a source of pictures, or shards of a store, or all of a file."""

    number: int
    samples: int
    source: tuple[Any, ...] = ()
    batches: tuple[range, ...] = ()
    path: str = ""
    shards: range | None = None


@dataclass(frozen=True)
class Scoring:
    """Which samples of the paths, and what of those that have no score: as for `Guard.score_paths`."""

    kind: str | None = None
    limit: int | None = None
    false_alarm_rate: float | None = None
    unscorable: str = RAISE


def score_on_ray(
    guard: Guard,
    paths: str | Path | Sequence[str | Path],
    output: str | Path,
    *,
    model: str | None = None,
    weights: str | Path | None = None,
    scoring: Scoring | None = None,
    running: Running | None = None,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Tally:
    """Verdicts on pictures, folders, data files and feature stores, in a folder of Parquet files.

    ``paths``, ``model`` and ``weights`` are as for `Guard.score_paths`; ``running.engine`` names the cluster.
    All machines must see the paths and the folder. The tally counts the verdicts and has the strangest rows.

    >>> means, labels = 4 * np.eye(3, 8), np.arange(300) % 3
    >>> train = means[labels] + np.random.default_rng(0).normal(size=(300, 8))
    >>> guard = th.Guard.fit(train, labels, head=th.Head(means))
    >>> np.save("new.npy", np.full((4, 8), 9.0))
    >>> th.score_on_ray(guard, "new.npy", "scores.parquet").verdicts["OOD"]
    4
    """
    scoring, running = scoring or Scoring(), running or Running(engine="ray")
    engine = engine_of(running.engine)
    if engine is None:
        raise InputError("the engine is local: pass running=Running(engine='ray'), or use guard.score_paths")
    check_unscorable(scoring.unscorable)
    if scoring.false_alarm_rate is not None:
        guard.calibration.require_rate(scoring.false_alarm_rate)
    named = [str(paths)] if isinstance(paths, str | Path) else [str(path) for path in paths]
    reader = _reader(guard, scoring, replace(running, engine=None), model, weights)
    tally = Tally(SHOWN)
    with replacing_folder(Path(output)) as folder, cluster(engine) as ray:
        plan = _Plan(ray, engine, reader)
        work = _Judging(_guard_bytes(guard), guard.accept_code_change, scoring, running, folder.resolve())
        done = 0
        for sent, units in plan.pieces(named):
            made = replace(work, model=sent)
            found = over_processes(ray, engine, made, units, count=plan.processes)
            with closing(found):
                for unit, part in found:
                    if not (folder / _file(unit.number)).is_file():
                        raise StorageError(
                            f"what a worker wrote is not in {folder}: it must be on a file system that all "
                            f"machines of the cluster share"
                        )
                    tally.merge(part)
                    done += unit.samples
                    progress(done, reader.total)
    return tally


def _reader(
    guard: Guard, scoring: Scoring, running: Running, model: str | None, weights: str | Path | None
) -> PathReader:
    finite = scoring.unscorable == RAISE
    return guard.reader(
        model, weights, kind=scoring.kind, limit=scoring.limit, running=running, finite=finite
    )


Pieces: TypeAlias = Iterator[tuple[SentModel | None, Iterator[_Unit]]]


class _Plan:
    """The paths as units of work; opened one after the other, as their turn comes."""

    def __init__(self, ray: Any, engine: RayEngine, reader: PathReader) -> None:
        self.ray, self.engine, self.reader = ray, engine, reader
        self.processes = processes(ray, engine)
        self._number = 0
        self._model: SentModel | None = None

    def pieces(self, paths: Sequence[str]) -> Pieces:
        """What workers need for the samples of a path, and the path as units."""
        for place in self.reader.places(paths):
            if isinstance(place, FeatureStore | FeatureArray):
                self.reader.require(place)
                yield None, self._of_features(place)
            else:
                source = sample_of(place, self.reader.limit)
                self.reader.total += len(source)
                yield self._sent(source), self._of_pictures(source)

    def _sent(self, source: ImageSource) -> SentModel:
        if self._model is None:
            loaded, forward = self.reader.ready(len(source))
            running = replace(self.reader.running, engine=self.engine)
            self._model = SentModel.of(loaded, forward.capture, source, running)
        return self._model

    def _of_pictures(self, source: ImageSource) -> Iterator[_Unit]:
        shipped = self.ray.put(SentSource.of(source))
        plan = (range(batch[0], batch[-1] + 1) for batch in self.reader.plan(len(source)))
        size = self._size(len(source) // 64)
        while batches := tuple(islice(plan, size)):
            samples = batches[-1].stop - batches[0].start
            yield _Unit(self._next(), samples, source=(shipped,), batches=batches)

    def _of_features(self, rows: FeatureStore | FeatureArray) -> Iterator[_Unit]:
        """A store as runs of shards; a file, or of more than the limit a sample, as one."""
        whole = isinstance(rows, FeatureArray) or (self.reader.limit or len(rows)) < len(rows)
        taken = min(len(rows), self.reader.limit or len(rows))
        self.reader.total += taken
        if isinstance(rows, FeatureArray) or whole:
            yield _Unit(self._next(), taken, path=str(rows.path))
            return
        size = self._size(rows.shards)
        for start in range(0, rows.shards, size):
            shards = range(start, min(start + size, rows.shards))
            samples = sum(rows.manifest.shards[index].rows for index in shards)
            yield _Unit(self._next(), samples, path=str(rows.path), shards=shards)

    def _size(self, pieces: int) -> int:
        return min(_MOST, max(_FEWEST, pieces // (_FILES * self.processes)))

    def _next(self) -> int:
        self._number += 1
        return self._number


@dataclass(frozen=True)
class _Judging:
    """What a worker needs to judge units; called, it has guard and model ready."""

    guard: bytes
    accept_code_change: bool
    scoring: Scoring
    running: Running
    folder: Path
    model: SentModel | None = None

    def __call__(self) -> Callable[[_Unit], tuple[_Unit, Tally]]:
        with tempfile.TemporaryDirectory() as place:
            (Path(place) / _GUARD).write_bytes(self.guard)
            guard = Guard.load(Path(place) / _GUARD, accept_code_change=self.accept_code_change)
        running = replace(self.running, engine=None, log=None)
        if self.model is not None:
            guard.attach(self.model.loaded)
            running = self.model.running
        reader = _reader(guard, self.scoring, running, None, None)
        return partial(self._judge, guard, reader)

    def _judge(self, guard: Guard, reader: PathReader, unit: _Unit) -> tuple[_Unit, Tally]:
        if not self.folder.is_dir():
            raise StorageError(
                f"a worker does not see {self.folder}: the output must be on a file system that all machines "
                f"of the cluster share"
            )
        rate, policy = self.scoring.false_alarm_rate, self.scoring.unscorable
        judge = partial(guard.verdicts_of_own, rate=rate, unscorable=policy)
        tally = Tally(SHOWN)
        with open_sink(self.folder / _file(unit.number)) as sink:
            for batch in _batches(reader, unit):
                rows = batch.verdicts(judge, guard.class_name)
                sink.write(rows)
                tally.add(rows)
        return replace(unit, source=(), batches=()), tally


def _batches(reader: PathReader, unit: _Unit) -> Iterator[PathBatch]:
    """In a worker: the features of a unit."""
    if unit.shards is not None:
        store = FeatureStore(unit.path)
        shards = (store.shard(index) for index in unit.shards)
        yield from (PathBatch(shard.names, shard.features, ()) for shard in shards)
    elif unit.path:
        yield from reader.read([unit.path])
    else:
        sent: SentSource = import_ray().get(unit.source[0])
        start = unit.batches[0].start
        source = sent.run(range(start, unit.batches[-1].stop))
        plan = [list(range(batch.start - start, batch.stop - start)) for batch in unit.batches]
        yield from reader.pictures(source, plan)
        reader.say_tilted()


def _guard_bytes(guard: Guard) -> bytes:
    with tempfile.TemporaryDirectory() as place:
        guard.save(Path(place) / _GUARD)
        return (Path(place) / _GUARD).read_bytes()


def _file(number: int) -> str:
    return f"part-{number:06d}.parquet"


@contextmanager
def replacing_folder(output: Path) -> Iterator[Path]:
    """A folder to write into, which becomes ``output`` at the end, and is gone if it fails."""
    if output.suffix.lower() != ".parquet":
        raise InputError(f"{output}: on Ray scores are written as Parquet: call the folder NAME.parquet")
    if os.path.lexists(output):
        raise InputError(
            f"{output} is there already: on Ray scores are written as a new folder. Remove it, or choose "
            f"another name"
        )
    try:
        made = Path(tempfile.mkdtemp(prefix=f".{output.name}-", suffix=".partial", dir=output.parent))
    except OSError as error:
        raise StorageError(f"cannot create a folder beside {output}: {error.strerror}") from error
    try:
        yield made
        try:
            for left in made.glob("*.partial"):  # of a worker that was killed while it wrote
                left.unlink()
            made.chmod(0o755)
            made.rename(output)
        except OSError as error:
            raise StorageError(f"the scores cannot become {output}: {error.strerror}") from error
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
