"""A model of pictures and texts as a classifier: a cosine head of class names, or a linear probe.

The logits of the cosine head are cosines, without the temperature and the bias that CLIP and SigLIP learnt:
neither changes which class is nearest, nor what a boundary is.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor, nn

from .checkpoint import probe_head
from .class_names import read_names
from .prompts import TextEncoder, templates_of, text_head, warn_of_doubles
from .registry import Request

ZERO_SHOT_OPTIONS = ("classes", "prompt", "templates", "linear")


class ClipClassifier(nn.Module):
    """The image tower of CLIP and a head on its embedding: a cosine head or a linear probe."""

    def __init__(self, visual: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.visual = visual
        self.head = head

    def forward(self, images: Tensor) -> Tensor:
        embedding = self.visual(images)
        logits: Tensor = self.head(embedding[0] if isinstance(embedding, tuple) else embedding)
        return logits


def head_and_names(request: Request, encoder: TextEncoder) -> tuple[nn.Module, tuple[str, ...] | None]:
    """The head that the options of a spec ask for, and the names of its classes."""
    options = request.options
    if "linear" in options:
        given = None if "classes" not in options else read_names(options["classes"])
        return _probe(Path(options["linear"]), request.base), given
    names = names_of(options, encoder)
    if "classes" in options:
        warn_of_doubles(names)
    return text_head(encoder, names, templates_of(options)), names


def names_of(options: Mapping[str, str], encoder: TextEncoder) -> tuple[str, ...]:
    """The classes that the options of a spec name, or the model's usual ones."""
    return read_names(options["classes"]) if "classes" in options else encoder.names


def layer_of(request: Request) -> str | None:
    """The name of the head where it is a linear probe; a cosine head is found by itself."""
    return "head" if "linear" in request.options else None


def _probe(path: Path, model: str) -> nn.Module:
    """A linear layer; a cosine head as what it is."""
    head = probe_head(path, model)
    if head.unit_features:
        return head
    probe = nn.Linear(head.width, head.classes)
    probe.load_state_dict({"weight": head.weight, "bias": head.bias})
    return probe
