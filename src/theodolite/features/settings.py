"""What to extract and how to run the model, in one record each; and how far an extraction is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from ..data.sampling import SEED
from .asking import AsksModel
from .engine import RayEngine
from .run_log import RunLog
from .writer import SHARD_ROWS


@dataclass(frozen=True)
class Running:
    """How to run a model; nothing here decides what the features are, except `autocast`.

    ``device`` is ``auto``, ``cpu`` or ``cuda``; ``workers`` are processes that read pictures (None: threads
    of this process, by the cores; 0: none, the model waits for them), ``batch_size`` pictures a forward pass.
    A picture that cannot be read is an error, unless such are to be skipped. ``channels_last`` is how
    pictures lie in memory, which decides the last digits (None: the faster way, measured on the first ones),
    ``compile`` has torch compile the model. What a run chose is written into its ``log``. ``engine`` is
    ``"ray"``, ``"ray:ADDRESS"`` or a `RayEngine` where a cluster runs it instead of this process.

    >>> th.Running(device="cpu", batch_size=256, engine=th.RayEngine(concurrency=8, gpus=1)).batch_size
    256
    """

    device: str = "auto"
    workers: int | None = None
    autocast: bool = False
    channels_last: bool | None = None
    skip_unreadable: bool = False
    batch_size: int | None = None
    compile: bool = False
    log: RunLog | None = field(default=None, compare=False, repr=False)
    engine: RayEngine | str | None = None


@dataclass(frozen=True)
class ExtractionSettings:
    """Which samples of the data, which features of the model, and how to run it.

    ``kind`` says what the data is where its path does not show it; ``part`` is one of several equal runs of
    samples (``"2/8"``), ``limit`` keeps a sample of so many, in which every class has its share and which the
    ``seed`` decides. ``layer`` names the head where it cannot be found by itself, or several layers with
    commas between, of which rows are made (`LayerRows`); ``score`` is a detector that asks more of the model
    than features (`asking`). ``headless`` takes the output of a model, an encoder, for the features; what
    looks like logits then only with ``force``. ``dtype`` is ``float32`` or ``float16``. ``repair`` also
    extracts again every shard of the store that is damaged; ``verify`` reads every picture to know whether it
    changed, instead of asking the file system.

    >>> settings = th.ExtractionSettings(part="2/8", dtype="float16", running=th.Running(workers=4))
    >>> settings.running.workers
    4
    """

    kind: str | None = None
    part: str | None = None
    limit: int | None = None
    seed: int = SEED
    layer: str | None = None
    headless: bool = False
    force: bool = False
    score: AsksModel | None = None
    dtype: str = "float32"
    shard_rows: int = SHARD_ROWS
    repair: bool = False
    verify: bool = False
    running: Running = Running()


@dataclass(frozen=True)
class ExtractionProgress:
    """How far the extraction of ``data`` under ``model`` is, in samples.

    ``total`` is 0 until the data has been listed. ``kept`` is the folder in the cache, once all is in it.
    """

    model: str
    data: str
    done: int = 0
    total: int = 0
    kept: Path | None = None


Watch: TypeAlias = Callable[[ExtractionProgress], None]
