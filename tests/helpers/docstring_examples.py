"""The examples in docstrings: found, and run by doctest.

As in NumPy's own docstrings `np` is numpy in them; `th` is theodolite, and `torch` is torch.
"""

from __future__ import annotations

import doctest
import inspect

import numpy as np
import torch

import theodolite as th

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
CONSTANTS = {"RECOMMENDED", "__version__"}
# These run beside the other tests of Ray, in tests/guard/test_ray.py.
ON_RAY = ("collect_dataset", "score_on_ray")


def public() -> list[str]:
    names: list[str] = th.__all__  # type: ignore[attr-defined]
    return [name for name in names if name not in CONSTANTS]


def example_of(name: str) -> doctest.DocTest:
    names = {"np": np, "th": th, "torch": torch}
    docs = inspect.getdoc(getattr(th, name)) or ""
    return doctest.DocTestParser().get_doctest(docs, names, f"theodolite.{name}", None, 0)


def failures(name: str) -> str:
    """What doctest has to say of an example; nothing if it gives what it shows."""
    said: list[str] = []
    doctest.DocTestRunner(verbose=False, optionflags=FLAGS).run(example_of(name), out=said.append)
    return "".join(said)
