"""Image files: one picture, or a folder of them with or without classes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ..core.errors import InputError, MissingExtraError
from . import heif
from .digests import contents_of_files
from .formats import data_format
from .left_out import LeftOut, describe_left_out
from .pictures import SUFFIXES, below, is_picture, why_no_picture
from .sample import Sample, line, read_image

_SPLITS = {"train", "training", "val", "valid", "validation", "test"}


class ImageFiles:
    """Files with labels; the id of a sample is its path relative to the root.

    ``left_out`` is what lies beside them and is no picture that can be read here.
    """

    content_digests = True

    def __init__(
        self,
        root: Path,
        files: list[tuple[str, int | None]],
        class_names: tuple[str, ...] | None = None,
        left_out: Sequence[LeftOut] = (),
    ) -> None:
        self.root = root
        self.files = files
        self.class_names = class_names
        self.left_out = tuple(left_out)

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Sample:
        name, label = self.files[index]
        return Sample(read_image(self.root / name), label, name)

    def labels_of_samples(self) -> list[int | None]:
        return [label for _, label in self.files]

    def listing(self) -> Iterator[str]:
        contents = contents_of_files(self.root / name for name, _ in self.files)
        for (name, label), content in zip(self.files, contents, strict=True):
            yield line(name, label, content)


@data_format("folder", title="a folder of pictures", place="folder")
def open_folder(path: Path) -> ImageFiles:
    """A folder: sub-folders with pictures are classes in alphabetic order, loose pictures have no labels."""
    here, classes, left_out = _sorted_out(path)
    if classes and {name.lower() for name in classes} <= _SPLITS:
        raise InputError(
            f"{path} holds the splits {', '.join(classes)}, not classes: open one of them, for example "
            f"{path / list(classes)[-1]}"
        )
    if here and classes:
        raise InputError(
            f"{path} holds pictures as well as sub-folders of pictures ({next(iter(classes))}): sort all "
            f"of them into one folder a class, or open it as kind 'flat' to leave the labels out"
        )
    if here:
        return ImageFiles(path, [(name, None) for name in sorted(here)], left_out=left_out)
    files = [
        (file.relative_to(path).as_posix(), label)
        for label, found in enumerate(classes.values())
        for file in found
    ]
    return ImageFiles(path, require_pictures([*files], path, left_out), tuple(classes), left_out)


@data_format("flat", place="folder")
def open_flat(path: Path) -> ImageFiles:
    """Every picture below a folder, unlabelled."""
    found, left_out = _pictures_below(path, path)
    names = sorted(file.relative_to(path).as_posix() for file in found)
    files = require_pictures([(name, None) for name in names], path, left_out)
    return ImageFiles(path, files, left_out=left_out)


@data_format("image", title="a picture", suffixes=SUFFIXES | heif.MODERN, content=is_picture)
def open_image(path: Path) -> ImageFiles:
    """One picture."""
    if path.suffix.lower() in heif.MODERN - heif.readable():
        raise MissingExtraError(f"{path} is a picture that pillow-heif reads, which", "heif")
    return ImageFiles(path.parent, [(path.name, None)])


def require_pictures(
    files: list[tuple[str, int | None]], path: Path, left_out: Sequence[LeftOut] = ()
) -> list[tuple[str, int | None]]:
    """The files of a folder or list, if there are any."""
    if not files:
        others = f"; it holds others ({describe_left_out(left_out)})" if left_out else ""
        raise InputError(f"{path} holds no pictures; known suffixes: {', '.join(sorted(SUFFIXES))}{others}")
    return files


def _sorted_out(path: Path) -> tuple[list[str], dict[str, list[Path]], list[LeftOut]]:
    """The loose pictures of a folder, those of its sub-folders, and what is neither."""
    here: list[str] = []
    classes: dict[str, list[Path]] = {}
    left_out: list[LeftOut] = []
    for entry in sorted(_entries(path)):
        if entry.is_dir():
            found, others = _pictures_below(entry, path)
            left_out += others
            if found:
                classes[entry.name] = sorted(found)
            else:
                left_out.append(LeftOut(f"{entry.name}/", "folder without pictures"))
        elif (reason := why_no_picture(entry)) is None:
            here.append(entry.name)
        else:
            left_out.append(LeftOut(entry.name, reason))
    return here, classes, left_out


def _pictures_below(folder: Path, root: Path) -> tuple[list[Path], list[LeftOut]]:
    """The pictures below a folder, and what is none, by its path from the root."""
    found: list[Path] = []
    left_out: list[LeftOut] = []
    for entry in below(folder):
        if isinstance(entry, LeftOut):
            left_out.append(entry)
        elif (reason := why_no_picture(entry)) is None:
            found.append(entry)
        else:
            left_out.append(LeftOut(entry.relative_to(root).as_posix(), reason))
    return found, sorted(left_out)


def _entries(path: Path) -> list[Path]:
    try:
        return [entry for entry in path.iterdir() if not entry.name.startswith(".")]
    except OSError as error:
        raise InputError(f"{path} cannot be opened: {error.strerror}") from error
