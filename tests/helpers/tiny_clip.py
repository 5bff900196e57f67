"""Tiny models of pictures and texts with random weights and real tokenizers, saved as their libraries save.

`folders` makes one of each kind; both libraries open them as they open any checkpoint.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from theodolite.core.compat import import_torchvision

WIDTH, SIZE = 16, 32
WORDS = ("a photo of a cat dog sea lion zebra . art the nice red green tulip harp",) * 4
_OPEN_CLIP: dict[str, dict[str, Any]] = {
    "model_cfg": {
        "embed_dim": WIDTH,
        "vision_cfg": {"image_size": SIZE, "layers": 1, "width": 64, "patch_size": 16, "head_width": 32},
        "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1},
    },
    "preprocess_cfg": {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]},
}
_TOWER = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 2}


def open_clip_folder(folder: Path) -> Path:
    """A CLIP of open_clip, with the tokenizer that comes with the package."""
    import_torchvision()
    import open_clip

    folder.mkdir(parents=True)
    (folder / "open_clip_config.json").write_text(json.dumps(_OPEN_CLIP))
    torch.manual_seed(0)
    clip = open_clip.create_model(f"local-dir:{folder}", load_weights=False)
    weights = {key: value.clone() for key, value in clip.state_dict().items()}
    save_file(weights, folder / "open_clip_model.safetensors")
    return folder


def open_clip_with_pieces(folder: Path) -> Path:
    """The same with a tokenizer of transformers in its folder, as open_clip has its SigLIPs."""
    import_torchvision()
    import open_clip

    folder.mkdir(parents=True)
    text = {"context_length": 32, "vocab_size": 80, "width": 32, "heads": 2, "layers": 1}
    said = {**_OPEN_CLIP["model_cfg"], "text_cfg": {**text, "hf_tokenizer_name": "pieces"}}
    (folder / "open_clip_config.json").write_text(json.dumps({**_OPEN_CLIP, "model_cfg": said}))
    _pieces().save_pretrained(folder)
    torch.manual_seed(0)
    clip = open_clip.create_model(f"local-dir:{folder}", load_weights=False)
    weights = {key: value.clone() for key, value in clip.state_dict().items()}
    save_file(weights, folder / "open_clip_model.safetensors")
    return folder


def clip_folder(folder: Path) -> Path:
    """A CLIP of transformers: byte pairs, a beginning and an end around every text."""
    import_torchvision()
    from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel, CLIPTokenizer
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    letters = list(bytes_to_unicode().values())
    merges = [("c", "a"), ("ca", "t</w>"), ("d", "o"), ("do", "g</w>")]
    joined = ["".join(pair) for pair in merges]
    special = ["<|startoftext|>", "<|endoftext|>"]
    every = [*letters, *(letter + "</w>" for letter in letters), *joined, *special]
    folder.mkdir(parents=True)
    (folder / "vocab.json").write_text(json.dumps({token: index for index, token in enumerate(every)}))
    lines = ["#version: 0.2", *(" ".join(pair) for pair in merges)]
    (folder / "merges.txt").write_text("\n".join(lines) + "\n")
    CLIPTokenizer.from_pretrained(folder).save_pretrained(folder)
    start, end = every.index(special[0]), every.index(special[1])
    ends = {"bos_token_id": start, "eos_token_id": end, "pad_token_id": end}
    config = CLIPConfig(
        text_config={**_TOWER, "vocab_size": len(every), "max_position_embeddings": 77, **ends},
        vision_config={**_TOWER, "image_size": SIZE, "patch_size": 16},
        projection_dim=WIDTH,
    )
    torch.manual_seed(0)
    CLIPModel(config).save_pretrained(folder)
    size = {"height": SIZE, "width": SIZE}
    CLIPImageProcessor(size={"shortest_edge": SIZE}, crop_size=size).save_pretrained(folder)
    return folder


def siglip_folder(folder: Path) -> Path:
    """A SigLIP of transformers: pieces of words, padded to the full length."""
    import_torchvision()
    from transformers import SiglipConfig, SiglipImageProcessor, SiglipModel

    config = SiglipConfig(
        text_config={**_TOWER, "vocab_size": 80, "max_position_embeddings": 32, "projection_size": 32},
        vision_config={**_TOWER, "image_size": SIZE, "patch_size": 16},
    )
    config.text_config.bos_token_id, config.text_config.eos_token_id = 2, 1
    folder.mkdir(parents=True)
    _pieces().save_pretrained(folder)
    torch.manual_seed(0)
    SiglipModel(config).save_pretrained(folder)
    SiglipImageProcessor(size={"height": SIZE, "width": SIZE}).save_pretrained(folder)
    return folder


def _pieces() -> Any:
    """A tokenizer of pieces of words, learnt from a line."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    pieces = Tokenizer(models.Unigram())
    pieces.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<pad>", "</s>", "<unk>"]
    trainer = trainers.UnigramTrainer(
        vocab_size=60, special_tokens=special, unk_token="<unk>", show_progress=False
    )
    pieces.train_from_iterator(WORDS, trainer)
    pieces.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=pieces, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    )
