"""The engine that runs a model over data: this process, or the workers of a Ray cluster.

    Running(engine="ray")                                          # a Ray of this machine, for this one run
    Running(engine=RayEngine("10.0.0.1:6379", concurrency=8, gpus=1))

Which engine it is decides how long a run takes and where, never what it gives.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..core.errors import InputError, did_you_mean

LOCAL, RAY = "local", "ray"


@dataclass(frozen=True)
class RayEngine:
    """A Ray cluster, and how many models run on it at once.

    ``address`` is where it is: ``auto`` for the one that this machine belongs to, ``HOST:PORT``,
    ``ray://HOST:PORT``; without one the variable RAY_ADDRESS, or else a Ray that is started on this machine
    and ends with the run. ``concurrency`` models run at once (None: as many as the cluster has room for when
    the run begins), each in a process that Ray gives ``cpus`` cores and ``gpus`` GPUs; the batch size is
    that of `Running`.

    >>> th.RayEngine("10.0.0.1:6379", concurrency=8, cpus=4).threads
    4
    """

    address: str | None = None
    concurrency: int | None = None
    cpus: float = 1.0
    gpus: float = 0.0

    def __post_init__(self) -> None:
        if self.concurrency is not None and self.concurrency < 1:
            raise InputError(f"concurrency must be at least 1, got {self.concurrency}")
        if not 0 < self.cpus < float("inf"):
            raise InputError(f"cpus of a model must be more than 0, got {self.cpus}")
        if not 0 <= self.gpus < float("inf"):
            raise InputError(f"gpus of a model must be 0 or more, got {self.gpus}")

    @property
    def threads(self) -> int:
        """Threads that a model computes with."""
        return max(1, int(self.cpus))

    def device(self, asked: str) -> str:
        """The device of a model: a process without a share of a GPU keeps off the GPUs of others."""
        return "cpu" if asked == "auto" and self.gpus == 0 else asked


def engine_of(engine: RayEngine | str | None) -> RayEngine | None:
    """The Ray that an engine names, ``ray`` or ``ray:ADDRESS``; None for this process, ``local``."""
    if engine is None or isinstance(engine, RayEngine):
        return engine
    name, colon, address = engine.partition(":")
    if name == RAY and (address.strip() or not colon):
        return RayEngine(address or None)
    if engine == LOCAL:
        return None
    raise InputError(
        f"engine must be {LOCAL}, {RAY} or {RAY}:ADDRESS, got {engine!r:.200}"
        f"{did_you_mean(engine, (LOCAL, RAY))}"
    )


def require_here(engine: RayEngine | str | None, what: str, instead: str = "") -> None:
    """Refuse a Ray for what this process does: it would be left out silently."""
    if engine_of(engine) is not None:
        other = f", or use {instead}" if instead else ""
        raise InputError(f"the engine is {RAY}, but {what} is done by this process: leave it out{other}")
