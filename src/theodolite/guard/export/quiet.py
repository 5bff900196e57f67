"""Silence while others record, translate and read graphs: what they note is no news for a user."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

_LOGGERS = ("torch.onnx", "torch.export", "onnxscript", "onnx_ir")
_MODULES = r"(torch|onnx|onnxscript|onnx_ir|copyreg)(\.|$)"


@contextmanager
def quiet() -> Iterator[None]:
    """Errors pass, warnings of the packages that make graphs do not."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=_MODULES)
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
