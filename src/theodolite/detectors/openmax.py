"""OpenMax: the odds of the known classes against one that is none of them (Bendale and Boult, CVPR 2016).

    s(z) = log Σ_{c ≥ 1} exp(v_c) − v_0 = log((1 − p)/p),   p = softmax(v_0, v_1, …, v_C)_0
    v_c = l_c·(1 − α_c·w_c),   v_0 = Σ_c l_c·α_c·w_c,   w_c = P(D_c ≤ ‖l − m_c‖)

m_c is the mean of the logits that are rightly answered c and D_c the distance of such logits from it, of
which the largest follow a Weibull distribution. α_c falls from 1 for the predicted class to 1/α for the α-th,
and is 0 beyond. What is further from a class than its own rows gives the logit of that class to the unknown.
The odds have the order of the authors' −p = −P(unknown), and tell apart what would all round to −1.

The means are sums, and merge. The largest distances are known only once the means are, so a fit keeps a bank:
all rows, or a ``fraction`` of each class. Nothing of it is in the fitted score.

Where it fails: a tail needs rows that are not in it: with few rows a class every new row lies beyond the
tail, and the score turns upside down.

Cost for N rows, beyond the logits: α passes over N×C.
"""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from ..core.errors import FittingWarning, InputError
from ..core.graphs import fixed
from ..core.once import kept_like
from ..reference.bank import ALL_ROWS
from ..reference.reference import Reference
from ..reference.statistics import Needs
from ._base import Detector
from ._common import log_sum_exp
from ._fitting import right_rows
from ._registry import register
from ._weibull import Tails, at_most, fitted_tails, largest_of_each
from .shaping import Shaping

# Rows of the bank whose logits are there at the same time.
_PART = 2_048


@register(
    "openmax",
    title="OpenMax",
    paper="Bendale and Boult, Towards Open Set Deep Networks, arXiv:1511.06233",
    year=2016,
    formula="log(P(known)/P(unknown)), from Weibull tails of the distances to mean logits",
)
class OpenMax(Detector):
    """tail: how many of the largest distances of a class are fitted. alpha: α, how many classes are revised.

    fraction: share of each class in the bank; the tail is then that of the share. A class of which no row is
    answered right knows nothing of itself, and gives all it may to the unknown.

    >>> means, labels = 4 * np.eye(3, 8), np.arange(150) % 3
    >>> train = means[labels] + np.random.default_rng(0).normal(size=(150, 8))
    >>> detector = th.OpenMax().fit(train, labels, head=th.Head(means))
    >>> known, strange = detector.score(np.stack([means[0], np.ones(8)]))
    >>> bool(known > strange)
    True
    """

    centres: Tensor
    start: Tensor
    shape: Tensor
    log_scale: Tensor
    seen: Tensor

    def __init__(
        self,
        *,
        tail: int = 20,
        alpha: int = 3,
        fraction: float = 1.0,
        shaping: Shaping | str | None = None,
    ) -> None:
        super().__init__(shaping=shaping)
        if tail < 1:
            raise InputError(f"tail must be at least 1, got {tail}")
        if alpha < 1:
            raise InputError(f"alpha must be at least 1, got {alpha}")
        if not 0 < fraction <= 1:
            raise InputError(f"fraction must lie in (0, 1], got {fraction}")
        self.tail = tail
        self.alpha = alpha
        self.fraction = fraction

    @property
    def needs(self) -> Needs:
        if self.fraction == 1:
            return Needs(correct_means=True, bank=ALL_ROWS)
        return Needs(correct_means=True, bank_share=self.fraction)

    def _fit(self, reference: Reference) -> None:
        head, bank = reference.head, reference.statistics.bank
        assert head is not None
        right = right_rows(reference, self._name)
        centres = head.logits(right.means.to(head.weight.device))
        rows, labels = bank.features, bank.labels
        if self.fraction != 1:
            chosen = bank.share_of_each_class(self.fraction)
            rows, labels = rows[chosen], labels[chosen]
        distances, answers = [], []
        for part in torch.split(rows, _PART):
            logits = head.logits(part.to(centres))
            answers.append(logits.argmax(dim=1))
            distances.append(torch.linalg.vector_norm(logits - centres[answers[-1]], dim=1))
        own = torch.cat(answers).cpu()
        correct = own == labels
        largest = largest_of_each(
            torch.cat(distances).cpu()[correct], own[correct], head.classes, self.tail + 1
        )
        self._warn_of_short_tails(~torch.isnan(largest[:, -1]))
        for name, tensor in fitted_tails(largest[:, : self.tail])._asdict().items():
            self.register_buffer(name, tensor)
        self.register_buffer("centres", centres)
        self.register_buffer("seen", ~torch.isnan(largest[:, 0]))

    def _warn_of_short_tails(self, whole: Tensor) -> None:
        """The largest distances of few rows are all of them, and nearly every new row is further away."""
        short = int((~whole).sum())
        if 2 * short > len(whole):
            warnings.warn(
                f"{self._name} fits the {self.tail} largest distances of a class, and {short:,} of "
                f"{len(whole):,} classes have no more rows than that which are answered right: what it takes "
                f"for a tail are all their rows, new rows are mostly further away, and scores may be upside "
                f"down. Fit it on more rows of each class",
                FittingWarning,
                stacklevel=4,
            )

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:  # noqa: ARG002
        count = min(self.alpha, fixed(logits.shape[1]))
        values, classes = logits.topk(count, dim=1)
        revised, unknown = logits, torch.zeros_like(values[:, 0])
        for place in range(count):
            own = classes[:, place]
            taken = values[:, place] * self._far(logits, own) * (1 - place / count)
            revised = revised.scatter_add(1, own[:, None], -taken[:, None])
            unknown = unknown + taken
        return log_sum_exp(revised) - unknown

    def _far(self, logits: Tensor, classes: Tensor) -> Tensor:
        """P(D_c ≤ ‖l − m_c‖) of each row's own class, (n,); 1 where nothing is known of the class."""
        centres = kept_like(self.centres, logits)
        distance = torch.linalg.vector_norm(logits - centres[classes], dim=1)
        tails = Tails(*(part.to(logits)[classes] for part in (self.start, self.shape, self.log_scale)))
        return torch.where(self.seen[classes], at_most(distance, tails), torch.ones_like(distance))
