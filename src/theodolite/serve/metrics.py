"""What the service counts, for Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

MEDIA_TYPE = CONTENT_TYPE_LATEST
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096)


class Metrics:
    """Counters of one service; ``path`` and ``code`` are of few values, whatever clients ask for."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self._requests = Counter(
            "theodolite_requests", "Requests answered.", ("path", "code"), registry=registry
        )
        self._seconds = Histogram(
            "theodolite_request_seconds",
            "Time from a request's header to its answer.",
            ("path",),
            buckets=_SECONDS,
            registry=registry,
        )
        self._batch = Histogram(
            "theodolite_batch_size", "Samples judged in one pass.", buckets=_SIZES, registry=registry
        )
        self._judging = Histogram(
            "theodolite_batch_seconds", "Time to judge one batch.", buckets=_SECONDS, registry=registry
        )
        self._waiting = Gauge(
            "theodolite_queue_depth", "Pictures and sets of features without an answer.", registry=registry
        )
        self._verdicts = Counter(
            "theodolite_verdicts",
            "Verdicts at the guard's own rate; OOD and unscorable are flagged.",
            ("verdict",),
            registry=registry,
        )
        self._evidence = Gauge(
            "theodolite_drift_evidence",
            "Evidence that samples are no longer like the calibration data, as a power of ten.",
            registry=registry,
        )
        self._alarm = Gauge(
            "theodolite_drift_alarm", "1 once the evidence has raised an alarm.", registry=registry
        )
        self._ready = Gauge("theodolite_ready", "1 when requests are answered.", registry=registry)

    def request(self, path: str, code: int, seconds: float) -> None:
        self._requests.labels(path, str(code)).inc()
        self._seconds.labels(path).observe(seconds)

    def batch(self, size: int, seconds: float) -> None:
        self._batch.observe(size)
        self._judging.observe(seconds)

    def waiting(self, jobs: int) -> None:
        self._waiting.set(jobs)

    def verdict(self, verdict: str) -> None:
        self._verdicts.labels(verdict).inc()

    def drift(self, evidence: float, alarm: bool) -> None:
        self._evidence.set(evidence)
        self._alarm.set(alarm)

    def ready(self, ready: bool) -> None:
        self._ready.set(ready)

    def text(self) -> bytes:
        """All of them, as Prometheus reads it."""
        return generate_latest(self._registry)
