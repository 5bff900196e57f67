"""Records as plain JSON values, and back: dataclasses, tuples, mappings, numbers, text.

What is read is checked against the types of the record: a file that says something else is refused with the
place that does, ``cells[3].value must be a number, got 'high'``.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from .errors import FormatError

JsonValue: TypeAlias = "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
JsonObject: TypeAlias = dict[str, JsonValue]
Record = TypeVar("Record")

_WORDS = {str: "a text", bool: "true or false", int: "a whole number", float: "a number"}


def to_plain(value: object) -> JsonValue:
    """A record, or anything made of records and plain values, as what `json.dumps` takes."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {part.name: to_plain(getattr(value, part.name)) for part in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(part) for part in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if hasattr(value, "item"):  # NumPy's numbers are Python's
        return to_plain(value.item())
    raise TypeError(f"{type(value).__name__} has no plain form")


def from_plain(kind: type[Record], value: object, where: str = "the content") -> Record:
    """The record of type ``kind`` that a plain value describes; fields left out take their defaults."""
    return cast(Record, _decoded(kind, value, where))


def _decoded(kind: Any, value: object, where: str) -> object:
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any or kind is object or isinstance(kind, str):
        return value
    if origin in (Union, types.UnionType):
        return _chosen(inner, value, where)
    if dataclasses.is_dataclass(kind):
        return _record(kind, value, where)
    if origin in (tuple, list, Sequence):
        given = _list(value, where)
        if inner[0] is str and all(type(part) is str for part in given):  # the names of a store are many
            return list(given) if origin is list else tuple(given)
        parts = [_decoded(inner[0], part, f"{where}[{place}]") for place, part in enumerate(given)]
        return parts if origin is list else tuple(parts)
    if origin in (dict, Mapping):
        items = _object(value, where).items()
        return {key: _decoded(inner[1], part, f"{where}.{key}") for key, part in items}
    return _scalar(kind, value, where)


def _chosen(kinds: tuple[Any, ...], value: object, where: str) -> object:
    """The first of several types that a value fits; None only where it is one of them."""
    if value is None and type(None) in kinds:
        return None
    others = [kind for kind in kinds if kind is not type(None)]
    for kind in others[:-1]:
        try:
            return _decoded(kind, value, where)
        except FormatError:
            continue
    return _decoded(others[-1], value, where)


def _record(kind: Any, value: object, where: str) -> object:
    given = _object(value, where)
    # Any plain value will do where a record asks for one; resolved here, the alias need not be by its module.
    hints = get_type_hints(kind, localns={"JsonValue": object, "JsonObject": dict[str, object]})
    names = {part.name for part in dataclasses.fields(kind) if part.init}
    unknown = sorted(set(given) - names)
    if unknown:
        raise FormatError(f"{where} has an unknown entry {unknown[0]!r}")
    for part in dataclasses.fields(kind):
        optional = part.default is not dataclasses.MISSING or part.default_factory is not dataclasses.MISSING
        if part.init and part.name not in given and not optional:
            raise FormatError(f"{where} lacks {part.name!r}")
    return kind(**{name: _decoded(hints[name], part, f"{where}.{name}") for name, part in given.items()})


def _scalar(kind: Any, value: object, where: str) -> object:
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind) or (kind in (int, float) and isinstance(value, bool)):
        raise FormatError(f"{where} must be {_WORDS.get(kind, kind.__name__)}, got {value!r}")
    return value


def _object(value: object, where: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise FormatError(f"{where} must be an object, got {type(value).__name__}")
    return value


def _list(value: object, where: str) -> Sequence[object]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise FormatError(f"{where} must be a list, got {type(value).__name__}")
    return value
