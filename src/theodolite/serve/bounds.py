"""What the service takes at most, of one client and of all of them."""

from __future__ import annotations

from dataclasses import dataclass, fields

from ..core.errors import InputError

MEBIBYTE = 2**20
# Pillow opens no picture with more.
_MOST_PIXELS = 178_956_970


@dataclass(frozen=True)
class Bounds:
    """Each is refused with a 4xx where the client asks too much, with a 503 where all of them together do.

    ``queue`` counts pictures and sets of features that wait for an answer, ``waiting_bytes`` the bodies of
    all requests that were begun. ``batch_seconds`` is how long a batch waits for pictures being decoded;
    alone, a request waits for nobody.
    """

    request_bytes: int = 32 * MEBIBYTE
    json_bytes: int = 4 * MEBIBYTE
    picture_bytes: int = 16 * MEBIBYTE
    pixels: int = 50_000_000
    pictures: int = 64
    rows: int = 4_096
    queue: int = 256
    waiting_bytes: int = 512 * MEBIBYTE
    connections: int = 512
    header_seconds: float = 10.0
    body_seconds: float = 30.0
    answer_seconds: float = 30.0
    batch: int = 32
    batch_seconds: float = 0.005

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            least = 0 if field.name == "batch_seconds" else 1 if isinstance(field.default, int) else 0.01
            if not least <= value < float("inf"):
                raise InputError(f"{field.name} must be at least {least}, got {value}")
        if self.pixels > _MOST_PIXELS:
            raise InputError(f"pixels must be at most {_MOST_PIXELS:,}, got {self.pixels:,}")
