"""The service watches its own scores: the evidence of a monitor of the same stream, kept over restarts."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import httpx
import numpy as np
import pytest
import torch

pytest.importorskip("fastapi", reason="the extra serve is not installed")

from live_service import live, npy, picture, picture_guard, png
from made_guards import WIDTH, clusters, fitted
from theodolite import Guard, Monitor
from theodolite.core.errors import InputError, StorageError
from theodolite.guard.martingale import SHIRYAEV_ROBERTS
from theodolite.serve import Service, Watching, judging_of

NPY = {"Content-Type": "application/x-npy"}
pytestmark = pytest.mark.filterwarnings("ignore:the guard knows no model")


def monitor(guard: Guard) -> Monitor:
    return guard.monitor(kind=SHIRYAEV_ROBERTS)


def batches() -> list[np.ndarray]:
    """Rows like those fitted on, one without a score, then rows that are strange."""
    familiar = [clusters(40, seed)[0].numpy() for seed in (5, 6, 7)]
    familiar[1][3] = np.nan
    noise = 4 * torch.randn(60, WIDTH, generator=torch.Generator().manual_seed(1))
    return [*familiar, noise.numpy()]


def sent(address: str, rows: np.ndarray) -> None:
    answer = httpx.post(f"{address}/v1/score", content=npy(rows), headers=NPY)
    assert answer.status_code == 200, answer.text


def test_the_evidence_is_that_of_a_monitor_of_the_stream(caplog: pytest.LogCaptureFixture) -> None:
    guard = fitted()
    watching = Watching(monitor(guard))
    with caplog.at_level(logging.WARNING), live(Service(judging_of(guard), watching=watching)) as address:
        assert httpx.get(f"{address}/v1/guard").json()["drift"]["evidence"] is None
        for rows in batches():
            sent(address, rows)
        metrics = httpx.get(f"{address}/metrics").text
    alone = monitor(guard)
    for rows in batches():
        alone.update(np.asarray(guard.verdicts(rows, unscorable="flag").score))
    assert (watching.now.seen, watching.now.alarmed_at) == (180, alone.alarmed_at)
    assert alone.alarmed_at is not None
    assert 120 < alone.alarmed_at <= 140, "soon after the change"
    assert watching.now.evidence == pytest.approx(alone.evidence, rel=1e-6)
    assert caplog.text.count(f"alarm at sample {alone.alarmed_at}") == 1
    assert re.search(r"^theodolite_drift_alarm (0|1)\.0$", metrics, re.MULTILINE)
    assert re.search(r"^theodolite_drift_evidence -?\d", metrics, re.MULTILINE)


def test_the_state_goes_on_where_it_was(tmp_path: Path) -> None:
    guard, state = fitted(), tmp_path / "drift.safetensors"
    for rows in batches():
        known = Monitor.resumed(guard.calibration, state, kind=SHIRYAEV_ROBERTS)
        with live(Service(judging_of(guard), watching=Watching(known, state))) as address:
            sent(address, rows)
    whole = monitor(guard)
    for rows in batches():
        whole.update(np.asarray(guard.verdicts(rows, unscorable="flag").score))
    kept = Monitor.load(state, guard.calibration)
    assert (kept.seen, kept.unscorable, kept.alarmed_at) == (180, 1, whole.alarmed_at)
    assert kept.evidence == pytest.approx(whole.evidence, rel=1e-6)
    with pytest.raises(InputError, match="kind martingale does not go with"):
        Monitor.resumed(guard.calibration, state, kind="martingale")


def test_an_alarm_stays_after_a_restart(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    guard, state = fitted(), tmp_path / "drift.safetensors"
    known = monitor(guard)
    known.update(np.full(50, -10.0))
    known.save(state)
    watching = Watching(Monitor.load(state, guard.calibration), state)
    with caplog.at_level(logging.WARNING), live(Service(judging_of(guard), watching=watching)) as address:
        metrics = httpx.get(f"{address}/metrics").text
        said = httpx.get(f"{address}/v1/guard").json()["drift"]
    assert said["alarmed_at"] == known.alarmed_at
    assert "theodolite_drift_alarm 1.0" in metrics
    assert f"theodolite_drift_evidence {known.evidence}" in metrics
    assert f"alarm at sample {known.alarmed_at}" in caplog.text


def test_a_state_that_cannot_be_written_is_known_at_the_start_and_costs_no_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    guard = fitted()
    with pytest.raises(StorageError):
        Watching(monitor(guard), tmp_path / "nowhere" / "drift.safetensors")
    place = tmp_path / "there"
    place.mkdir()
    watching = Watching(monitor(guard), place / "drift.safetensors")
    with live(Service(judging_of(guard), watching=watching)) as address:
        (place / "drift.safetensors").unlink()
        place.rmdir()
        for _ in range(30):
            sent(address, batches()[0])
    assert watching.now.seen == 1_200, "all answers, and all of them in the evidence"
    assert caplog.text.count("the state of the monitor was not kept") == 2, "after 1,000, and at the end"


def test_clients_rates_do_not_mix_with_the_share_that_is_flagged() -> None:
    guard = fitted()
    with live(Service(judging_of(guard))) as address:
        rows = clusters(400, 5)[0].numpy()
        asked = httpx.post(f"{address}/v1/score?false_alarm_rate=0.9", content=npy(rows), headers=NPY)
        metrics = httpx.get(f"{address}/metrics").text
    assert sum(one["verdict"] == "OOD" for one in asked.json()["results"]) > 300
    expected = int(np.asarray(guard.verdicts(rows).is_ood).sum())
    assert f'theodolite_verdicts_total{{verdict="OOD"}} {expected}.0' in metrics


def test_what_is_no_picture_says_nothing_of_the_stream() -> None:
    guard = picture_guard()
    watching = Watching(monitor(guard))
    with live(Service(judging_of(guard), watching=watching)) as address:
        sending = [("pictures", ("a.png", png(picture(0)))), ("pictures", ("b.png", b"no picture"))]
        both = httpx.post(f"{address}/v1/score", files=sending).json()["results"]
        only = httpx.post(f"{address}/v1/score", files=sending[1:])
    assert both[1]["verdict"] == "unreadable"
    assert only.status_code == 200
    assert watching.now.seen == 1


def test_without_a_monitor_nothing_is_said_of_drift() -> None:
    with live(Service(judging_of(fitted()))) as address:
        sent(address, batches()[0])
        assert httpx.get(f"{address}/v1/guard").json()["drift"] is None
