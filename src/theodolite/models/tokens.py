"""Texts as a model takes them: tokens by a tokenizer of transformers, filled up to one length in a batch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..core.batches import Inputs
from ..core.errors import InputError, ModelError, UnreadableTextError

LONGEST, MAX = "longest", "max"
_LETTERS = 16
_MASK = "attention_mask"
# A tokenizer without a limit says a number beyond all texts.
_NO_LIMIT = 10**9


class Tokens(dict[str, Tensor]):
    """The tokens of one text, by the names of the model's arguments; ``cut`` if there were more of them."""

    cut = False


@dataclass(frozen=True)
class Tokenizing:
    """One text to tokens, at most ``limit`` of them (None: all), and the tokens of several to a batch.

    ``padding`` is ``longest``, up to the longest text of a batch, or ``max``, up to the limit always.
    """

    tokenizer: Any
    limit: int | None
    padding: str = LONGEST

    def __call__(self, text: str) -> Tokens:
        if not isinstance(text, str):
            raise InputError(f"a {type(text).__name__} was given, expected a text (str)")
        if not text.strip():
            raise UnreadableTextError.of("the text", "it is empty")
        if not _is_unicode(text):
            raise UnreadableTextError.of("the text", "it holds half of a surrogate pair")
        bounded = {} if self.limit is None else {"truncation": True, "max_length": self.limit}
        found = self.tokenizer(text, return_attention_mask=True, verbose=False, **bounded)
        tokens = Tokens({name: torch.tensor(values) for name, values in found.items()})
        if len(tokens[_MASK]) <= _special(self.tokenizer):  # of zero-width characters, for one
            raise UnreadableTextError.of("the text", "the tokenizer leaves nothing of it")
        tokens.cut = self._was_cut(text, found)
        return tokens

    def together(self, samples: Sequence[Mapping[str, Tensor]]) -> Inputs:
        """The tokens of several texts, each filled up to one length; the attention mask says with what."""
        length = max(len(sample[_MASK]) for sample in samples)
        if self.padding == MAX and self.limit is not None:
            length = self.limit
        return {
            name: torch.stack([self._filled(name, sample[name], length) for sample in samples])
            for name in samples[0]
        }

    @property
    def identity(self) -> str:
        """The tokenizer by a digest of all that decides its tokens, and how long a text may be."""
        said = self.tokenizer
        backend = getattr(said, "backend_tokenizer", None)
        rules = said.get_vocab() if backend is None else json.loads(backend.to_str())
        # What the last call asked for, which is no part of the tokenizer.
        rules = {name: value for name, value in rules.items() if name not in ("truncation", "padding")}
        known = {
            "class": type(said).__name__ if backend is None else "",
            "rules": rules,
            "special": {name: str(token) for name, token in said.special_tokens_map.items()},
            "sides": [said.padding_side, said.truncation_side],
        }
        digest = hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:_LETTERS]
        length = "of any length" if self.limit is None else f"at most {self.limit} tokens"
        return f"tokenizer {digest}, {length}, padding {self.padding}"

    def _was_cut(self, text: str, found: Any) -> bool:
        if self.limit is None:
            return False
        if found.encodings is not None:
            return bool(found.encodings[0].overflowing)
        return len(self.tokenizer(text, verbose=False)["input_ids"]) > self.limit

    def _filled(self, name: str, values: Tensor, length: int) -> Tensor:
        filling = {
            "input_ids": self.tokenizer.pad_token_id,
            "token_type_ids": self.tokenizer.pad_token_type_id,
        }
        missing = length - len(values)
        added = values.new_full((missing,), filling.get(name) or 0)
        return torch.cat([added, values] if self.tokenizer.padding_side == "left" else [values, added])


def token_limit(tokenizer: Any, positions: int | None, asked: int | None, spec: str) -> int | None:
    """How many tokens of a text count: as asked, at most what tokenizer and model take; None for all."""
    limits = [tokenizer.model_max_length, positions or _NO_LIMIT]
    most = min((int(limit) for limit in limits), default=_NO_LIMIT)
    if asked is not None and not _special(tokenizer) < asked <= most:
        raise InputError(
            f"{spec}: option max_length must be more than {_special(tokenizer)}, the tokens of an empty "
            f"text, and at most {most:,}, which the model takes; got {asked}"
        )
    limit = most if asked is None else asked
    return None if limit >= _NO_LIMIT else limit


def require_vocabulary(tokenizer: Any, rows: int | None, spec: str) -> None:
    """Refuse a tokenizer that is not the model's: without words, or with more than the model's ``rows``.

    Where a checkpoint comes without its tokenizer, transformers makes one of special tokens alone, and every
    word of every text is unknown to it.
    """
    words, special = len(tokenizer), len(set(tokenizer.all_special_ids))
    if words <= special:
        raise ModelError(
            f"{spec}: its tokenizer knows no word but {special} special tokens, so that all texts would look "
            f"alike: the files of the tokenizer are missing beside the weights. Remedy: save it there, "
            f"tokenizer.save_pretrained(…)"
        )
    if rows is not None and words > rows:
        raise ModelError(
            f"{spec}: its tokenizer has {words:,} tokens, but the model has embeddings for {rows:,}: they do "
            f"not belong together"
        )


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _special(tokenizer: Any) -> int:
    return int(tokenizer.num_special_tokens_to_add())
