"""CLIP and SigLIP of transformers as classifiers: image tower, text tower, and a head of class names.

`sources.transformers` comes here for a checkpoint of both towers. The image embedding is the pooled output of
the vision model, through its projection where it has one (CLIP); texts are padded to the length that the text
model was trained with, and only CLIP is told which tokens are padding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ...core.errors import InputError, ModelError
from ..prompts import TextEncoder
from ..registry import Request
from ..zero_shot import ZERO_SHOT_OPTIONS, ClipClassifier, head_and_names

MODEL_TYPES = ("clip", "siglip")


def is_dual(config: Any, options: Mapping[str, str]) -> bool:
    """Whether a checkpoint has both towers; one that was fine-tuned to classify is a classifier like others.

    Options of class names and prompts are refused for all but these.
    """
    dual = config.model_type in MODEL_TYPES and not any(
        str(name).endswith("ForImageClassification") for name in config.architectures or ()
    )
    asked = sorted(set(options) & set(ZERO_SHOT_OPTIONS))
    if asked and not dual:
        raise InputError(
            f"{asked[0]} is for models of pictures and texts ({', '.join(MODEL_TYPES)}): the checkpoint is a "
            f"{config.model_type}, whose classes are its own"
        )
    return dual


class ImageTower(nn.Module):
    """Pictures to embeddings."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.vision_model = model.vision_model
        self.projection = getattr(model, "visual_projection", nn.Identity())

    def forward(self, images: Tensor) -> Tensor:
        embedding: Tensor = self.projection(self.vision_model(pixel_values=images).pooler_output)
        return embedding


@dataclass(frozen=True)
class DualEncoder:
    """Both towers and the tokenizer."""

    model: Any
    tokenizer: Any

    @classmethod
    def open(cls, request: Request, config: Any, extra: Mapping[str, str]) -> DualEncoder:
        """The model with its weights; where a checkpoint lacks some it is refused."""
        from transformers import AutoModel, AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(request.name, **extra)
        if request.fetch:
            model, report = AutoModel.from_pretrained(request.name, output_loading_info=True, **extra)
            missing = sorted(report["missing_keys"])
            if missing:
                raise ModelError(
                    f"{request.spec} has no weights for {', '.join(missing[:4])}: it is half of a model of "
                    f"pictures and texts. Name a checkpoint of both"
                )
        else:
            model = AutoModel.from_config(config)
        request.fill(model)
        return cls(model.float().eval(), tokenizer)

    @property
    def text(self) -> TextEncoder:
        limit = int(self.model.config.text_config.max_position_embeddings)
        masked = self.model.config.model_type == "clip"

        def encode(texts: list[str]) -> Tensor:
            told = self.tokenizer(
                texts, padding="max_length", max_length=limit, truncation=True, return_tensors="pt"
            )
            mask = {"attention_mask": told["attention_mask"]} if masked and "attention_mask" in told else {}
            return _pooled(self.model.get_text_features(input_ids=told["input_ids"], **mask))

        return TextEncoder(encode, lambda text: len(self.tokenizer(text)["input_ids"]), limit)

    def classifier(self, request: Request) -> tuple[ClipClassifier, tuple[str, ...] | None]:
        """The image tower under the head that was asked for, and the names of its classes."""
        if not {"classes", "linear"} & set(request.options):
            raise InputError(
                f"{request.spec} has no classes of its own: name them with ?classes=names.txt, or "
                f"?classes=cat,dog (--classes of `theodolite fit`), or a probe with ?linear=probe.safetensors"
            )
        head, names = head_and_names(request, self.text)
        return ClipClassifier(ImageTower(self.model), head), names


def _pooled(output: Any) -> Tensor:
    """Embeddings of texts: newer versions of transformers return them among other things."""
    rows = output if isinstance(output, Tensor) else output.pooler_output
    return torch.as_tensor(rows)
