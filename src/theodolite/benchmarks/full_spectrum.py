"""Full-spectrum: ID data under a shift counts as ID, beside the held-out data of the same kind as training.

A detector that takes a sketch of a known class for OOD is wrong then: scores are judged by all ID samples
together, and the accuracy is that on all of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from ..core.errors import InputError
from .feature_sets import TEST, Batch, FeatureSet, identified, pictures_of
from .shown import shown_of
from .subject import Subject


class JoinedSet:
    """Several sets as one, in their order; it is labelled, and knows its samples by name, where all do."""

    def __init__(self, parts: Mapping[str, FeatureSet]) -> None:
        self.parts = dict(parts)
        first, *others = self.parts.values()
        for name, rows in self.parts.items():
            if rows.width != first.width:
                raise InputError(
                    f"{name}: features have width {rows.width}, but those before it have {first.width}"
                )
            if shown_of(rows) != shown_of(first):
                raise InputError(
                    f"{name}: its features are of {shown_of(rows).view}, but those before it are of "
                    f"{shown_of(first).view}: extract all sets in the same way"
                )
        self.width = first.width
        self.shown = shown_of(first)
        self.labelled = all(rows.labelled for rows in self.parts.values())
        self.identified = all(identified(rows) for rows in self.parts.values())
        # Names of folders: another set may lack a class, or have none, and then its names stand for others.
        same = all(rows.class_names in (None, first.class_names) for rows in others)
        self.class_names = first.class_names if same else None

    def __len__(self) -> int:
        return sum(len(rows) for rows in self.parts.values())

    def __iter__(self) -> Iterator[Batch]:
        for rows in self.parts.values():
            for features, labels, logits in rows:
                yield features, labels if self.labelled else None, logits

    @property
    def pictures(self) -> Tensor | None:
        found = [pictures_of(rows) for rows in self.parts.values()]
        known = [pictures for pictures in found if pictures is not None]
        return torch.cat(known) if len(known) == len(found) else None

    @property
    def digest(self) -> str:
        return _digest(rows.digest for rows in self.parts.values())

    @property
    def samples(self) -> str:
        return _digest(rows.samples for rows in self.parts.values())


def with_shifted(subject: Subject, shifted: Mapping[str, FeatureSet]) -> Subject:
    """A subject whose held-out ID data are its own and the shifted ones."""
    return replace(
        subject,
        test=JoinedSet({TEST: subject.test, **shifted}),
        shifted={name: len(rows) for name, rows in shifted.items()},
    )


def _digest(parts: Iterator[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
