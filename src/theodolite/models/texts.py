"""The text half of models of pictures and texts, and the options of a spec that speak of texts."""

from __future__ import annotations

from pathlib import Path

from ..core.errors import InputError
from .prompts import TextEncoder
from .registry import request_for


def load_text(spec: str, *, weights: str | Path | None = None) -> TextEncoder:
    """The text half of the model that ``spec`` names: CLIP's, SigLIP's."""
    known, request = request_for(spec, weights)
    if known.text is None:
        raise InputError(
            f"{known.prefix} models know no texts: {spec} has no text embeddings. CLIP and SigLIP have "
            f"(openclip:…, hf:…)"
        )
    return known.text(request)


def spec_with(spec: str, **options: object) -> str:
    """The spec with more options, in its one spelling; None is no option. One that it has is refused."""
    more = {key: value for key, value in options.items() if value is not None}
    if not more:
        return spec
    doubled = sorted(set(request_for(spec)[1].options) & set(more))
    if doubled:
        raise InputError(f"--{doubled[0]} is given, and {spec} says {doubled[0]} as well: leave one out")
    return request_for(spec, None, pretrained=True, **more)[1].spec
