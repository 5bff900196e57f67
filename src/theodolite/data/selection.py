"""Some samples of a source, in its order; ids and labels stay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .files import ImageFiles
from .sample import ImageSource, Sample, held_by, labels_of


class Selection:
    """The samples of a source at ``rows``, which ascend."""

    def __init__(self, source: ImageSource, rows: Sequence[int]) -> None:
        self.source: ImageSource = source
        self.rows = rows
        if isinstance(source, Selection):
            self.source, self.rows = source.source, [source.rows[row] for row in rows]
        self.class_names = source.class_names
        self.holds = held_by(source)
        self.from_arrays = getattr(source, "from_arrays", False)
        self.content_digests = getattr(source, "content_digests", False)
        self.left_out = getattr(source, "left_out", ())

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Sample:
        return self.source[self.rows[index]]

    def labels_of_samples(self) -> list[int | None]:
        labels = labels_of(self.source)
        return [labels[row] for row in self.rows]

    def listing(self) -> Iterator[str]:
        """Of files only those chosen are looked at; other sources have to be run through."""
        if isinstance(self.source, ImageFiles):
            files = [self.source.files[row] for row in self.rows]
            return ImageFiles(self.source.root, files).listing()
        return self._listed()

    def _listed(self) -> Iterator[str]:
        wanted = iter(self.rows)
        row = next(wanted, None)
        for index, entry in enumerate(self.source.listing()):
            if row is None:
                return
            if index == row:
                yield entry
                row = next(wanted, None)


def files_of(source: ImageSource) -> ImageSource:
    """The source itself, or the one that it is a selection of."""
    return source.source if isinstance(source, Selection) else source
