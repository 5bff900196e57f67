"""`python:package.module:factory`: a model of your own, built by calling a function you can import.

The factory takes no arguments and returns the model, or (model, preprocess). Without a preprocess the
pictures are squeezed to ``?size=224`` and scaled to [0, 1]; ``mean`` and ``std`` (comma-separated) normalise
them.
"""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image
from torch import Tensor, nn

from ...core.compat import import_module
from ...core.errors import InputError, ModelError
from ..preprocess import Pixels
from ..registry import LoadedModel, Preprocess, Request, source

_DEFAULT_SIZE = 224


@source("python", options=("size", "mean", "std", "layer"))
def load(request: Request) -> LoadedModel:
    factory = _factory(request)
    built, code = factory(), _code_digest(factory)
    if isinstance(built, LoadedModel):
        request.fill(built.model)
        return dataclasses.replace(built, preprocess_id=f"{built.preprocess_id}, {code}")
    model, given = built if isinstance(built, tuple) and len(built) == 2 else (built, None)
    if not isinstance(model, nn.Module) or not (given is None or callable(given)):
        raise ModelError(
            f"{request.spec}: the factory returned {type(built).__name__}, expected an nn.Module, "
            f"(module, preprocess) or a LoadedModel"
        )
    request.fill(model)
    preprocess, shape = _preprocess(request, given)
    return LoadedModel(
        spec=request.spec,
        model=model,
        preprocess=preprocess,
        preprocess_id=re.sub(r" at 0x[0-9a-f]+", "", repr(preprocess)) + f", {code}",
        input_shape=shape,
        layer=request.options.get("layer"),
    )


def _factory(request: Request) -> Callable[[], Any]:
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
    return factory  # type: ignore[no-any-return]


def _code_digest(factory: Callable[[], Any]) -> str:
    """Names the code of the factory's module: other layouts and comments are the same code.

    Weights say nothing of a changed forward pass, nor does the name of a function of what it does.
    """
    try:
        source_file = inspect.getsourcefile(factory)
        text = Path(source_file or "").read_text(encoding="utf-8")
        return f"code {hashlib.sha256(repr(_shape(ast.parse(text))).encode()).hexdigest()[:16]}"
    except (TypeError, OSError, SyntaxError, UnicodeDecodeError):
        return "code unknown"


def _shape(node: Any) -> Any:
    """A syntax tree as nested lists, the same in every version of Python: empty fields are left out."""
    if isinstance(node, ast.AST):
        fields = [(name, _shape(value)) for name, value in ast.iter_fields(node) if value not in (None, [])]
        return [type(node).__name__, *fields]
    return [_shape(part) for part in node] if isinstance(node, list) else node


def _preprocess(request: Request, given: Preprocess | None) -> tuple[Preprocess, tuple[int, int, int]]:
    if given is not None:
        probe = given(Image.new("RGB", (64, 48)))
        if not isinstance(probe, Tensor) or probe.ndim != 3:
            raise ModelError(
                f"{request.spec}: the preprocess must turn a PIL image into a (channels, height, width) "
                f"tensor"
            )
        channels, height, width = probe.shape
        return given, (channels, height, width)
    mean = _numbers(request, "mean") or (0.0, 0.0, 0.0)
    std = _numbers(request, "std") or (1.0,) * len(mean)
    if len(mean) not in (1, 3) or len(std) != len(mean):
        raise InputError(f"{request.spec}: mean and std must have 1 or 3 numbers each, equally many")
    pixels = Pixels(size=request.integer("size") or _DEFAULT_SIZE, mean=mean, std=std)
    return pixels, pixels.input_shape


def _numbers(request: Request, option: str) -> tuple[float, ...] | None:
    value = request.options.get(option)
    if value is None:
        return None
    try:
        return tuple(float(part) for part in value.split(","))
    except ValueError as error:
        raise InputError(f"{request.spec}: option {option} must be numbers such as 0.5,0.5,0.5") from error
