"""What of the data sets is on this machine: found, counted, compared with what it must look like."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..core.errors import InputError, TheodoliteError
from ..core.files import sha256
from ..data import ImageSource, open_source
from ..data.files import ImageFiles
from ..features.manifest import listing_digest
from .datasets import Dataset, Split, dataset
from .negatives import Negatives


@dataclass(frozen=True)
class Located:
    """One split of one data set: ``state`` is present, missing or wrong, ``detail`` says what was found.

    ``own_list`` says that it is present by a list which is not the original.
    """

    dataset: Dataset
    split_name: str
    state: str
    detail: str
    path: Path | None = None
    own_list: bool = False

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


def locate(
    name: str, split_name: str, root: Path | None, *, verify: bool = False, own: bool = False
) -> Located:
    """Look for a split below the root and count it. ``verify`` also compares the listing's checksum.

    ``own`` takes a list of pictures as it is, be it another than the original; the detail then says so.
    """
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
        absent = None if wanted.images is None else _without_pictures(source, path, verify=verify)
        if absent is not None:
            return Located(found, split_name, "missing", absent, path)
        wrong = _differs(source, wanted, path, verify=verify)
        if wrong is not None and not (own and wanted.images is not None):
            return Located(found, split_name, "wrong", f"{wrong}{_on_purpose(wanted)}", path)
    except TheodoliteError as error:
        return Located(found, split_name, "wrong", str(error), path)
    known = _compared(wanted, verify=verify) if wrong is None else f" by a list of one's own: {wrong}"
    return Located(found, split_name, "present", f"{len(source):,} samples{known}", path, wrong is not None)


def _differs(source: ImageSource, wanted: Split, path: Path, *, verify: bool) -> str | None:
    """What is wrong with samples that are there, or None."""
    if wanted.count is not None and len(source) != wanted.count:
        return f"{path} holds {len(source):,} samples, expected {wanted.count:,}"
    if wanted.digest is not None and not (seen := sha256(path)).startswith(wanted.digest):
        return (
            f"{path} is another list than the original: its sha256 begins with {seen[: len(wanted.digest)]}, "
            f"expected {wanted.digest}"
        )
    if verify and wanted.listing is not None and listing_digest(source.listing()) != wanted.listing:
        return f"{path} holds {len(source):,} samples, but other ones than the original"
    return None


def _on_purpose(wanted: Split) -> str:
    return "" if wanted.images is None else "; to use a list of your own on purpose, bench --own-lists"


def _without_pictures(source: ImageSource, path: Path, *, verify: bool) -> str | None:
    """Of a list whose pictures are elsewhere, those that are not there: the first, or all of them."""
    assert isinstance(source, ImageFiles)
    names = [name for name, _ in (source.files if verify else source.files[:1])]
    absent = [name for name in names if not (source.root / name).is_file()]
    if not absent:
        return None
    many = f"{len(absent):,} of {len(names):,} of its pictures are" if verify else "its pictures are"
    return f"the list {path} is here, but {many} not: no {source.root / absent[0]}"


def _compared(wanted: Split, *, verify: bool) -> str:
    """What was compared with the original, in words."""
    if wanted.images is not None:
        unknown = " (the original list is not known to us: it was not compared)"
        return unknown if wanted.digest is None else ", list as the original"
    return ", listing as the original" if verify and wanted.listing is not None else ""


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
    split = found.split(split_name)
    # A list lies in LISTS/NAME of ID data/, the folders of pictures beside LISTS.
    images = None if split.images is None else path.parents[2] / split.images
    return open_source(path, kind=split.kind, root=images)
