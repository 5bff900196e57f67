"""CLINC150 (Larson et al., EMNLP 2019) as it is published: all splits in one file, `data_full.json`.

150 intents: 15,000 utterances to train on, 3,000 to validate, 4,500 to test; and out-of-scope ones, of which
the 1,000 to test are the OOD set, and the 100 to train on and the 100 to validate are left alone. A split is
opened by its kind: ``clinc150-train``, ``clinc150-val``, ``clinc150-test``, ``clinc150-oos``. Intents are
numbered in alphabetic order, the same in every split; an out-of-scope utterance has no label.
"""

from __future__ import annotations

import json
from pathlib import Path

from ..core.errors import FormatError, InputError
from .formats import data_format
from .texts import Texts

FILE = "data_full.json"
# The kinds, and what the file calls their splits.
SPLITS = {
    "clinc150-train": "train",
    "clinc150-val": "val",
    "clinc150-test": "test",
    "clinc150-oos": "oos_test",
}
_OUT_OF_SCOPE = "oos"
_LARGEST = 2**28


@data_format("clinc150-train")
def open_train(path: Path) -> Texts:
    """The utterances to train on."""
    return _split(path, "clinc150-train")


@data_format("clinc150-val")
def open_val(path: Path) -> Texts:
    """The utterances to validate on."""
    return _split(path, "clinc150-val")


@data_format("clinc150-test")
def open_test(path: Path) -> Texts:
    """The utterances to test on."""
    return _split(path, "clinc150-test")


@data_format("clinc150-oos")
def open_oos(path: Path) -> Texts:
    """The out-of-scope utterances to test on, without labels."""
    return _split(path, "clinc150-oos")


@data_format("clinc150", title=f"CLINC150's {FILE}", named=lambda path: path.name == FILE)
def open_whole(path: Path) -> Texts:
    """Refused: the splits of the file are not one data set."""
    raise InputError(f"{path} holds several splits: say which, --kind (kind= in Python) {', '.join(SPLITS)}")


def _split(path: Path, kind: str) -> Texts:
    content, split = _read(path), SPLITS[kind]
    pairs = content.get(split)
    if not isinstance(pairs, list) or not pairs or not all(map(_is_pair, pairs)):
        raise FormatError(
            f"{path} has no split {split!r} of [utterance, intent] pairs: it is not CLINC150's {FILE}"
        )
    intents = {intent for entries in content.values() for _, intent in _pairs(entries)} - {_OUT_OF_SCOPE}
    names = tuple(sorted(intents))
    numbers = {name: number for number, name in enumerate(names)}
    return Texts(
        [f"{split}#{row}" for row in range(len(pairs))],
        [text for text, _ in pairs],
        [numbers.get(intent) for _, intent in pairs],
        names,
    )


def _pairs(entries: object) -> list[tuple[str, str]]:
    return [(pair[0], pair[1]) for pair in entries if _is_pair(pair)] if isinstance(entries, list) else []


def _is_pair(pair: object) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and all(isinstance(part, str) for part in pair)


def _read(path: Path) -> dict[str, object]:
    try:
        size = path.stat().st_size
        if size > _LARGEST:
            raise InputError(f"{path} has {size:,} bytes, far more than CLINC150")
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path} cannot be opened: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path} is no JSON: {error}") from error
    if not isinstance(content, dict):
        raise FormatError(f"{path} is not CLINC150's {FILE}: expected a JSON object of splits")
    return content
