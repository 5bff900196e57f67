"""`theodolite serve`: a guard behind an address."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from ..core.errors import InputError
from . import _options as options
from ._console import say, screen

TOKEN = "THEODOLITE_TOKEN"


def serve(
    guard: options.GuardName,
    host: Annotated[
        str, typer.Option("--host", help="The address to listen on; beyond this machine it needs a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 is any free one.")] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", help=f"A file with the token of clients (or the variable {TOKEN})."),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", help="A name that a proxy in front gives this host; repeatable."),
    ] = None,
    model: options.OwnModel = None,
    weights: options.Weights = None,
    device: options.Device = "auto",
    accept_code_change: options.AcceptCodeChange = False,
    batch_size: Annotated[int, typer.Option("--batch-size", help="Most samples in one pass.")] = 32,
    batch_wait: Annotated[
        float, typer.Option("--batch-wait", help="Seconds that a batch waits for pictures being decoded.")
    ] = 0.005,
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, help="Threads that decode (default: by the cores).")
    ] = None,
    max_bytes: Annotated[int, typer.Option("--max-bytes", help="Bytes a request.")] = 2**25,
    max_json_bytes: Annotated[int, typer.Option("--max-json-bytes", help="Bytes of JSON.")] = 2**22,
    max_picture_bytes: Annotated[int, typer.Option("--max-picture-bytes", help="Bytes a picture.")] = 2**24,
    max_pixels: Annotated[int, typer.Option("--max-pixels", help="Pixels a picture.")] = 50_000_000,
    max_pictures: Annotated[int, typer.Option("--max-pictures", help="Pictures a request.")] = 64,
    max_rows: Annotated[int, typer.Option("--max-rows", help="Rows of features a request.")] = 4_096,
    max_queue: Annotated[
        int, typer.Option("--max-queue", help="Pictures and sets of features that wait for an answer.")
    ] = 256,
    max_waiting_bytes: Annotated[
        int, typer.Option("--max-waiting-bytes", help="Bytes of all requests together.")
    ] = 2**29,
    max_connections: Annotated[int, typer.Option("--max-connections", help="Open connections.")] = 512,
    header_timeout: Annotated[
        float, typer.Option("--header-timeout", help="Seconds until a request's header is there.")
    ] = 10.0,
    body_timeout: Annotated[
        float, typer.Option("--body-timeout", help="Seconds until a request's body is there.")
    ] = 30.0,
    timeout: Annotated[
        float, typer.Option("--timeout", help="Seconds until an answer, from when the body is there.")
    ] = 30.0,
    watch: Annotated[bool, typer.Option("--monitor/--no-monitor", help="Watch the scores for drift.")] = True,
    alarm: Annotated[
        float | None,
        typer.Option("--alarm", help="One false alarm of the monitor in 1/ALARM samples (default 1e-5)."),
    ] = None,
    monitor_state: Annotated[
        Path | None,
        typer.Option("--monitor-state", help="Go on from this file if it is there, and write it."),
    ] = None,
    access_log: Annotated[bool, typer.Option("--access-log", help="Print a line for every request.")] = False,
) -> None:
    """Answer requests with verdicts: pictures or features in, JSON out; a page for people at /."""
    from ..guard import Monitor
    from ..guard.martingale import SHIRYAEV_ROBERTS
    from ..serve import Bounds, Service, Watching, judging_of, run
    from ..serve.door import access

    bounds = Bounds(
        request_bytes=max_bytes,
        json_bytes=max_json_bytes,
        picture_bytes=max_picture_bytes,
        pixels=max_pixels,
        pictures=max_pictures,
        rows=max_rows,
        queue=max_queue,
        waiting_bytes=max_waiting_bytes,
        connections=max_connections,
        header_seconds=header_timeout,
        body_seconds=body_timeout,
        answer_seconds=timeout,
        batch=batch_size,
        batch_seconds=batch_wait,
    )
    entry = access(host, _token(token_file), allow_host or ())
    judging = judging_of(
        guard, model=model, weights=weights, device=device, accept_code_change=accept_code_change
    )
    watching = None
    if watch:
        kind = SHIRYAEV_ROBERTS
        monitor = Monitor.resumed(judging.calibration, monitor_state, alarm=alarm, kind=kind)
        watching = Watching(monitor, monitor_state)
    elif alarm is not None or monitor_state is not None:
        raise InputError("--alarm and --monitor-state are of the monitor: leave out --no-monitor")
    console = screen(stderr=True)
    run(
        Service(judging, bounds=bounds, threads=threads, watching=watching),
        host,
        port,
        entry=entry,
        access_log=access_log,
        started=lambda address: say(console, f"{judging.title} on {address}", title="serving "),
    )


def _token(file: Path | None) -> str | None:
    """The token of the file, or of the environment; never of the command line, which everybody can read."""
    if file is None:
        return os.environ.get(TOKEN) or None
    try:
        return file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--token-file {file} cannot be read as ASCII text: {error}") from error
