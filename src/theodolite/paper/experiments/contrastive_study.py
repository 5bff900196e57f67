"""The record of the contrastive study: what every network scored, and the statistics that answer.

Let F(k, l, s) be the FPR95 of score k, averaged over the OOD sets, on the network trained with loss l and
seed s; the networks of one seed began alike and saw the same batches. All statistics are means over seeds
with the 95 % interval of Student's t, seeds being the samples.

1. Does SupCon help ORA more than other scores? A score's gain is g(k, s) = F(k, CE, s) − F(k, SupCon, s). The
   statistic is g(ORA, s) − mean of g(k, s) over all other scores k: yes if its interval lies above 0, no
   if below. "Most" holds if no other score has a larger mean gain.
2. Is the maximum right on SupCon, and the mean on cross-entropy? The statistic, for each loss l, is
   F(ORA with mean, l, s) − F(ORA with max, l, s): the maximum is right if its interval lies above 0, the mean
   if below.

An interval with 0 inside leaves the question open. AUROC is reported beside FPR95 and decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...core.plain import JsonValue
from ...evaluation.metrics import AUROC, FPR95
from ...report.tables import Table
from ..studies import Spread, TableStudy
from .contrastive_summary import Summary

SUPCON, CE = "SupCon", "cross-entropy"
LOSSES = (SUPCON, CE)
ORA, ORA_MEAN = "ORA", "ORA aggregate=mean"
METRICS = (FPR95.name, AUROC.name)
# The 97.5 % points of Student's t by the number of samples.
_STUDENT = {2: 12.7062, 3: 4.3027, 4: 3.1824, 5: 2.7764}
_DIGITS = 4


@dataclass(frozen=True)
class Network:
    """One trained network: ID accuracy, and every score's metrics by OOD set, all in per cent."""

    loss: str
    seed: int
    accuracy: float
    summary: Summary
    scores: Mapping[str, Mapping[str, Mapping[str, float]]]

    def average(self, score: str, metric: str) -> float:
        """Over the OOD sets."""
        return float(np.mean([found[metric] for found in self.scores[score].values()]))


@dataclass(frozen=True)
class Interval:
    """A mean over seeds and its 95 % interval."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Interval:
        mean = float(np.mean(values))
        half = _STUDENT[len(values)] * float(np.std(values, ddof=1)) / len(values) ** 0.5
        return cls(*(round(value, _DIGITS) for value in (mean, mean - half, mean + half)))

    def text(self) -> str:
        return f"{self.mean:+.2f} [{self.low:+.2f}, {self.high:+.2f}]"

    def verdict(self, above: str, below: str) -> str:
        return above if self.low > 0 else below if self.high < 0 else "open"


@dataclass(frozen=True)
class Answer:
    """One question, its statistic in points of FPR95 and of AUROC, and the answer."""

    question: str
    fpr95: Interval
    auroc: Interval
    answer: str


@dataclass(frozen=True, kw_only=True)
class Contrastive(TableStudy):
    format = "theodolite-contrastive/2"

    model: str
    settings: Mapping[str, JsonValue]
    samples: Mapping[str, int]
    networks: tuple[Network, ...]
    refused: Mapping[str, str]
    gains: Mapping[str, Interval]
    place_of_ora: int
    answers: tuple[Answer, ...]

    def tables(self) -> list[Table]:
        return [self._answers(), self._scores(), self._sets(), self._networks()]

    def _answers(self) -> Table:
        rows = [[row.question, row.fpr95.text(), row.auroc.text(), row.answer] for row in self.answers]
        others = sum(label not in (ORA, ORA_MEAN) for label in self.gains)
        place = f"ORA's gain is number {self.place_of_ora} of {1 + others}"
        rows.append(["Does it help ORA most?", place, "", "yes" if self.place_of_ora == 1 else "no"])
        title = "The questions: difference in points, mean over seeds [95 % interval]"
        return Table.of_texts(title, ["question", "FPR95", "AUROC", "answer"], rows)

    def _scores(self) -> Table:
        rows = [
            [
                label,
                *(_spread(self.networks, loss, label, FPR95.name).text() for loss in LOSSES),
                gain.text(),
                *(_spread(self.networks, loss, label, AUROC.name).text() for loss in LOSSES),
            ]
            for label, gain in sorted(self.gains.items(), key=lambda item: -item[1].mean)
        ]
        header = ["score", *(f"{loss}: FPR95" for loss in LOSSES), "gain of SupCon"]
        header += [f"{loss}: AUROC" for loss in LOSSES]
        title = "Average over OOD sets in %, mean ± deviation over seeds; by gain in FPR95 [95 % interval]"
        return Table.of_texts(title, header, rows)

    def _sets(self) -> Table:
        rows = [
            [f"{label}, {loss}", *(_of_set(self.networks, loss, label, ood) for ood in self._ood())]
            for loss in LOSSES
            for label in (ORA, ORA_MEAN)
        ]
        return Table.of_texts("ORA by OOD set: FPR95, AUROC in %", ["score, loss", *self._ood()], rows)

    def _networks(self) -> Table:
        rows = [
            [f"{row.loss}, seed {row.seed}", f"{row.accuracy:.2f}", *row.summary.texts()]
            for row in self.networks
        ]
        title = "The networks: ID accuracy in %, features and head"
        return Table.of_texts(title, ["network", "accuracy", *Summary.names()], rows)

    def _ood(self) -> list[str]:
        return list(self.networks[0].scores[ORA])


def answered(networks: Sequence[Network]) -> tuple[dict[str, Interval], int, tuple[Answer, ...]]:
    """The gain of every score in FPR95, the place of ORA's among them, and the answers."""
    labels = list(networks[0].scores)
    others = [label for label in labels if label not in (ORA, ORA_MEAN)]
    gains = {label: Interval.of(_gains(networks, label, FPR95.name)) for label in labels}
    place = 1 + sum(gains[label].mean > gains[ORA].mean for label in others)
    helped = {
        metric: Interval.of(
            np.array(_gains(networks, ORA, metric))
            - np.mean([_gains(networks, label, metric) for label in others], axis=0)
        )
        for metric in METRICS
    }
    answers = [
        Answer(
            "Does SupCon help ORA more than other scores?",
            helped[FPR95.name],
            helped[AUROC.name],
            helped[FPR95.name].verdict("yes", "no"),
        )
    ]
    for loss, above, below in ((SUPCON, "yes", "no, the mean is"), (CE, "no, the maximum is", "yes")):
        right = "maximum" if loss == SUPCON else "mean"
        found = {metric: Interval.of(_mean_over_max(networks, loss, metric)) for metric in METRICS}
        answers.append(
            Answer(
                f"Is the {right} right on {loss}? (mean − maximum)",
                found[FPR95.name],
                found[AUROC.name],
                found[FPR95.name].verdict(above, below),
            )
        )
    return gains, place, tuple(answers)


def _of(networks: Sequence[Network], loss: str) -> list[Network]:
    return sorted((row for row in networks if row.loss == loss), key=lambda row: row.seed)


def _paired(networks: Sequence[Network], difference: Callable[[Network, Network], float]) -> list[float]:
    """A difference of cross-entropy and SupCon, seed by seed."""
    pairs = zip(_of(networks, CE), _of(networks, SUPCON), strict=True)
    found = []
    for plain, contrastive in pairs:
        assert plain.seed == contrastive.seed
        found.append(difference(plain, contrastive))
    return found


def _gains(networks: Sequence[Network], label: str, metric: str) -> list[float]:
    """How much better SupCon is than cross-entropy, seed by seed: a lower FPR95, a higher AUROC."""
    sign = 1 if metric == FPR95.name else -1

    def gain(plain: Network, contrastive: Network) -> float:
        return sign * (plain.average(label, metric) - contrastive.average(label, metric))

    return _paired(networks, gain)


def _mean_over_max(networks: Sequence[Network], loss: str, metric: str) -> list[float]:
    """What ORA's mean has above its maximum."""
    return [row.average(ORA_MEAN, metric) - row.average(ORA, metric) for row in _of(networks, loss)]


def _spread(networks: Sequence[Network], loss: str, label: str, metric: str) -> Spread:
    return _deviation([row.average(label, metric) for row in _of(networks, loss)])


def _of_set(networks: Sequence[Network], loss: str, label: str, ood: str) -> str:
    rows = [row.scores[label][ood] for row in _of(networks, loss)]
    return ", ".join(_deviation([row[metric] for row in rows]).text() for metric in METRICS)


def _deviation(values: Sequence[float]) -> Spread:
    return Spread(float(np.mean(values)), float(np.std(values, ddof=1)))
