"""A subject of a benchmark: one model's head, and its features of every set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from ..core.errors import InputError
from ..features.head_files import head_digest
from ..reference.head import Head
from .feature_sets import AVERAGE, FIT, TEST, FeatureSet
from .shown import ShownRows, View
from .views import shown_rows

# Heads that are not a model's own, as published tables call them.
ZERO_SHOT, LINEAR_PROBE = "zero-shot", "linear-probe"


@dataclass(frozen=True)
class Subject:
    """The features of one model. ``missing`` says which sets were left out, and why.

    ``backbone`` and ``protocol`` are the names under which published tables know it, if they do, and
    ``head_kind`` what they say of its head where it is not the model's own; ``folder`` is where its features
    lie on disk, if they do. ``groups`` are OOD sets that are averaged together, by the name of the mean.
    ``shifted`` counts the rows of ``test`` that are ID data under a shift, by their set. ``views`` are the
    same model's features of changed inputs, or of several layers, each as a subject of its own.

    >>> means, labels, rng = 4 * np.eye(3, 8), np.arange(150) % 3, np.random.default_rng(0)
    >>> train, test = (th.ArraySet(means[labels] + rng.normal(size=(150, 8)), labels) for _ in range(2))
    >>> fog = th.ArraySet(1 + rng.normal(size=(100, 8)))
    >>> subject = th.Subject("mine", th.Head(means), train, test, {"fog": fog})
    >>> sorted(subject.ood)
    ['fog']
    """

    name: str
    head: Head
    fit: FeatureSet
    test: FeatureSet
    ood: Mapping[str, FeatureSet]
    backbone: str | None = None
    protocol: str | None = None
    missing: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    shifted: Mapping[str, int] = field(default_factory=dict)
    head_kind: str | None = None
    views: Mapping[View, Subject] = field(default_factory=dict)

    def __post_init__(self) -> None:
        taken = sorted({FIT, TEST, AVERAGE, *self.groups, *self.shifted} & set(self.ood))
        if taken:
            raise InputError(
                f"{self.name}: an OOD set cannot be called {taken[0]!r}, which has a meaning of its own"
            )
        if not self.ood:
            raise InputError(f"{self.name} has no OOD set: scores are judged against at least one")
        for name, rows in self.sets.items():
            if rows.width != self.head.width:
                raise InputError(
                    f"{self.name}, {name}: features have width {rows.width}, "
                    f"but the head expects {self.head.width}"
                )

        _ = self.shown

    @cached_property
    def shown(self) -> ShownRows:
        """What its features are of; the same for every set."""
        return shown_rows(self.sets, self.name)

    @property
    def whole_groups(self) -> dict[str, tuple[str, ...]]:
        """The groups all of whose sets are here: the mean over a part would be another figure."""
        return {name: sets for name, sets in self.groups.items() if set(sets) <= set(self.ood)}

    @property
    def left_out(self) -> dict[str, str]:
        """What has no figure and why: the sets that are missing, then the groups that lack one."""
        partly = {
            name: f"it is the mean over {', '.join(sets)}, and {', '.join(absent)} is not here"
            for name, sets in self.groups.items()
            if (absent := [part for part in sets if part not in self.ood])
        }
        return {**self.missing, **partly}

    @property
    def published_head(self) -> str | None:
        """The kind of head by which published tables tell rows of one backbone apart."""
        return self.head_kind or (ZERO_SHOT if self.head.unit_features else None)

    @property
    def sets(self) -> dict[str, FeatureSet]:
        """Every set by its name: to fit on, held out, then OOD."""
        return {FIT: self.fit, **self.judged}

    @property
    def judged(self) -> dict[str, FeatureSet]:
        """The sets that are scored."""
        return {TEST: self.test, **self.ood}

    @property
    def digests(self) -> dict[str, str]:
        return {"head": head_digest(self.head), **{name: rows.digest for name, rows in self.sets.items()}}
