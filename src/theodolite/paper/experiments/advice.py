"""Does leave-class-out on ID features tell which score, and which setting of a score, to use?

All of the following was fixed before any figure was computed.

Data: five networks, `SUBJECTS`. Of a set of more than `MOST` rows those with the smallest hashes of their
places stand for it. The held-out ID rows are cut by hash into two halves: one may give advice, the other is
judged against the OOD sets.

The true order: fitted on the rows to fit on, FPR95 of the judged half averaged over the OOD sets.

The advice: the rule of `benchmarks.leave_out` and `benchmarks.trials`, five folds, seed 0, from two kinds of
rows. *Unseen*: fitted on the rows to fit on, judged on the half of the held-out ID rows, which the network
did not learn. *Share*: the rows to fit on alone, a fifth of them held out by hash, as a guard does; on the
networks of `LEARNT` only, which (or whose heads) learnt from those rows.

The scores: `SCORES`, each with its defaults. A score that refuses either side is left out of both orders.

Measured on each network: Spearman's and Kendall's correlation of the two orders, and the regret, the true
FPR95 of the advised score minus that of the best; beside it the regret of always taking the recommended score
and that of a score taken at random.

Success, for each kind of rows: the mean regret of the advised score is not above that of the recommended one,
and Spearman's correlation is above 0.5 on most of the networks. If it fails on unseen rows, there is no
command `theodolite advise`. If it holds there and fails on a share, the command asks for unseen rows.

Settings, each of `GRIDS`, on unseen rows: the true FPR95 of the setting that leave-class-out chooses, of the
default and of the best. Tuning a grid pays if the mean over networks is below that of the default. What comes
of it is told; `theodolite tune` is there either way, because it also takes a validation OOD set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from ...benchmarks.chosen_rows import LabelledRows
from ...benchmarks.feature_folder import from_folder
from ...benchmarks.feature_sets import ArraySet, FeatureSet
from ...benchmarks.leave_out import FOLDS, KnownData
from ...benchmarks.subject import Subject
from ...benchmarks.trials import Trial, class_trials, ranked
from ...detectors.spec import parse_specs
from ...features.checked import checked_capture
from ...guard.holdout import in_share
from ...models import load_model
from ...models.training import one_thread
from ...reference.bank import sample_keys
from ...reference.head import Head
from ...report.tables import Table
from ..studies import TableStudy
from ._registry import Context, Need, Produced, experiment
from .advice_figures import (
    Agreement,
    Criterion,
    Figure,
    Setting,
    agreement,
    agreement_table,
    criterion,
    criterion_table,
    figure_tables,
    figures_of,
    setting,
    settings_table,
)
from .mnist import DATA, OE_WEIGHTS
from .pictures import features_of, pictures

FOLDERS = ("cifar10-densenet", "imagenet-lite0", "imagenet-resnet50", "clinc150-minilm")
DIGITS = "oe-mnist"
SUBJECTS = (*FOLDERS, DIGITS)
SCORES = (
    *("csi", "distance", "energy", "fdbd", "knn", "maha+", "maxlogit", "mcm", "mds", "msp", "nci", "neco"),
    *("nnguide", "odin", "ora", "pcos", "rcos", "relative-energy", "rmds", "ssd+", "vim"),
)
# The default first.
GRIDS: Mapping[str, tuple[str, ...]] = {
    "energy+react": tuple(f"energy+react:{percentile}" for percentile in (90, 80, 85, 95, 99)),
    "ora+scale": tuple(f"ora+scale:{percentile}" for percentile in (85, 65, 75, 90, 95)),
    "knn?k": tuple(f"knn?k={k}" for k in (50, 1, 5, 10, 200)),
    "energy?temperature": tuple(f"energy?temperature={value}" for value in (1, 0.1, 0.5, 2, 10)),
}
LEARNT = ("cifar10-densenet", "clinc150-minilm", DIGITS)
UNSEEN, SHARE = "unseen", "share"
# Rows of a set to fit on and of held-out ID rows, and of an OOD set.
MOST, MOST_STRANGE = 4_000, 2_000
_SEED = 0


@dataclass(frozen=True, kw_only=True)
class Advice(TableStudy):
    format = "theodolite-advice/1"

    folds: int
    seed: int
    criteria: tuple[Criterion, ...]
    agreements: tuple[Agreement, ...]
    figures: Mapping[str, tuple[Figure, ...]]
    settings: tuple[Setting, ...]

    def tables(self) -> list[Table]:
        """The criterion first, then what it is made of."""
        return [
            criterion_table(self.criteria),
            agreement_table(self.agreements),
            settings_table(self.settings),
            *figure_tables(self.figures),
        ]


@dataclass(frozen=True)
class Parts:
    """One network: rows to fit on, unseen ID rows in two halves, and OOD sets."""

    name: str
    head: Head
    fit: ArraySet
    advising: ArraySet
    judged: ArraySet
    ood: Mapping[str, ArraySet]

    @property
    def subject(self) -> Subject:
        """What the true order is measured on."""
        return Subject(self.name, self.head, self.fit, self.judged, self.ood)

    def known(self, rows: str) -> KnownData:
        """What advice is taken from."""
        fit = LabelledRows.of(self.fit, self.head.classes, f"{self.name}, rows to fit on")
        unseen = LabelledRows.of(self.advising, self.head.classes, f"{self.name}, unseen rows")
        return KnownData.of(self.name, self.head, fit, unseen if rows == UNSEEN else None)


@experiment(
    "advice",
    "Does leave-class-out on ID features tell which score to use?",
    *(Need(folder) for folder in FOLDERS),
    *DATA,
    Need(OE_WEIGHTS),
)
def advice(context: Context) -> Produced:
    return {"advice": advice_on(SUBJECTS, context)}


def advice_on(names: Sequence[str], context: Context) -> Advice:
    """The experiment on some of the networks."""
    agreements: list[Agreement] = []
    figures: dict[str, tuple[Figure, ...]] = {}
    settings: list[Setting] = []
    for name in names:
        context.say(f"advice: {name}")
        found = measured(parts_of(name, context))
        agreements += found.agreements
        figures[name] = found.figures
        settings += found.settings
    return Advice(
        title="Leave-class-out on ID features against the true order of scores",
        command="theodolite reproduce advice",
        folds=FOLDS,
        seed=_SEED,
        criteria=tuple(criterion(agreements, rows) for rows in (UNSEEN, SHARE)),
        agreements=tuple(agreements),
        figures=figures,
        settings=tuple(settings),
    )


# ---------------------------------------------------------------------- data


def parts_of(name: str, context: Context) -> Parts:
    """The rows of one network, at most so many of each set."""
    if name == DIGITS:
        return _digits(context)
    subject = from_folder(context.root / name)
    held_out = sample(subject.test, MOST)
    return _halved(
        name,
        subject.head,
        sample(subject.fit, MOST),
        held_out,
        {ood: sample(rows, MOST_STRANGE) for ood, rows in subject.ood.items()},
    )


@one_thread()
def _digits(context: Context) -> Parts:
    """The ConvNet of Outlier Exposure on MNIST; of its pictures only those that are asked for."""
    capture = checked_capture(load_model("oe:mnist", weights=context.root / OE_WEIGHTS))
    seen = partial(features_of, capture)
    train, labels = pictures(context.root, "mnist", "train")
    test, test_labels = pictures(context.root, "mnist")
    chosen, strange = smallest(len(train), MOST), smallest(len(test), MOST_STRANGE)
    others = {name: pictures(context.root, name)[0] for name in ("fashion-mnist", "notmnist")}
    ood = {
        name: ArraySet(seen(images[smallest(len(images), MOST_STRANGE)])) for name, images in others.items()
    }
    ood["negatives"] = ArraySet(seen(1 - test[strange]))
    fit = ArraySet(seen(train[chosen]), labels[chosen])
    return _halved(DIGITS, capture.head, fit, ArraySet(seen(test), test_labels), ood)


def _halved(name: str, head: Head, fit: ArraySet, held_out: ArraySet, ood: Mapping[str, ArraySet]) -> Parts:
    assert held_out.labels is not None
    first = in_share(torch.arange(len(held_out)), 0.5)
    advising, judged = (ArraySet(held_out.features[side], held_out.labels[side]) for side in (first, ~first))
    return Parts(name, head, fit, advising, judged, ood)


def sample(rows: FeatureSet, most: int) -> ArraySet:
    """At most so many rows of a set, in memory."""
    batches = list(rows)
    chosen = smallest(len(rows), most)
    features = torch.cat([features for features, _, _ in batches])[chosen]
    if not rows.labelled:
        return ArraySet(features)
    return ArraySet(features, torch.cat([labels for _, labels, _ in batches if labels is not None])[chosen])


def smallest(count: int, most: int) -> Tensor:
    """The places with the smallest hashes, in rising order."""
    return sample_keys(torch.arange(count), _SEED).argsort(stable=True)[:most].sort().values


# ---------------------------------------------------------------------- figures


@dataclass(frozen=True)
class Measured:
    """What one network says."""

    agreements: list[Agreement]
    figures: tuple[Figure, ...]
    settings: list[Setting]


def measured(network: Parts) -> Measured:
    """Advice beside the truth, and the settings chosen from unseen rows."""
    scores = parse_specs(SCORES)
    everything = parse_specs([*SCORES, *(text for grid in GRIDS.values() for text in grid)])
    true = ranked([Trial(network.subject)], everything)
    advised = {UNSEEN: ranked(class_trials(network.known(UNSEEN), FOLDS, _SEED)[0], everything)}
    if network.name in LEARNT:
        advised[SHARE] = ranked(class_trials(network.known(SHARE), FOLDS, _SEED)[0], scores)
    names = {spec.text for spec in scores}
    return Measured(
        [agreement(network.name, rows, said, true, names) for rows, said in advised.items()],
        figures_of(true, advised, names),
        [setting(network.name, grid, texts, advised[UNSEEN], true) for grid, texts in GRIDS.items()],
    )
