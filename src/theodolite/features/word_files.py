"""Words as text embeddings in a file: what NegLabel holds against the names of the classes.

The file is that of a cosine head, a row a word, and says which model's embeddings it holds: those of another
model of the same width would give scores that mean nothing.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from ..core.errors import InputError
from ..core.files import read_tensors
from ..core.places import cache_folder
from ..models.class_names import file_text
from ..models.prompts import TextEncoder, templates_of, text_head
from ..models.registry import request_for
from ..models.texts import load_text
from ..models.zero_shot import names_of
from ..reference.head import Head
from .head_files import head_digest
from .linear_probe import FORMAT, save_probe

# Entries of two embeddings of one text, as rounding leaves them.
_ROUNDING = 1e-3


def read_words(path: str | Path) -> tuple[str, ...]:
    """Words from a text file with one a line, each once."""
    text = file_text(str(path))
    if text is None:
        raise InputError(f"{path} is no file: pass a text file with one word a line")
    words: dict[str, str] = {}
    for line in text.splitlines():
        if word := line.strip():
            words.setdefault(word.casefold(), word)
    if len(words) < 2:
        raise InputError(f"{path} holds {len(words)} word: pass at least two, one a line")
    return tuple(words.values())


def embed_words(
    path: str | Path,
    model: str,
    output: str | Path | None = None,
    *,
    weights: str | Path | None = None,
    head: Head | None = None,
) -> Path:
    """Write the embeddings of the words in a file, in the templates of the model's spec (None: the cache).

    ``head`` is the cosine head of the features that they are for: it is compared with the names of the
    classes, so that words and pictures are those of one model.
    """
    words = read_words(path)
    _, request = request_for(model, weights)
    templates = templates_of(request.options)
    encoder = load_text(model, weights=weights)
    if head is not None:
        _require_same_text(encoder, head, request.options, model)
    embedded = text_head(encoder, words, templates)
    place = cache_folder() / "words" / f"{_key(embedded)}.safetensors" if output is None else Path(output)
    if output is None:
        place.parent.mkdir(parents=True, exist_ok=True)
    save_probe(embedded, place, model=_base(model))
    return place


def require_words_of(path: str | Path, model: str) -> None:
    """Refuse embeddings of words by another model than that of the features, where the file says it."""
    place = Path(path).expanduser()
    if not place.is_file():
        raise InputError(f"{place} is no file of embedded words: write one with `theodolite embed`")
    _, said = read_tensors(place, FORMAT)
    known = said.get("model")
    if isinstance(known, str) and known != _base(model):
        raise InputError(
            f"{place} holds words as {known} embeds them, and the features are of {_base(model)}: embed the "
            f"words with that model"
        )


def _require_same_text(encoder: TextEncoder, head: Head, options: dict[str, str], model: str) -> None:
    names = names_of(options, encoder)
    again = text_head(encoder, names, templates_of(options))
    same = again.weight.shape == head.weight.shape
    if not same or float((again.weight - head.weight.cpu()).abs().max()) > _ROUNDING:
        raise InputError(
            f"the names of the classes have other text embeddings now than those in the head of the "
            f"features: {model} has other weights, names or templates than when the features were extracted. "
            f"Pass the same checkpoint (--weights), or extract again"
        )


def _key(head: Head) -> str:
    return hashlib.sha256(head_digest(head).encode()).hexdigest()[:20]


def _base(model: str) -> str:
    """A model without the options of its spec: classes and templates do not change how it embeds."""
    return request_for(model)[1].spec.partition("?")[0]
