"""Words as text embeddings in a file: what NegLabel holds against the names of the classes.

The file is that of a cosine head, a row a word, and says which model's embeddings it holds, with which
weights and in which templates: those of another model of the same width would give scores that mean nothing.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from pathlib import Path

from ..core.errors import InputError, TheodoliteWarning
from ..core.files import read_tensors, sha256
from ..core.places import cache_folder
from ..core.plain import JsonValue
from ..models.class_names import file_text
from ..models.prompts import TextEncoder, templates_of, text_head
from ..models.registry import Request, request_for
from ..models.texts import load_text
from ..models.zero_shot import names_of
from ..reference.head import Head
from .head_files import head_digest
from .linear_probe import FORMAT, save_probe

# Entries of two embeddings of one text, as rounding leaves them.
_ROUNDING = 1e-3
# What a file says of its words beside the model.
_WEIGHTS, _TEMPLATES = "weights", "templates"


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
    checkpoint = None if weights is None else sha256(Path(weights))
    more = {_WEIGHTS: checkpoint, _TEMPLATES: list(templates)}
    save_probe(embedded, place, model=request.base, more=more)
    return place


def require_words_of(path: str | Path, model: str, weights: str | Path | None = None) -> None:
    """Refuse embeddings of words by another model than that of the features, where the file says it.

    ``model`` is the spec of the features, ``weights`` the checkpoint in place of the model's own. Words in
    other templates than the names of the classes are warned of: some of both are less alike by that alone.
    """
    place = Path(path).expanduser()
    if not place.is_file():
        raise InputError(f"{place} is no file of embedded words: write one with `theodolite embed`")
    _, said = read_tensors(place, FORMAT)
    request = request_for(model)[1]
    known, own = said.get("model"), request.base
    if isinstance(known, str) and known != own:
        raise InputError(
            f"{place} holds words as {known} embeds them, and the features are of {own}: embed the words "
            f"with that model"
        )
    if _WEIGHTS in said and not _same_checkpoint(said[_WEIGHTS], weights):
        raise InputError(
            f"{place} holds words as {own} embeds them with {'other' if said[_WEIGHTS] else 'its own'} "
            f"weights than those of the features, {weights or 'its own'}: embed the words with these "
            f"(--weights)"
        )
    _warn_of_templates(place, said.get(_TEMPLATES), request)


def _same_checkpoint(known: JsonValue, weights: str | Path | None) -> bool:
    """Whether words and features are of one file of weights; one that is gone cannot be told apart."""
    if weights is None or known is None:
        return weights is None and known is None
    return not Path(weights).is_file() or sha256(Path(weights)) == known


def _warn_of_templates(place: Path, known: JsonValue, request: Request) -> None:
    try:
        own: Sequence[str] = templates_of(request.options)
    except InputError:  # the file of the templates is gone
        return
    if isinstance(known, list) and _spelt_alike(known) != _spelt_alike(own):
        warnings.warn(
            f"{place} holds words in other templates ({_some(known)}) than those of the names of the classes "
            f"({_some(own)}): words and names differ by that as well. Give `theodolite embed` the spec of "
            f"the model with its ?prompt= or ?templates=",
            TheodoliteWarning,
            stacklevel=3,
        )


def _spelt_alike(templates: Sequence[JsonValue]) -> list[str]:
    """Templates with one spelling of the place that the name goes to."""
    return [str(template).replace("{}", "{class}") for template in templates]


def _some(templates: Sequence[JsonValue]) -> str:
    more = f", and {len(templates) - 1} more" if len(templates) > 1 else ""
    return f"{templates[0]!r:.60}{more}"


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
