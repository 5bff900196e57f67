"""`theodolite embed`: words as text embeddings, in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import _options as options
from ._console import say, screen


def embed(
    words: Annotated[str, typer.Argument(help="A text file with one word a line.")],
    model: Annotated[str, typer.Option("--model", help="What model: openclip:…, or CLIP or SigLIP of hf:…")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The embeddings: words.safetensors.")],
    weights: options.Weights = None,
) -> None:
    """Write the text embeddings of words, for neglabel?negatives=FILE.

    Every word is put into the templates of the model's spec (?prompt=…, ?templates=…), as the names of the
    classes are: give both commands the same.
    """
    from ..features.head_files import read_head
    from ..features.word_files import embed_words
    from .fit import require_place

    require_place(output)
    place = embed_words(words, model, output, weights=weights)
    made = read_head(place)
    say(screen(), f"{made.classes:,} words as text embeddings of width {made.width}. Embeddings in {output}")
