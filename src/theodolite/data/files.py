"""Image files: one picture, or a folder of them with or without classes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..core.errors import InputError
from .formats import data_format
from .sample import Sample, content_of_file, line, read_image

SUFFIXES = frozenset((".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"))
_SPLITS = {"train", "training", "val", "valid", "validation", "test"}


class ImageFiles:
    """Files with labels; the id of a sample is its path relative to the root."""

    def __init__(
        self, root: Path, files: list[tuple[str, int | None]], class_names: tuple[str, ...] | None = None
    ) -> None:
        self.root = root
        self.files = files
        self.class_names = class_names

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Sample:
        name, label = self.files[index]
        return Sample(read_image(self.root / name), label, name)

    def listing(self) -> Iterator[str]:
        for name, label in self.files:
            path = self.root / name
            yield line(name, label, content_of_file(path) if path.is_file() else "missing")


@data_format("folder", title="a folder of pictures", place="folder")
def open_folder(path: Path) -> ImageFiles:
    """A folder: sub-folders with pictures are classes in alphabetic order, loose pictures have no labels."""
    here = [file.name for file in _pictures(path.iterdir())]
    classes = {
        folder.name: found
        for folder in sorted(path.iterdir())
        if folder.is_dir()
        and not folder.name.startswith(".")
        and (found := sorted(_pictures(_visible(folder))))
    }
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
        return ImageFiles(path, [(name, None) for name in sorted(here)])
    files = [
        (file.relative_to(path).as_posix(), label)
        for label, found in enumerate(classes.values())
        for file in found
    ]
    return ImageFiles(path, require_pictures([*files], path), tuple(classes))


@data_format("flat", place="folder")
def open_flat(path: Path) -> ImageFiles:
    """Every picture below a folder, unlabelled."""
    below = sorted(file.relative_to(path).as_posix() for file in _pictures(_visible(path)))
    return ImageFiles(path, require_pictures([(name, None) for name in below], path))


@data_format("image", title="a picture", suffixes=SUFFIXES)
def open_image(path: Path) -> ImageFiles:
    """One picture."""
    return ImageFiles(path.parent, [(path.name, None)])


def require_pictures(files: list[tuple[str, int | None]], path: Path) -> list[tuple[str, int | None]]:
    """The files of a folder or list, if there are any."""
    if not files:
        raise InputError(f"{path} holds no pictures; known suffixes: {', '.join(sorted(SUFFIXES))}")
    return files


def _visible(folder: Path) -> Iterator[Path]:
    """All below a folder, but not what lies in hidden folders (``.ipynb_checkpoints``)."""
    return (
        path
        for path in folder.rglob("*")
        if not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )


def _pictures(paths: Iterator[Path]) -> Iterator[Path]:
    return (
        path
        for path in paths
        if path.suffix.lower() in SUFFIXES and not path.name.startswith(".") and path.is_file()
    )
