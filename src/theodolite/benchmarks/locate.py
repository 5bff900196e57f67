"""What of the data sets is on this machine: found, counted, compared with what it must look like."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..core.errors import InputError, TheodoliteError
from ..data import ImageSource, open_source
from ..features.manifest import listing_digest
from .datasets import Dataset, Split, dataset
from .negatives import Negatives


@dataclass(frozen=True)
class Located:
    """One split of one data set: ``state`` is present, missing or wrong, ``detail`` says what was found."""

    dataset: Dataset
    split_name: str
    state: str
    detail: str
    path: Path | None = None

    @property
    def present(self) -> bool:
        return self.state == "present"

    @property
    def split(self) -> Split:
        return self.dataset.split(self.split_name)

    def open(self) -> ImageSource:
        """The samples; refused unless they are the ones the data set must have."""
        if not self.present or self.path is None:
            raise InputError(
                f"{self.dataset.title} ({self.split_name}) cannot be used: {self.detail}. "
                f"How to get it: {self.dataset.obtain}"
            )
        return _open(self.dataset, self.split_name, self.path)


def locate(name: str, split_name: str, root: Path | None, *, verify: bool = False) -> Located:
    """Look for a split below the root and count it. ``verify`` also compares the listing's checksum."""
    found = dataset(name)
    wanted = found.split(split_name)
    base = dataset(found.derived) if found.derived else found
    if root is None:
        return Located(found, split_name, "missing", "no data root: set THEODOLITE_DATA or pass --root")
    path = _place(root, base.split(split_name))
    if path is None:
        looked = " or ".join(base.split(split_name).places)
        return Located(found, split_name, "missing", f"not below the data root, looked for {looked}")
    try:
        source = _open(found, split_name, path)
        if len(source) != wanted.count:
            detail = f"{path} holds {len(source):,} samples, expected {wanted.count:,}"
            return Located(found, split_name, "wrong", detail, path)
        if verify and wanted.listing is not None and listing_digest(source.listing()) != wanted.listing:
            detail = f"{path} holds {len(source):,} samples, but other ones than the original"
            return Located(found, split_name, "wrong", detail, path)
    except TheodoliteError as error:
        return Located(found, split_name, "wrong", str(error), path)
    known = ", listing as the original" if verify and wanted.listing is not None else ""
    return Located(found, split_name, "present", f"{wanted.count:,} samples{known}", path)


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


def _open(found: Dataset, split_name: str, path: Path) -> ImageSource:
    if found.derived:
        return Negatives(_open(dataset(found.derived), split_name, path))
    return open_source(path, kind=found.split(split_name).kind)
