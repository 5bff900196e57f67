"""The monitor's promise, simulated; its silence on real ID streams; its delay where a stream turns OOD.

Everything below was fixed before any real score went through the monitor: the rule (`guard.martingale`), the
alarm levels, the data, the sizes. Streams are drawn without replacement from held-out ID scores; the first of
them are the calibration. A stream that turns does so after 1,000 samples. That the images were also watched
in the order in which they are stored was added later.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...benchmarks.feature_folder import from_folder
from ...benchmarks.feature_sets import TEST
from ...benchmarks.scoring import Scorer
from ...benchmarks.subject import Subject
from ...core.arrays import FloatArray
from ...detectors import RECOMMENDED, detector_record
from ...detectors.spec import parse_specs
from ...guard.martingale import KINDS, MARTINGALE, SHIRYAEV_ROBERTS
from ...guard.monitor import ALARMS
from ...report.tables import Table, printed
from ..studies import TableStudy
from . import monitor_runs as runs
from ._registry import Context, Need, Produced, experiment
from .mnist import DATA, OE_WEIGHTS, convnet_subject

FOLDER = "cifar10-densenet"
SCORES = (RECOMMENDED, "ora")
TITLES = {MARTINGALE: "Martingale", SHIRYAEV_ROBERTS: "Shiryaev–Roberts"}
CALIBRATIONS = (50, 200, 1_000)
LEVELS = (0.05, 0.01)
# Of Shiryaev–Roberts in the simulation: streams of 2,000 samples would show nothing of one in 100,000.
OFTEN = 0.005
NULL_RUNS, NULL_SAMPLES = 1_000, 2_000
REAL_RUNS, CALIBRATION, REAL_SAMPLES = 400, 1_000, 2_000
STORED_STEP = 10
SHARES = (0.1, 0.3, 1.0)
TURNED_RUNS, AFTER, TURNED = 200, 1_000, 1_000


@dataclass(frozen=True)
class Simulated:
    """Null streams: % with a false alarm and its standard error, on growing and on the guard's p-values."""

    calibration: int
    alarm: float
    growing: float
    growing_error: float
    own: float
    own_error: float


@dataclass(frozen=True)
class RunLength:
    """Null streams, Shiryaev–Roberts: mean samples to a false alarm, or to the end where there is none."""

    calibration: int
    promised: float
    measured: float
    error: float


@dataclass(frozen=True)
class Silence:
    """Real ID streams: share with an alarm in %, by kind."""

    data: str
    score: str
    alarms: Mapping[str, float]


@dataclass(frozen=True)
class Stored:
    """ID images in their stored order, calibrated on every tenth: the number of the image of the alarm."""

    data: str
    score: str
    images: int
    alarmed_at: Mapping[str, int | None]


@dataclass(frozen=True)
class Delay:
    """Samples from the change to the alarm, of streams without one before; None: the stream ends first."""

    data: str
    score: str
    ood: str
    kind: str
    share: float
    median: float | None
    ninety: float | None
    found: float
    too_early: float

    @property
    def text(self) -> str:
        if self.median is None:
            return f"{self.found:.0f} % found"
        late = f"> {TURNED:,}" if self.ninety is None else f"{self.ninety:.0f}"
        return f"{self.median:.0f} ({late})"


@dataclass(frozen=True, kw_only=True)
class MonitorStudy(TableStudy):
    format = "theodolite-monitor-study/1"

    simulated: tuple[Simulated, ...]
    run_lengths: tuple[RunLength, ...]
    silence: tuple[Silence, ...]
    stored: tuple[Stored, ...]
    delays: tuple[Delay, ...]

    def tables(self) -> list[Table]:
        quiet = [self._simulated(), self._run_lengths(), self._silence(), self._stored()]
        return [*quiet, *map(self._delays, KINDS)]

    def _simulated(self) -> Table:
        header = [
            "calibration scores",
            "promised at most, %",
            "growing reference",
            "the guard's own p-values",
        ]
        rows = [
            [
                f"{row.calibration:,}",
                f"{100 * row.alarm:g}",
                f"{printed(row.growing)} ± {printed(row.growing_error)}",
                f"{printed(row.own)} ± {printed(row.own_error)}",
            ]
            for row in self.simulated
        ]
        title = f"% of {NULL_RUNS:,} unchanged streams of {NULL_SAMPLES:,} with an alarm (± standard error)"
        return Table.of_texts(title, header, rows)

    def _run_lengths(self) -> Table:
        rows = [
            [f"{row.calibration:,}", f"{row.promised:.0f}", f"{row.measured:.0f} ± {row.error:.0f}"]
            for row in self.run_lengths
        ]
        title = f"Shiryaev–Roberts: mean samples to a false alarm (streams end after {NULL_SAMPLES:,})"
        return Table.of_texts(title, ["calibration scores", "promised at least", "measured"], rows)

    def _silence(self) -> Table:
        rows = [[row.data, row.score, *(printed(row.alarms[kind]) for kind in KINDS)] for row in self.silence]
        title = f"% of {REAL_RUNS} real ID streams of {REAL_SAMPLES:,} with an alarm"
        return Table.of_texts(
            title, ["data", "score", *(f"{TITLES[kind]}, {ALARMS[kind]:g}" for kind in KINDS)], rows
        )

    def _stored(self) -> Table:
        rows = [
            [
                row.data,
                row.score,
                *("none" if (at := row.alarmed_at[kind]) is None else f"{at:,}" for kind in KINDS),
            ]
            for row in self.stored
        ]
        title = (
            f"ID images in their stored order, calibrated on every {STORED_STEP}th: the image of the alarm"
        )
        return Table.of_texts(title, ["data", "score", *(TITLES[kind] for kind in KINDS)], rows)

    def _delays(self, kind: str) -> Table:
        rows: dict[tuple[str, ...], list[str]] = {}
        for row in self.delays:
            if row.kind == kind:
                rows.setdefault((f"{row.data}: {row.ood}", row.score), []).append(row.text)
        shares = [f"{100 * share:g} % OOD" for share in SHARES]
        title = f"{TITLES[kind]}, {ALARMS[kind]:g}: samples from the change to the alarm, median (90 %)"
        return Table.of_texts(
            title, ["stream", "score", *shares], [[*key, *texts] for key, texts in rows.items()]
        )


@experiment(
    "monitor",
    "The monitor: false alarms, silence, and delay until a change",
    Need(FOLDER),
    *DATA,
    Need(OE_WEIGHTS),
)
def monitor(context: Context) -> Produced:
    simulated, lengths = [], []
    for size in CALIBRATIONS:
        context.say(f"monitor: unchanged streams, {size} calibration scores")
        rows, length = simulate(size, context.seed)
        simulated += rows
        lengths.append(length)
    silence, stored, delays = [], [], []
    for subject in subjects(context):
        specs = parse_specs(SCORES)
        found = Scorer(subject, specs, cache=context.scores).run().values
        for name in SCORES:
            score = detector_record(name).title
            context.say(f"monitor: {subject.name}, {score}")
            silence.append(quiet(subject, score, found[score][TEST], context.seed))
            stored.append(in_stored_order(subject, score, found[score][TEST]))
            delays += delayed(subject, score, found[score], context.seed)
    study = MonitorStudy(
        title="The monitor: false alarms, silence on real ID streams, and delay until a change",
        command="theodolite reproduce monitor",
        simulated=tuple(simulated),
        run_lengths=tuple(lengths),
        silence=tuple(silence),
        stored=tuple(stored),
        delays=tuple(delays),
    )
    return {"monitor": study}


def subjects(context: Context) -> Iterator[Subject]:
    yield convnet_subject(context)
    yield from_folder(context.root / FOLDER)


def simulate(size: int, seed: int) -> tuple[list[Simulated], RunLength]:
    """Streams in which nothing changes, on both kinds of p-values."""
    streams = runs.null_streams(size, NULL_SAMPLES, NULL_RUNS, seed)
    p_values = runs.growing_p_values(streams), runs.own_p_values(streams)
    games = [runs.evidence(values, MARTINGALE) for values in p_values]
    rows = []
    for level in LEVELS:
        shares = [float(np.isfinite(runs.alarm_times(game, level)).mean()) for game in games]
        errors = [(share * (1 - share) / NULL_RUNS) ** 0.5 for share in shares]
        figures = [round(100 * part, 4) for pair in zip(shares, errors, strict=True) for part in pair]
        rows.append(Simulated(size, level, *figures))
    times = runs.alarm_times(runs.evidence(p_values[0], SHIRYAEV_ROBERTS), OFTEN)
    lengths = np.minimum(times, NULL_SAMPLES)
    error = float(lengths.std() / NULL_RUNS**0.5)
    return rows, RunLength(size, 1 / OFTEN, round(float(lengths.mean()), 4), round(error, 4))


def quiet(subject: Subject, score: str, known: FloatArray, seed: int) -> Silence:
    """Alarms on ID streams."""
    times = runs.alarms_of(runs.shuffled(known, CALIBRATION, REAL_SAMPLES, REAL_RUNS, seed), ALARMS)
    return Silence(subject.name, score, {kind: _percent(np.isfinite(found)) for kind, found in times.items()})


def in_stored_order(subject: Subject, score: str, known: FloatArray) -> Stored:
    """Whether a data set changes on its way: one stream, nothing shuffled."""
    numbers = np.arange(len(known))
    calibrated = numbers % STORED_STEP == 0
    watched = runs.Streams(known[None, calibrated], known[None, ~calibrated])
    found: dict[str, int | None] = dict.fromkeys(KINDS)
    for kind, (time,) in runs.alarms_of(watched, ALARMS).items():
        if np.isfinite(time):
            found[kind] = 1 + int(numbers[~calibrated][int(time) - 1])
    return Stored(subject.name, score, len(known), found)


def delayed(subject: Subject, score: str, found: Mapping[str, FloatArray], seed: int) -> list[Delay]:
    """Alarms on streams that turn, for every OOD set and share."""
    streams = runs.shuffled(found[TEST], CALIBRATION, AFTER + TURNED, TURNED_RUNS, seed)
    watched = runs.Watched(runs.references(streams), ALARMS)
    before = watched.follow(streams.scores[:, :AFTER])
    rows = []
    for ood in (name for name in found if name != TEST):
        for share in SHARES:
            scores = runs.turned(streams.scores[:, AFTER:], found[ood], share, (seed, AFTER))
            for kind, delays in copy.deepcopy(watched).follow(scores).items():
                early = np.isfinite(before[kind])
                rows.append(
                    Delay(subject.name, score, ood, kind, share, *_summed(delays[~early]), _percent(early))
                )
    return rows


def _summed(delays: FloatArray) -> tuple[float | None, float | None, float]:
    median, ninety = (_quantile(delays, level) for level in (0.5, 0.9))
    return median, ninety, _percent(np.isfinite(delays))


def _percent(which: npt.NDArray[np.bool_]) -> float:
    return round(100 * float(which.mean()), 4)


def _quantile(delays: FloatArray, level: float) -> float | None:
    """The smallest delay that so many do not exceed; None where the stream ends before."""
    ordered: Sequence[float] = np.sort(delays).tolist()
    value = ordered[int(np.ceil(level * len(ordered))) - 1]
    return value if np.isfinite(value) else None
