"""Tiny text classifiers of random weights with a real tokenizer, written as transformers writes them.

transformers is imported when one is made: whoever imports this may have to skip without it.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from theodolite.core.compat import import_torchvision
from theodolite.core.errors import MissingExtraError

WORDS = (
    "book",
    "a",
    "table",
    "flight",
    "pay",
    "bill",
    "play",
    "song",
    "turn",
    "light",
    "on",
    "off",
    "##s",
    "word",
)
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
NAMES = ("travel", "money", "music")
LIMIT = 24
WIDTH = 16


def tokenizer(limit: int = LIMIT, words: tuple[str, ...] = WORDS) -> Any:
    """WordPiece over a few words, as BERT has it."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    vocabulary = {token: number for number, token in enumerate((*SPECIAL, *words))}
    rules = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]"))
    rules.normalizer, rules.pre_tokenizer = BertNormalizer(), BertPreTokenizer()
    ends = [("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])]
    rules.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    return PreTrainedTokenizerFast(
        tokenizer_object=rules,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_max_length=limit,
    )


def write_classifier(folder: Path, seed: int = 2) -> Path:
    """A BERT of two layers with three classes; its weights are wide enough that texts are told apart."""
    with suppress(MissingExtraError):
        import_torchvision()
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(SPECIAL) + len(WORDS),
        hidden_size=WIDTH,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=LIMIT,
        initializer_range=0.5,
        id2label=dict(enumerate(NAMES)),
        label2id={name: number for number, name in enumerate(NAMES)},
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


def sentences(count: int, seed: int) -> list[str]:
    """Sentences of 5 to 15 words, of which no two are the same."""
    rng = torch.Generator().manual_seed(seed)
    lengths = torch.randint(5, 16, (count,), generator=rng).tolist()
    words = [word for word in WORDS if not word.startswith("#")]
    return [
        " ".join(words[place] for place in torch.randint(len(words), (length,), generator=rng).tolist())
        for length in lengths
    ]


def write_jsonl(path: Path, texts: list[str], labels: list[str] | None = None) -> Path:
    rows = [
        {"text": text} if labels is None else {"text": text, "label": labels[place]}
        for place, text in enumerate(texts)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path
