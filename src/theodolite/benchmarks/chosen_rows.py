"""Some rows of a set, chosen by their labels and ids; the set itself is read in batches, every time anew."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from ..core.errors import InputError
from .feature_sets import Batch, FeatureSet, pictures_of
from .shown import shown_of


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Rows of a set: their places in it, and the label and id of each.

    A label is −1 where the set has none, and an id is the place where there is no other.
    """

    rows: FeatureSet
    places: Tensor
    labels: Tensor
    ids: Tensor

    @classmethod
    def of(cls, rows: FeatureSet, classes: int, name: str) -> LabelledRows:
        """All rows of a set, in one pass; refused where labels are none of the head's."""
        labels, ids = [], []
        count = 0
        for features, batch_labels, batch_ids in rows:
            places = torch.arange(count, count + len(features))
            labels.append(torch.full_like(places, -1) if batch_labels is None else batch_labels.long())
            ids.append(places if batch_ids is None else batch_ids.long())
            count += len(features)
        found = torch.cat(labels)
        if rows.labelled and not 0 <= int(found.min()) <= int(found.max()) < classes:
            raise InputError(
                f"{name} has labels from {int(found.min())} to {int(found.max())}, but the head has "
                f"{classes} classes: labels must lie in 0..{classes - 1}"
            )
        return cls(rows, torch.arange(count), found, torch.cat(ids))

    def __len__(self) -> int:
        return len(self.places)

    @property
    def classes(self) -> list[int]:
        """The classes that have rows."""
        return [int(label) for label in torch.unique(self.labels)]

    def where(self, mask: Tensor) -> LabelledRows:
        """Those of the rows that a mask over them chooses."""
        return LabelledRows(self.rows, self.places[mask], self.labels[mask], self.ids[mask])


class ChosenRows:
    """Chosen rows as a set; ``numbers`` are new labels by the old ones, without them there are none."""

    class_names = None

    def __init__(self, chosen: LabelledRows, numbers: Tensor | None = None) -> None:
        self.chosen = chosen
        self.numbers = numbers
        self.width = chosen.rows.width
        self.labelled = numbers is not None
        self.shown = shown_of(chosen.rows)

    def __len__(self) -> int:
        return len(self.chosen)

    def __iter__(self) -> Iterator[Batch]:
        places = self.chosen.places
        start = done = 0
        for features, _, _ in self.chosen.rows:
            end = start + len(features)
            until = int(torch.searchsorted(places, end))
            if until > done:
                labels, ids = self.chosen.labels[done:until], self.chosen.ids[done:until]
                new = None if self.numbers is None else self.numbers[labels]
                yield features[places[done:until] - start], new, ids
            start, done = end, until

    @property
    def pictures(self) -> Tensor | None:
        found = pictures_of(self.chosen.rows)
        return None if found is None else found[self.chosen.places]

    @cached_property
    def digest(self) -> str:
        return self._digest(self.chosen.rows.digest)

    @cached_property
    def samples(self) -> str:
        return self._digest(self.chosen.rows.samples)

    def _digest(self, whole: str) -> str:
        digest = hashlib.sha256(whole.encode())
        for tensor in (self.chosen.places, self.numbers):
            digest.update(b"none" if tensor is None else tensor.numpy().tobytes())
        return digest.hexdigest()
