"""`python:package.module:factory`: a model of your own, built by calling a function you can import.

The factory takes no arguments and returns the model, (model, preprocess) or a `LoadedModel`. Without a
preprocess the pictures are squeezed to ``?size=224`` and scaled to [0, 1]; one ``mean`` alone says that the
model takes grey ones.

Weights say nothing of a changed forward pass, nor does the name of a function of what it does. So the model
is known by its code as well: by all that the factory reaches.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from PIL import Image
from torch import Tensor, nn

from ...core.code import code_digest
from ...core.compat import import_module
from ...core.errors import InputError, ModelError
from ...core.reach import reached_digest
from ..identity import REACHED, WHOLE_FILE, with_code
from ..preprocess import Pixels
from ..preprocess_options import numbers
from ..registry import LoadedModel, Preprocess, Request, source

_DEFAULT_SIZE = 224


@source("python", options=("layer",))
def load(request: Request) -> LoadedModel:
    module, function, factory = _factory(request)
    loaded = _built(request, factory())
    request.fill(loaded.model)
    said = loaded.preprocess_id
    return replace(
        loaded,
        preprocess_id=with_code(said, REACHED, reached_digest(module, function)),
        former_ids=(with_code(said, WHOLE_FILE, _whole_file(factory)),),
    )


def _built(request: Request, built: Any) -> LoadedModel:
    """What the factory returned, as a model with its preprocessing."""
    if isinstance(built, LoadedModel):
        return replace(built, spec=request.spec, layer=request.options.get("layer", built.layer))
    model, given = built if isinstance(built, tuple) and len(built) == 2 else (built, None)
    if not isinstance(model, nn.Module) or not (given is None or callable(given)):
        raise ModelError(
            f"{request.spec}: the factory returned {type(built).__name__}, expected an nn.Module, "
            f"(module, preprocess) or a LoadedModel"
        )
    preprocess = _default(request) if given is None else given
    return LoadedModel(
        spec=request.spec,
        model=model,
        preprocess=preprocess,
        preprocess_id=re.sub(r" at 0x[0-9a-f]+", "", repr(preprocess)),
        input_shape=_shape_of(request, preprocess),
        layer=request.options.get("layer"),
    )


def _factory(request: Request) -> tuple[str, str, Callable[[], Any]]:
    module_name, _, function = request.name.partition(":")
    if not module_name or not function:
        raise InputError(f"{request.spec} must have the form python:package.module:factory")
    # A script beside the working directory is importable for `python -m`, and should be here.
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))
    try:
        factory = getattr(import_module(module_name), function)
    except (ImportError, AttributeError) as error:
        raise ModelError(
            f"{request.spec} cannot be imported ({error}): check that the module is installed or lies in the "
            f"working directory, and that it defines {function!r}"
        ) from error
    if not callable(factory):
        raise ModelError(f"{request.spec}: {function!r} is a {type(factory).__name__}, expected a function")
    return module_name, function, factory


def _whole_file(factory: Callable[[], Any]) -> str | None:
    """The digest by which version 0.1.0 knew the model: of the file that the factory lies in."""
    try:
        return code_digest(Path(inspect.getsourcefile(factory) or "").read_text(encoding="utf-8"))
    except (TypeError, OSError, SyntaxError, ValueError):
        return None


def _default(request: Request) -> Pixels:
    """For a model that brings no preprocessing; options change it further."""
    channels = len(numbers(request.options, "mean", request.spec)) if "mean" in request.options else 3
    return Pixels(size=_DEFAULT_SIZE, mean=(0.0,) * channels, std=(1.0,) * channels)


def _shape_of(request: Request, preprocess: Preprocess) -> tuple[int, int, int]:
    if isinstance(preprocess, Pixels):
        return preprocess.input_shape
    probe = preprocess(Image.new("RGB", (64, 48)))
    if not isinstance(probe, Tensor) or probe.ndim != 3:
        raise ModelError(
            f"{request.spec}: the preprocess must turn a PIL image into a (channels, height, width) tensor"
        )
    channels, height, width = probe.shape
    return channels, height, width
