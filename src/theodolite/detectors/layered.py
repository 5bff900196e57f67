"""Layered: one score on every layer of a network, combined into one.

    s(z) = 1/L · Σ_l (s_l(z_l) − m_l) / σ_l

This is the rule ``standardised``; the others are in `combination`.

What is strange shows early in the network or late, depending on what it is. Layers have scales of their own,
which are taken from a fifth of the data to fit on: chosen by a hash of the samples' ids, and kept from the
layers' scores. A guard is calibrated afterwards, on other data.

Layers before the last have no head, so that only scores that need none can look at them.

Where it fails: a layer that tells nothing is averaged in with the others, and weakens them.

Cost for N rows, beyond the logits: that of its score on every layer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn

from ..core.arrays import ArrayLike
from ..core.errors import InputError
from ..core.graphs import recording
from ..reference.bank import sample_keys
from ..reference.head import Head
from ..reference.reference import Batch, Batches, Reference, batches
from ..reference.statistics import Needs
from ._base import Detector
from ._layers import MultiLayer
from ._registry import create, list_detectors, register
from .combination import P_VALUES, STANDARDISED, SUM, check_combination
from .spec import DetectorSpec, parse_spec

# Of the data to fit on, the share that puts the layers on one scale; not the seed of any other choice.
SCALE_SHARE, _SEED = 0.2, 0x5EED_5CA1E
_KEYS = 2**63
# Scores that say nothing but the order of so few samples are no scale.
_FEWEST = 10


@register(
    "layered",
    title="Layered",
    paper="one score on every layer, combined as in guard.Ensemble",
    year=2026,
    formula="1/L · Σ_l (s_l(z_l) − m_l)/σ_l",
)
class Layered(MultiLayer):
    """detector: the score of every layer, with its options: ``knn?k=20``. layers: as in `MultiLayer`.

    combine: ``"standardised"``, ``"p-values"``, or the plain ``"sum"`` of scores that have one scale.

    >>> means, labels = 4 * np.eye(3, 8), np.arange(150) % 3
    >>> train = means[labels] + np.random.default_rng(0).normal(size=(150, 8))
    >>> detector = th.Layered(detector="mds", layers="block:4,fc:4").fit(train, labels)  # columns of two
    >>> known, strange = detector.score(np.stack([means[0], np.ones(8)]))
    >>> bool(known > strange)
    True
    """

    uses_logits = False
    scale: Tensor
    known: Tensor

    def __init__(self, *, detector: str = "knn", layers: str = "", combine: str = STANDARDISED) -> None:
        super().__init__(layers=layers)
        self.detector = detector
        self.combine = check_combination(combine)
        count = 0 if self.layer_rows is None else len(self.layer_rows.names)
        self.members = nn.ModuleList([_member(detector) for _ in range(max(1, count))])
        self.bank_seed = self._of_layers()[0].bank_seed

    def _of_layers(self) -> list[Detector]:
        return [member for member in self.members if isinstance(member, Detector)]

    def _named(self) -> dict[str, Detector]:
        return dict(zip(self._rows().names, self._of_layers(), strict=True))

    def fit(
        self,
        features: ArrayLike | Batches | Reference | None = None,
        labels: ArrayLike | None = None,
        *,
        head: Head | None = None,
        ids: ArrayLike | None = None,
    ) -> Layered:
        """Fit every layer's score on four fifths of the rows, and put them on one scale on the others."""
        if features is None or isinstance(features, Reference | Iterator):
            self._refuse_once()
        if self.combine == SUM:
            return super().fit(features, labels, head=head, ids=ids)
        fresh = type(self)(detector=self.detector, layers=self.layers, combine=SUM)
        fresh.fit(_Kept(features, labels, ids, head, scale=False), head=head)
        scale = self._scale_of(fresh._scores_by_layer(_Kept(features, labels, ids, head, scale=True)))
        # The scale belongs to what was fitted now: both, or neither.
        self.members, self.head, self.width = fresh.members, fresh.head, fresh.width
        self.register_buffer("known" if self.combine == P_VALUES else "scale", scale)
        return self

    def _scale_of(self, found: Mapping[str, Tensor]) -> Tensor:
        names = [name for name, scores in found.items() if not bool(scores.std() > 0)]
        if names:
            raise InputError(
                f"{self._name}: the scores of {self.detector} on layer {names[0]!r} are all equal, so that "
                f"it tells nothing apart: leave the layer out"
            )
        every = torch.stack([scores.sort().values for scores in found.values()])
        return every if self.combine == P_VALUES else torch.stack([every.mean(dim=1), every.std(dim=1)], 1)

    def _scores_by_layer(self, data: _Kept) -> dict[str, Tensor]:
        rows, found = self._rows(), dict[str, list[Tensor]]()
        for batch, _, _ in data:
            for name, part in rows.split(batch).items():
                scores = self._named()[name].score(part)
                found.setdefault(name, []).append(scores.cpu().double())
        count = sum(map(len, next(iter(found.values()), [])))
        if count < _FEWEST:
            raise InputError(
                f"{self._name} keeps a fifth of the samples to put the layers on one scale, and {count} are "
                f"too few: pass more data, or combine='sum'"
            )
        return {name: torch.cat(parts) for name, parts in found.items()}

    # ------------------------------------------------------------------ one layer's part

    def _needs_of(self, layer: str) -> Needs:
        return self._named()[layer].needs

    def _seen_of(self, layer: str, rows: Tensor) -> Tensor:
        return self._named()[layer]._shape(rows)

    def _fit_layers(self, references: Mapping[str, Reference]) -> None:
        for name, member in self._named().items():
            member._adopt(Reference(None, references[name].statistics, member.view_key))

    def _build(self) -> None:
        rows = self._rows()
        for member, width in zip(self._of_layers(), rows.widths, strict=True):
            member.width = width
            member._build()

    def _score_layers(self, layers: Mapping[str, Tensor], logits: Tensor) -> Tensor:  # noqa: ARG002
        named = self._named()
        scores = torch.stack([_scores(named[name], rows).double() for name, rows in layers.items()])
        if self.combine == STANDARDISED:
            scale = self.scale.to(scores.device)
            scores = (scores - scale[:, :1]) / scale[:, 1:]
        elif self.combine == P_VALUES:
            known = self.known.to(scores.device)
            below = torch.searchsorted(known, scores.contiguous(), right=True)
            p_values = (1 + below.double()) / (known.shape[1] + 1)
            scores = torch.where(torch.isfinite(scores), p_values, torch.nan)
        combined = scores.sum(dim=0) if self.combine == SUM else scores.mean(dim=0)
        return combined.to(next(iter(layers.values())).dtype)


class _Kept:
    """The share of the batches that is fitted on, or the one that the scale is taken from."""

    def __init__(
        self,
        features: ArrayLike | Batches,
        labels: ArrayLike | None,
        ids: ArrayLike | None,
        head: Head | None,
        *,
        scale: bool,
    ) -> None:
        self._data = features, labels, ids, head
        self._scale = scale

    def __iter__(self) -> Iterator[Batch]:
        count = 0
        for rows, labels, ids in batches(*self._data):
            numbers = torch.arange(count, count + len(rows)) if ids is None else ids
            count += len(rows)
            chosen = in_scale(numbers) == self._scale
            if bool(chosen.any()):
                yield rows[chosen], None if labels is None else labels[chosen], numbers[chosen]


def in_scale(ids: Tensor) -> Tensor:
    """True for the samples that the layers' scales are taken from."""
    return sample_keys(ids, _SEED) < int(SCALE_SHARE * _KEYS)


def _scores(member: Detector, rows: Tensor) -> Tensor:
    return member._recorded(rows, None) if recording() else member._scores(rows, None, refuse=False)


def _member(text: str) -> Detector:
    """The score of one layer; refused where it needs what a layer has not."""
    spec = parse_spec(text)
    detector = spec.build()
    problem = _problem(spec, detector)
    if problem is not None:
        raise InputError(f"{text} cannot score every layer: {spec.record.title} {problem}")
    return detector


def _problem(spec: DetectorSpec, detector: Detector) -> str | None:
    if detector.of_layers:
        return "scores several layers by itself"
    if detector.model_score is not None or spec.record.on_features.options:
        return "changes the model's inputs"
    if _reads_head(detector):
        able = [name for name in list_detectors() if _of_one_layer(create(name))]
        return f"needs a head, which only the last layer has. Scores without: {', '.join(able)}"
    if detector.shaping is not None:
        return "is shaped, and shapings are for the features in front of the head"
    if getattr(detector, "store", None) is not None:
        return "keeps its bank in a feature store, which is of whole rows"
    if not _of_one_layer(detector):
        return f"maps features to {detector.seen_width} numbers, and layers are counted in their own widths"
    return None


def _reads_head(detector: Detector) -> bool:
    return detector.uses_logits or detector.reads_head


def _of_one_layer(detector: Detector) -> bool:
    """Whether it learns from the features of a layer as they are."""
    return not _reads_head(detector) and detector.seen_width is None
