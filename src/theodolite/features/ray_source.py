"""A source on its way to workers: the files of a folder or list as a table, other data as it is.

The names of files lie once in Ray's store on each machine, where workers read them without a copy of their
own; what a worker opens is the run of samples that it works on.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.errors import InputError, MissingExtraError
from ..data import ImageSource
from ..data.files import ImageFiles
from ..data.parquet import ParquetPictures
from ..data.selection import Selection
from .store import UNLABELLED


@dataclass(frozen=True)
class SentSource:
    """A source that workers open in runs: names and labels of files below ``root``, or a ``whole`` one.

    ``known`` is a file that the driver sees: a worker that does not would take all pictures to be missing.
    """

    root: Path
    files: Any = None
    whole: ImageSource | None = None
    known: Path | None = None

    @classmethod
    def of(cls, source: ImageSource) -> SentSource:
        """The source as it travels. Of a folder that is about 100 bytes a picture, once on each machine."""
        inner = source.source if isinstance(source, Selection) else source
        if not isinstance(inner, ImageFiles):
            known = inner.known_file() if isinstance(inner, ParquetPictures) else None
            return cls(Path(), whole=source, known=known)
        try:
            import pyarrow
        except ImportError as error:
            raise MissingExtraError("pyarrow", "ray") from error
        rows = source.rows if isinstance(source, Selection) else range(len(inner))
        names = pyarrow.array((os.fsencode(inner.files[row][0]) for row in rows), pyarrow.large_binary())
        labels = pyarrow.array(
            (UNLABELLED if (label := inner.files[row][1]) is None else label for row in rows), pyarrow.int64()
        )
        first = inner.root / inner.files[rows[0]][0] if len(rows) else None
        known = first.resolve() if first is not None and first.is_file() else None
        return cls(inner.root, pyarrow.table({"name": names, "label": labels}), known=known)

    def listing(self, samples: range) -> Iterator[str] | None:
        """The lines of neighbouring samples; None where those of all have to be put together at once."""
        if self.whole is None:
            return self.run(samples).listing()
        return self.whole.listing_of(samples) if isinstance(self.whole, ParquetPictures) else None

    def run(self, samples: range) -> ImageSource:
        """Neighbouring samples, as a source of their own."""
        if self.known is not None and not (self.known.is_file() and self.root.is_dir()):
            raise InputError(
                f"a worker does not see {self.known}: pictures must be on a file system that all machines of "
                f"the cluster share, under the same path"
            )
        if self.whole is not None:
            return Selection(self.whole, samples)
        table = self.files.slice(samples.start, len(samples))
        names, labels = table["name"].to_pylist(), table["label"].to_pylist()
        return ImageFiles(
            self.root,
            [
                (os.fsdecode(name), None if label == UNLABELLED else label)
                for name, label in zip(names, labels, strict=True)
            ],
        )
