"""What an option of a score or a shaping may be, read from the annotations of its constructor.

A constructor that says ``temperature: float`` is called with a finite float, or not at all; the same goes for
``int``, ``bool``, ``str``, classes, and unions of them. It is checked here, once, for every score: also for
one of your own. An option without an annotation is passed as it is.
"""

from __future__ import annotations

import functools
import inspect
import math
import numbers
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, Union, get_args, get_origin

import numpy as np

from ..core.errors import InputError

Constructor = TypeVar("Constructor", bound=Callable[..., None])
Kinds: TypeAlias = tuple[type, ...]

# Where a whole number ends: what files and indices can hold.
_LARGEST = 2**63
_WORDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a finite number",
    str: "a text",
    Path: "a path",
    type(None): "None",
}


class CheckedOptions:
    """Base of what has options: every subclass gets a constructor that checks them.

    Once ``_frozen`` they stay: some would change the scores, some would not, and nothing would say which.
    """

    _frozen = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "__init__" in cls.__dict__:
            cls.__init__ = checking_options(cls.__init__)  # type: ignore[method-assign]

    def __setattr__(self, name: str, value: object) -> None:
        if self._frozen and name in option_names(type(self).__init__):
            raise InputError(
                f"{name} cannot be changed after the fit: make another {type(self).__name__}({name}=…) and "
                f"fit that"
            )
        super().__setattr__(name, value)


def checking_options(constructor: Constructor) -> Constructor:
    """A constructor that is called with options of the types it asks for."""
    if hasattr(constructor, "__wrapped__"):
        return constructor

    @functools.wraps(constructor)
    def checked(self: object, *args: object, **options: object) -> None:
        wanted = option_kinds(constructor)
        given = {
            name: option_value(name, value, wanted[name]) if wanted.get(name) else value
            for name, value in options.items()
        }
        constructor(self, *args, **given)

    return checked  # type: ignore[return-value]


@functools.cache
def option_names(constructor: Callable[..., None]) -> tuple[str, ...]:
    """What the constructor takes by name."""
    parameters = inspect.signature(constructor).parameters
    return tuple(name for name in parameters if name != "self")


@functools.cache
def option_kinds(constructor: Callable[..., None]) -> Mapping[str, Kinds]:
    """The types that each option may have; none where its annotation does not say it in a way known here."""
    constructor = inspect.unwrap(constructor)
    parameters = inspect.signature(constructor).parameters.values()
    return {
        parameter.name: _kinds(parameter.annotation, constructor.__globals__)
        for parameter in parameters
        if parameter.annotation is not parameter.empty
    }


def option_value(name: str, value: object, kinds: Kinds) -> object:
    """The value as the first of the types that it is; refused if it is none of them."""
    for kind in kinds:
        try:
            return _as_kind(kind, value)
        except ValueError:
            continue
    words = " or ".join(_WORDS.get(kind, kind.__name__) for kind in kinds)
    raise InputError(f"{name} must be {words}, got {_shown(value)}")


def _kinds(annotation: Any, names: Mapping[str, Any]) -> Kinds:
    if isinstance(annotation, str):
        try:
            annotation = eval(annotation, dict(names))
        except Exception:  # a name that only type checkers see
            return ()
    if get_origin(annotation) in (Union, types.UnionType):
        parts = [_kinds(part, names) for part in get_args(annotation)]
        return tuple(kind for part in parts for kind in part) if all(parts) else ()
    if annotation is None:
        return (type(None),)
    return (annotation,) if isinstance(annotation, type) and annotation is not object else ()


def _as_kind(kind: type, value: object) -> object:
    """The value as ``kind``; ValueError if it is not one."""
    truth = isinstance(value, bool | np.bool_)
    if kind is bool and truth:
        return bool(value)
    if kind in (int, float) and isinstance(value, numbers.Real) and not truth:
        return _number(kind, value)
    if kind not in (bool, int, float) and isinstance(value, kind):
        return value
    raise ValueError


def _number(kind: type, value: Any) -> int | float:
    try:
        number = float(value)
    except OverflowError as error:
        raise ValueError from error
    if not math.isfinite(number) or (kind is int and not (number == int(value) and abs(number) < _LARGEST)):
        raise ValueError
    return int(value) if kind is int else number


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
