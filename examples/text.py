"""Text: a guard for an intent classifier of transformers, from files of sentences to verdicts on new ones.

A tiny BERT is trained here on made sentences, so that this runs offline in seconds. A real one is named in
its place: `hf-text:my-org/intents` from the hub, or `hf-text:FOLDER` as `save_pretrained` wrote it.
Install: pip install 'theodolite[text]'
"""

import json
import random
import tempfile
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers

import theodolite as th
from theodolite.core.compat import import_module

import_module("transformers.models.bert.modeling_bert")  # also beside a torchvision built for another torch
transformers = import_module("transformers")
PHRASES = {
    "travel": ("book {} flight", "find {} train", "cancel {} hotel", "show {} ticket"),
    "money": ("pay {} bill", "send {} payment", "check {} balance", "show {} account"),
    "music": ("play {} song", "stop {} music", "skip {} track", "repeat {} album"),
}
FILLERS = ("a", "my", "the", "this", "that", "our", "one", "another")
ENDINGS = ("", " please", " now", " today", " again")
names = list(PHRASES)
pairs = [(phrase, intent) for intent, phrases in PHRASES.items() for phrase in phrases]
ways = [(phrase.format(x) + end, intent) for phrase, intent in pairs for x in FILLERS for end in ENDINGS]
texts = [{"text": text, "label": intent} for text, intent in random.Random(0).sample(ways, len(ways))]
train, val = texts[:240], texts[240:]
words = ["[PAD]", "[UNK]", *sorted({word for row in texts for word in row["text"].split()})]
rules = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
rules.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=rules, pad_token="[PAD]", unk_token="[UNK]")

torch.manual_seed(0)
sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
config = transformers.BertConfig(vocab_size=len(words), id2label=dict(enumerate(names)), **sizes)
classifier = transformers.BertForSequenceClassification(config)
optimiser = torch.optim.Adam(classifier.parameters(), lr=3e-3)
rows = tokenizer([row["text"] for row in train], padding=True, return_tensors="pt")
rows["labels"] = torch.tensor([names.index(row["label"]) for row in train])
for _ in range(30):
    optimiser.zero_grad()
    classifier(**rows).loss.backward()
    optimiser.step()
with tempfile.TemporaryDirectory() as folder:
    classifier.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    for name, part in (("train", train), ("val", val)):
        Path(folder, f"{name}.jsonl").write_text("\n".join(map(json.dumps, part)))
    spec = f"hf-text:{folder}"
    guard = th.fit_guard(f"{folder}/train.jsonl", spec, calibration=f"{folder}/val.jsonl").guard
    new = ["book this flight today", "skip this track now", "why is grass green", "how do whales breathe"]
    found = guard.attach(th.load_model(spec)).verdicts(new)
    for text, p_value, flagged in zip(new, found.p_value, found.is_ood, strict=True):
        print(f"{text:<30} p-value {float(p_value):.3f}  {'out of scope' if flagged else 'familiar'}")
