"""NegLabel: class names against words that are no classes (Jiang et al., ICLR 2024).

    p_g(z) = Σ_c exp(cos(z, t_c)/τ) / (Σ_c exp(cos(z, t_c)/τ) + Σ_{i in g} exp(cos(z, n_i)/τ))
    s(z)   = logit of 1/G · Σ_g p_g(z),   logit(p) = log p − log(1 − p)

t_c are the text embeddings of the classes, n_i those of words, in G groups. An ID picture is nearer to the
names of the classes than to the words; what is strange finds a word that it is nearer to. The mean of the
p_g is the published score; its logit has the same order, and digits left where p is next to 1.

Where it fails: it is as good as its words: what no word of the list is near to, and a class name is, passes.

Cost for N rows, beyond the logits: N·D·(C + words).
"""

from __future__ import annotations

import warnings
from pathlib import Path

import torch
from torch import Tensor

from ..core.errors import FittingWarning, InputError
from ..core.once import kept, kept_like
from ..features.head_files import read_head
from ..reference.head import Head, unit_rows
from ..reference.reference import Reference
from ._base import Detector
from ._common import unit
from ._registry import register
from .shaping import Shaping

# A word so near to a class is the class itself, up to the rounding of an embedding in half precision.
_SAME = 1 - 1e-5
# Words whose cosines with all classes are looked at together: entries of that table.
_ENTRIES = 2**22


@register(
    "neglabel",
    title="NegLabel",
    paper="Jiang et al., Negative Label Guided OOD Detection, arXiv:2403.20078",
    year=2024,
    formula="logit of mean_g Σ_c exp(cos(z, t_c)/τ) / (Σ_c exp(cos(z, t_c)/τ) + Σ_{i∈g} exp(cos(z, n_i)/τ))",
)
class NegLabel(Detector):
    """For cosine heads: the text embeddings of class names.

    negatives: file of the words' embeddings (`theodolite embed`); read by a fit, which keeps those it takes.
    temperature: τ, 0.01 in the paper.
    share: of the words, those least like the classes; 0.15 in the paper, never fewer than ``group_words``.
    percentile: of a word's cosines with the classes, by which it is like them; 95 in the paper.
    group_words: words in a group, as nearly as they can be shared out by ``seed``; 100 in the paper.

    >>> from theodolite.features import save_probe
    >>> save_probe(th.Head.cosine(np.eye(6, 8)[3:]), "words.safetensors")  # three words, no classes
    >>> texts = np.eye(3, 8)  # the embeddings of three class names
    >>> detector = th.NegLabel(negatives="words.safetensors", group_words=3).fit(head=th.Head.cosine(texts))
    >>> known, strange = detector.score(np.stack([texts[0], np.ones(8)]))
    >>> bool(known > strange)
    True
    """

    uses_logits = False
    reads_head = True
    of_words = True
    words: Tensor
    groups: Tensor

    def __init__(
        self,
        *,
        negatives: str | Path | None = None,
        temperature: float = 0.01,
        share: float = 0.15,
        percentile: float = 95.0,
        group_words: int = 100,
        seed: int = 0,
        shaping: Shaping | str | None = None,
    ) -> None:
        super().__init__(shaping=shaping)
        if not temperature > 0:
            raise InputError(f"temperature must be positive, got {temperature}")
        if not 0 < share <= 1:
            raise InputError(f"share must lie in (0, 1], got {share}")
        if not 0 <= percentile <= 100:
            raise InputError(f"percentile must lie in 0..100, got {percentile}")
        if group_words < 1:
            raise InputError(f"group_words must be at least 1, got {group_words}")
        self.negatives = None if negatives is None else str(negatives)
        self.temperature = temperature
        self.share = share
        self.percentile = percentile
        self.group_words = group_words
        self.seed = seed

    def _fit(self, reference: Reference) -> None:
        head = reference.head
        if head is None or not head.unit_features:
            raise InputError("NegLabel needs a cosine head, of class names: Head.cosine(text_embeddings)")
        if self.negatives is None:
            raise InputError(
                "NegLabel has no words to hold against the classes: fit --negatives words.txt, or a file of "
                "their embeddings, neglabel?negatives=words.safetensors (`theodolite embed`)"
            )
        read = read_head(self.negatives)
        if read.width != head.width or not read.unit_features:
            kind = "text embeddings" if read.unit_features else "no text embeddings but a linear head"
            raise InputError(
                f"{self.negatives} holds {kind} of width {read.width}, expected text embeddings of width "
                f"{head.width}, by the model of the class names: write them with `theodolite embed`"
            )
        words = self._mined(read, head)
        order = torch.randperm(len(words), generator=torch.Generator().manual_seed(self.seed))
        count = max(1, round(len(words) / self.group_words))
        sizes = [len(part) for part in torch.tensor_split(order, count)]
        self.register_buffer("words", words[order])
        self.register_buffer("groups", torch.tensor(sizes))

    def _mined(self, read: Head, head: Head) -> Tensor:
        """The words that are least like the classes, in the order of the file."""
        words, texts = unit_rows(read.weight.double()), unit_rows(head.weight.double())
        likeness, nearest = [], []
        for part in torch.split(words, max(1, _ENTRIES // len(texts))):
            cosines = part @ texts.T
            likeness.append(torch.quantile(cosines, self.percentile / 100, dim=1))
            nearest.append(cosines.amax(dim=1))
        known = torch.cat(nearest) > _SAME
        if bool(known.any()):
            warnings.warn(
                f"{int(known.sum())} of the {len(words):,} words to be held against the classes have the "
                f"text embedding of a class, and are left out",
                FittingWarning,
                stacklevel=2,
            )
        left = (~known).nonzero().flatten()
        if not len(left):
            raise InputError(f"every word of {self.negatives} is a class: name words that are none")
        taken = min(len(left), max(int(self.share * len(words)), self.group_words))
        order = torch.argsort(torch.cat(likeness)[left], stable=True)[:taken]
        return words[left[order.sort().values]].to(read.weight.dtype)

    def _build(self) -> None:
        if self.head is None:
            raise InputError("NegLabel needs a cosine head, of class names: Head.cosine(text_embeddings)")
        self._sizes = [int(size) for size in self.groups]

    def _tile_rows(self, device: torch.device) -> int:
        """A row has as many cosines as there are classes and words."""
        assert self.head is not None
        rows, classes = super()._tile_rows(device), self.head.classes
        return max(1, rows * classes // (classes + len(self.words)))

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:  # noqa: ARG002
        assert self.head is not None
        rows = unit(features)
        texts = kept(unit_rows, kept_like(self.head.weight, features))
        names = torch.logsumexp(rows @ texts.T / self.temperature, dim=1)
        cosines = rows @ self.words.to(features).T / self.temperature
        others = [torch.logsumexp(group, dim=1) for group in torch.split(cosines, self._sizes, dim=1)]
        odds = names[:, None] - torch.stack(others, dim=1)
        return torch.logsumexp(_log_sigmoid(odds), dim=1) - torch.logsumexp(_log_sigmoid(-odds), dim=1)


def _log_sigmoid(odds: Tensor) -> Tensor:
    """log 1/(1 + exp(−x)), finite wherever it is worked: the one of ONNX takes the logarithm of 0."""
    return odds.clamp_max(0) - torch.log1p(torch.exp(-odds.abs()))
