"""Several settings of a score by one text: braces hold the values to try.

knn?k={10,50,200}    ora+react:{70,80,90}    ora?aggregate={max,mean}+scale:{80,90}
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product

from ..core.errors import InputError

_BRACES = re.compile(r"\{([^{}]*)\}")


def expand_grid(text: str) -> list[str]:
    """Every text that a grid stands for, in the order written, the last braces changing fastest."""
    pieces = _BRACES.split(text)
    if any(sign in piece for piece in pieces[::2] for sign in "{}"):
        raise InputError(
            f"{text}: braces must come in pairs and not within each other, as in knn?k={{10,50}}"
        )
    choices = [[value.strip() for value in values.split(",")] for values in pieces[1::2]]
    for values, written in zip(choices, pieces[1::2], strict=True):
        if not all(values):
            raise InputError(
                f"{text}: {{{written}}} has an empty value; expected values with commas: {{10,50}}"
            )
    around = pieces[::2]
    return [
        "".join(part for pair in zip(around, (*chosen, ""), strict=True) for part in pair)
        for chosen in product(*choices)
    ]


def expand_grids(texts: Sequence[str]) -> list[str]:
    """All texts of several grids, each once."""
    return list(dict.fromkeys(spec for text in texts for spec in expand_grid(text)))
