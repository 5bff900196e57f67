"""A source on its way to workers: the files of a folder or list as a table, other data as it is.

The names of files lie once in Ray's store on each machine, where workers read them without a copy of their
own; what a worker opens is the run of samples that it works on.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.errors import MissingExtraError
from ..data import ImageSource
from ..data.files import ImageFiles
from ..data.selection import Selection
from .store import UNLABELLED


@dataclass(frozen=True)
class SentSource:
    """A source that workers open in runs: names and labels of files below ``root``, or a ``whole`` one."""

    root: Path
    files: Any = None
    whole: ImageSource | None = None

    @classmethod
    def of(cls, source: ImageSource) -> SentSource:
        """The source as it travels. Of a folder that is about 100 bytes a picture, once on each machine."""
        inner = source.source if isinstance(source, Selection) else source
        if not isinstance(inner, ImageFiles):
            return cls(Path(), whole=source)
        try:
            import pyarrow
        except ImportError as error:
            raise MissingExtraError("pyarrow", "ray") from error
        rows = source.rows if isinstance(source, Selection) else range(len(inner))
        names = pyarrow.array((os.fsencode(inner.files[row][0]) for row in rows), pyarrow.large_binary())
        labels = pyarrow.array(
            (UNLABELLED if (label := inner.files[row][1]) is None else label for row in rows), pyarrow.int64()
        )
        return cls(inner.root.resolve(), pyarrow.table({"name": names, "label": labels}))

    def run(self, samples: range) -> ImageSource:
        """Neighbouring samples, as a source of their own."""
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
