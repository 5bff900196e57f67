"""What of the data sets is on this machine: found, counted, compared with the card."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from ..core.errors import InputError, TheodoliteError
from ..data import ImageSource, Sample, open_source
from ..data.sample import line
from ..features.manifest import listing_digest
from .datasets import Card, Split, card


class Negatives:
    """Every picture of a source with its values turned round, 1 − x; without labels."""

    class_names = None

    def __init__(self, source: ImageSource) -> None:
        self.source = source

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> Sample:
        sample = self.source[index]
        if isinstance(sample.image, torch.Tensor):
            return Sample(1 - sample.image, None, f"negative/{sample.id}")
        turned = Image.fromarray(255 - np.asarray(sample.image))
        return Sample(turned, None, f"negative/{sample.id}")

    def listing(self) -> Iterator[str]:
        for entry in self.source.listing():
            name, _, content = entry.split("\t")
            yield line(f"negative/{name}", None, content)


@dataclass(frozen=True)
class Presence:
    """One split of one data set: ``state`` is present, missing or wrong, ``detail`` says what was found."""

    card: Card
    split_name: str
    state: str
    detail: str
    path: Path | None = None

    @property
    def present(self) -> bool:
        return self.state == "present"

    @property
    def split(self) -> Split:
        return self.card.split(self.split_name)

    def open(self) -> ImageSource:
        """The samples; refused unless they are the ones the card describes."""
        if not self.present or self.path is None:
            raise InputError(
                f"{self.card.title} ({self.split_name}) cannot be used: {self.detail}. "
                f"How to get it: {self.card.obtain}"
            )
        return _open(self.card, self.split_name, self.path)


def data_root(given: str | Path | None = None) -> Path | None:
    """The folder of all data sets: as given, or what THEODOLITE_DATA names."""
    named = given or os.environ.get("THEODOLITE_DATA")
    if not named:
        return None
    root = Path(named).expanduser()
    if not root.is_dir():
        raise InputError(f"the data root {root} is not a folder: check --root or THEODOLITE_DATA")
    return root


def look(name: str, split_name: str, root: Path | None, *, verify: bool = False) -> Presence:
    """Look for a split below the root and count it. ``verify`` also compares the listing's checksum."""
    found = card(name)
    wanted = found.split(split_name)
    base = card(found.derived) if found.derived else found
    if root is None:
        return Presence(found, split_name, "missing", "no data root: set THEODOLITE_DATA or pass --root")
    path = _place(root, base.split(split_name))
    if path is None:
        looked = " or ".join(base.split(split_name).places)
        return Presence(found, split_name, "missing", f"not below the data root, looked for {looked}")
    try:
        source = _open(found, split_name, path)
        if len(source) != wanted.count:
            detail = f"{path} holds {len(source):,} samples, expected {wanted.count:,}"
            return Presence(found, split_name, "wrong", detail, path)
        if verify and wanted.listing is not None and listing_digest(source.listing()) != wanted.listing:
            detail = f"{path} holds {len(source):,} samples, but other ones than the original"
            return Presence(found, split_name, "wrong", detail, path)
    except TheodoliteError as error:
        return Presence(found, split_name, "wrong", str(error), path)
    known = ", listing as the original" if verify and wanted.listing is not None else ""
    return Presence(found, split_name, "present", f"{wanted.count:,} samples{known}", path)


def _place(root: Path, split: Split) -> Path | None:
    for place in split.places:
        path = root / place
        if "*" in place:
            if any(path.parent.glob(path.name)):
                return path
        elif path.is_file() or (path.is_dir() and any(path.iterdir()) and not _features_only(path)):
            return path
    return None


def _features_only(path: Path) -> bool:
    """A folder of extracted features may bear the name of its data set; it holds no pictures."""
    return any(path.glob("*.safetensors"))


def _open(found: Card, split_name: str, path: Path) -> ImageSource:
    if found.derived:
        return Negatives(_open(card(found.derived), split_name, path))
    return open_source(path, kind=found.split(split_name).kind)
