"""Class names as prompts, and prompts as text embeddings: the zero-shot classifier of CLIP and SigLIP.

    t_c = normalise( 1/K · Σ_k normalise( text( template_k with the name of class c ) ) )

One template gives the embedding of its prompt; several are averaged on the unit sphere, which takes the
chance of one wording out (Radford et al. 2021).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..core.errors import InputError, TheodoliteWarning
from ..reference.head import Head, unit_rows
from .class_names import file_text

PROMPT = "a photo of a {class}."
# Where the name goes; published lists of templates write the second.
_PLACES = ("{class}", "{}")
_TEXT_BATCH = 256


@dataclass(frozen=True)
class TextEncoder:
    """The text half of a model of pictures and texts: prompts (N) to embeddings (N, D).

    ``tokens`` counts those of one text; the model reads ``limit`` of them and never sees the rest. ``names``
    are the classes where a spec names none.
    """

    encode: Callable[[list[str]], Tensor]
    tokens: Callable[[str], int]
    limit: int
    names: tuple[str, ...] = ()

    def __call__(self, texts: Sequence[str]) -> Tensor:
        """Embeddings of texts, a few at a time; refused where one is longer than the model reads."""
        for text in texts:
            if self.tokens(text) > self.limit:
                raise InputError(
                    f"the prompt {text!r:.120} has {self.tokens(text)} tokens, and the model reads "
                    f"{self.limit}: shorten the name of the class, or the template"
                )
        starts = range(0, len(texts), _TEXT_BATCH)
        with torch.no_grad():
            parts = [self.encode(list(texts[start : start + _TEXT_BATCH])) for start in starts]
        return torch.cat(parts).float()


def text_head(encoder: TextEncoder, names: Sequence[str], templates: Sequence[str]) -> Head:
    """The cosine head whose rows are the embeddings t_c of the names."""
    if len(templates) == 1:
        return Head.cosine(encoder(_prompts(names, templates[0])))
    total = torch.zeros((), dtype=torch.float64)
    for template in templates:
        total = total + unit_rows(encoder(_prompts(names, template)).double())
    return Head.cosine((total / len(templates)).float())


def templates_of(options: Mapping[str, str]) -> tuple[str, ...]:
    """The templates that ``prompt`` or ``templates`` of a spec name; CLIP's usual prompt without either."""
    if "prompt" in options and "templates" in options:
        raise InputError("prompt is one template and templates a file of them: give one of both")
    if "templates" in options:
        return read_templates(options["templates"])
    prompt = options.get("prompt", PROMPT)
    _require_place(prompt, "prompt")
    return (prompt,)


def read_templates(path: str) -> tuple[str, ...]:
    """Templates from a text file with one a line; lines without words are left out."""
    text = file_text(path)
    if text is None:
        raise InputError(f"templates={path!r:.80} is no file: pass a text file with one template a line")
    lines = [line.strip() for line in text.splitlines()]
    for number, line in enumerate(lines, start=1):
        if line:
            _require_place(line, f"{path}, line {number},")
    found = tuple(line for line in lines if line)
    if not found:
        raise InputError(f"{path} holds no template: write one a line, for example {PROMPT}")
    named = [line.replace("{}", "{class}") for line in found]
    if len(set(named)) < len(named):
        doubled = next(line for line, one in zip(found, named, strict=True) if named.count(one) > 1)
        raise InputError(f"{path} holds the template {doubled!r:.80} twice: it would count double")
    return found


def warn_of_doubles(names: Sequence[str]) -> None:
    """Classes with one name have one text embedding: nothing can tell them apart."""
    seen: dict[str, int] = {}
    for index, name in enumerate(names):
        first = seen.setdefault(name.casefold(), index)
        if first != index:
            warnings.warn(
                f"classes {first} and {index} are both called {name!r:.80}: a zero-shot classifier cannot "
                f"tell them apart. Give each a name of its own",
                TheodoliteWarning,
                stacklevel=3,
            )
            return


def _prompts(names: Sequence[str], template: str) -> list[str]:
    place = next(place for place in _PLACES if place in template)
    return [template.replace(place, name) for name in names]


def _require_place(template: str, where: str) -> None:
    if not any(place in template for place in _PLACES):
        raise InputError(
            f"{where} must contain {{class}}, where the name of the class goes, got {template!r:.80}"
        )
    if all(place in template for place in _PLACES):
        raise InputError(
            f"{where} has both {{class}} and {{}}, of which one would stay in the prompt as it is, got "
            f"{template!r:.80}: write {{class}} wherever the name goes"
        )
