"""What the extra `serve` brings must be there: one line says so where it is not."""

from __future__ import annotations

from importlib import import_module

from ..core.errors import MissingExtraError

_PACKAGES = {
    "fastapi": "fastapi",
    "prometheus_client": "prometheus-client",
    "python_multipart": "python-multipart",
    "uvicorn": "uvicorn",
}

for _module, _package in _PACKAGES.items():
    try:
        import_module(_module)
    except ModuleNotFoundError as _error:
        raise MissingExtraError(_package, "serve") from _error
