"""A request that is not answered as asked: the status, and one sentence that says why."""

from __future__ import annotations

# How soon a client may try again when the service is busy, in seconds.
RETRY_AFTER = 1


class Refusal(Exception):  # noqa: N818
    """Becomes a response ``{"detail": …}`` with this status."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail

    @property
    def headers(self) -> dict[str, str]:
        """What goes with the status; a client that was too slow is not waited for any longer."""
        if self.status == 503:
            return {"Retry-After": str(RETRY_AFTER)}
        return {"Connection": "close"} if self.status == 408 else {}
