"""How the preprocessing and the code of a model are named in files: ``Pixels(…), reached code 0f3a…``.

Beside them stands what changes a network and not its weights: ``Pixels(…), stem stride 2``.
Version 0.1.0 knew the code of a model of one's own by the whole file it lies in (``code 0f3a…``).
"""

from __future__ import annotations

import re

REACHED = "reached code"
WHOLE_FILE = "code"
STEM = "stem stride"
_CODE = re.compile(rf", (?:{REACHED}|{WHOLE_FILE}) \w+$")
_BESIDE = re.compile(rf", (?:{REACHED}|{WHOLE_FILE}|{STEM}) \w+$")
_LETTERS = 16


def with_code(preprocess: str, kind: str, digest: str | None) -> str:
    """The id of a preprocessing and of the code behind it."""
    return f"{preprocess}, {kind} {'unknown' if digest is None else digest[:_LETTERS]}"


def without_code(identity: str) -> str:
    """The preprocessing alone."""
    return _CODE.sub("", identity)


def renamed(identity: str, preprocess: str) -> str:
    """The id with another preprocessing and the same code, or whatever else stands beside it."""
    beside = _BESIDE.search(identity)
    return preprocess + (beside[0] if beside else "")


def knows_whole_file(identity: str) -> bool:
    """Whether an id has the digest of 0.1.0."""
    code = _CODE.search(identity)
    return code is not None and code[0].startswith(f", {WHOLE_FILE} ")
