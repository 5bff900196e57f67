"""A service on a real socket of this machine, and guards for it that are small and know their model."""

from __future__ import annotations

import asyncio
import io
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import httpx
import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from theodolite import Detector, Energy, Guard
from theodolite.features.checked import checked_capture
from theodolite.guard import Provenance
from theodolite.models import load_model
from theodolite.serve import Service
from theodolite.serve.door import Access, access
from theodolite.serve.server import address_of, listening, server_of

MODEL = "python:small_models:Tiny?mean=0&size=8"
SIDE = 8


@cache
def features_of_noise() -> torch.Tensor:
    capture = checked_capture(load_model(MODEL))
    features, _ = capture(torch.rand(400, 1, SIDE, SIDE, generator=torch.Generator().manual_seed(0)))
    return features


def picture_guard(spec: str = MODEL, detector: Detector | None = None, **description: Any) -> Guard:
    """A guard on noise of 8×8 that knows its model, and has it attached."""
    loaded = load_model(spec)
    capture = checked_capture(loaded)
    features, _ = capture(torch.rand(400, 1, SIDE, SIDE, generator=torch.Generator().manual_seed(0)))
    provenance = Provenance.of_model(loaded, capture.layer, orientation="exif")
    detector = detector or Energy()
    guard = Guard.fit(features, head=capture.head, detector=detector, provenance=provenance, **description)
    return guard.attach(loaded)


def picture(seed: int) -> Image.Image:
    """Grey noise, another one for every seed."""
    pixels = np.random.default_rng(seed).integers(0, 256, (SIDE, SIDE), dtype=np.uint8)
    return Image.fromarray(pixels)


def png(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def npy(rows: npt.NDArray[Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, rows)
    return file.getvalue()


@contextmanager
def live(service: Service, entry: Access | None = None, *, wait: bool = True) -> Iterator[str]:
    """The address of a service that runs in a thread; it is drained and stopped at the end."""
    with listening("127.0.0.1", 0) as listener:
        server = server_of(service, entry or access("127.0.0.1", None))
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])))
        thread.start()
        try:
            address = address_of(listener)
            while wait and httpx.get(f"{address}/readyz").status_code != 200:
                assert service.failure is None, service.failure
                time.sleep(0.01)
            yield address
        finally:
            server.stop()
            thread.join()
