"""What a body holds: the pictures of a form, or the rows of features in JSON or a NumPy file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from torch import Tensor

from ..core.arrays import as_tensor
from ..core.errors import FormatError
from ..data.npy import array_of_bytes
from .bounds import Bounds
from .refusal import Refusal

FIELD = "pictures"
# Longer names of files are cut: they come back in the answer.
_LONGEST_NAME = 255


class Part(NamedTuple):
    """One picture of a form, by the name that the client gave its file."""

    name: str
    content: bytes


def pictures_in(body: bytes, content_type: str, bounds: Bounds) -> list[Part]:
    """The pictures of a multipart form, in order."""
    _, options = parse_options_header(content_type)
    boundary = options.get(b"boundary")
    if not boundary:
        raise Refusal(400, "the form has no boundary: its Content-Type must say which")
    form = _Form(bounds)
    try:
        parser = MultipartParser(
            boundary,
            {
                "on_part_begin": form.begin,
                "on_header_field": form.header_name,
                "on_header_value": form.header_value,
                "on_header_end": form.header_end,
                "on_headers_finished": form.headers_finished,
                "on_part_data": form.data,
                "on_part_end": form.end,
                "on_end": form.finish,
            },
        )
        parser.write(body)
        parser.finalize()
    except FormParserError as error:
        raise Refusal(400, f"the form cannot be read: {error}") from error
    if not form.finished:
        raise Refusal(400, "the form ends before its last boundary: it was cut off")
    if not form.parts:
        raise Refusal(422, f"the form holds no picture: send files in the field {FIELD!r}")
    return form.parts


@dataclass
class _Form:
    """What the parser has seen so far; a form with a field that is not known is refused, not half read."""

    bounds: Bounds
    parts: list[Part] = field(default_factory=list)
    finished: bool = False
    _name: bytes = b""
    _value: bytes = b""
    _disposition: bytes = b""
    _file: str = ""
    _content: bytearray = field(default_factory=bytearray)

    def begin(self) -> None:
        self._disposition, self._content = b"", bytearray()
        if len(self.parts) == self.bounds.pictures:
            raise Refusal(
                422,
                f"the form holds more than {self.bounds.pictures} pictures: send them in several requests",
            )

    def header_name(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def header_end(self) -> None:
        if self._name.lower() == b"content-disposition":
            self._disposition = self._value
        self._name = self._value = b""

    def headers_finished(self) -> None:
        _, options = parse_options_header(self._disposition)
        name = options.get(b"name", b"").decode("utf-8", "replace")
        if name != FIELD:
            raise Refusal(
                422,
                f"the form has a field {name[:80]!r}, which is not known: pictures come in the field "
                f"{FIELD!r}, everything else in the address (?false_alarm_rate=0.01)",
            )
        if b"filename" not in options:
            raise Refusal(
                422,
                f"the field {FIELD!r} holds a text, not a file: give it a file name (curl -F {FIELD}=@FILE)",
            )
        self._file = options[b"filename"].decode("utf-8", "replace")[:_LONGEST_NAME]

    def data(self, data: bytes, start: int, end: int) -> None:
        if len(self._content) + end - start > self.bounds.picture_bytes:
            raise Refusal(413, f"picture {len(self.parts)} has more than {self.bounds.picture_bytes:,} bytes")
        self._content += data[start:end]

    def end(self) -> None:
        self.parts.append(Part(self._file, bytes(self._content)))

    def finish(self) -> None:
        self.finished = True


def rows_in_json(body: bytes, width: int, bounds: Bounds) -> Tensor:
    """The rows of ``{"features": [[…], …]}`` in float64. NaN and Infinity, which Python writes, are taken."""
    try:
        said = json.loads(body, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:120]
        raise Refusal(400, f"the body is not JSON that can be read here ({reason})") from error
    if not isinstance(said, dict) or set(said) != {"features"}:
        found = ", ".join(sorted(map(repr, said)))[:120] if isinstance(said, dict) else type(said).__name__
        raise Refusal(422, f'the body must be {{"features": [[…], …]}} and nothing else, got {found}')
    rows = said["features"]
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        raise Refusal(422, "features must be a list of rows, each a list of numbers")
    _require_shape(len(rows), {len(row) for row in rows}, width, bounds)
    for place, row in enumerate(rows):
        if not set(map(type, row)) <= {int, float}:
            raise Refusal(422, f"features[{place}] holds something that is no number")
    try:
        return torch.from_numpy(np.array(rows, dtype=np.float64))
    except OverflowError as error:
        raise Refusal(422, "features hold a whole number beyond float64") from error


def rows_in_npy(body: bytes, width: int, bounds: Bounds) -> Tensor:
    """The rows of a ``.npy`` file; its header is checked first, and nothing is ever unpickled."""
    try:
        array = array_of_bytes(body, "the body")
    except FormatError as error:
        raise Refusal(400, str(error)) from error
    if array.ndim != 2:
        raise Refusal(
            422,
            f"the array has shape {array.shape}, expected features (N, {width}): one row is features[None]",
        )
    if not np.issubdtype(array.dtype, np.floating):
        raise Refusal(
            422, f"the array has dtype {array.dtype}, but features are floating-point numbers: float32"
        )
    _require_shape(array.shape[0], {array.shape[1]}, width, bounds)
    return as_tensor(array, "features")


def _require_shape(count: int, widths: set[int], width: int, bounds: Bounds) -> None:
    if not count:
        raise Refusal(422, "features hold no row")
    if count > bounds.rows:
        raise Refusal(422, f"features hold {count:,} rows, more than {bounds.rows:,}: send several requests")
    if widths != {width}:
        found = ", ".join(map(str, sorted(widths)[:3]))
        raise Refusal(422, f"features have width {found}, but the guard was fitted on width {width}")


def _object(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    """An object of JSON; of a name that stands twice nobody knows which was meant."""
    said = dict(pairs)
    if len(said) != len(pairs):
        raise ValueError("a name stands twice in one object")
    return said
