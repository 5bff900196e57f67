"""MCM: maximum concept matching, softmax of the cosines to the text embeddings (Ming et al., NeurIPS 2022).

    s(z) = max_c softmax_c(cos(z, t_c) / τ)

The zero-shot score of CLIP: an ID image matches one prompt clearly better than the others.

Where it fails: at τ = 1 cosines of CLIP differ so little that the score is nearly flat; with an ordinary
classifier's weights in the place of prompts it leaves out bias and length.

Cost for N rows, beyond the logits: N·D·C.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..core.errors import InputError
from ..core.once import kept, kept_like
from ..reference.head import unit_rows
from ._base import Detector
from ._common import unit
from ._registry import register
from .shaping import Shaping


@register(
    "mcm",
    title="MCM",
    paper="Ming et al., Delving into Out-of-Distribution Detection with Vision-Language, arXiv:2211.13445",
    year=2022,
    formula="max_c softmax_c(cos(z, t_c)/τ)",
)
class MCM(Detector):
    """t_c are the rows of the head: text embeddings under `Head.cosine`, class weights under any other.

    temperature: τ, 1 in the paper.

    >>> texts = np.eye(3, 8)  # the embeddings of three class names
    >>> detector = th.MCM().fit(head=th.Head.cosine(texts))
    >>> known, strange = detector.score(np.stack([texts[0], np.ones(8)]))
    >>> bool(known > strange)
    True
    """

    uses_logits = False
    reads_head = True
    second_look = False

    def __init__(self, *, temperature: float = 1.0, shaping: Shaping | str | None = None) -> None:
        super().__init__(shaping=shaping)
        if not temperature > 0:
            raise InputError(f"temperature must be positive, got {temperature}")
        self.temperature = temperature

    def _build(self) -> None:
        if self.head is None:
            raise InputError("MCM needs a head: pass head=Head.cosine(text_embeddings)")

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:  # noqa: ARG002
        assert self.head is not None
        towards = kept(unit_rows, kept_like(self.head.weight, features))
        cosines = unit(features) @ towards.T / self.temperature
        return (cosines.amax(dim=1) - torch.logsumexp(cosines, dim=1)).exp()
