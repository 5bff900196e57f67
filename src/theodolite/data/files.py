"""Image files: a folder with or without classes, or a list of paths and labels."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..core.errors import InputError
from .sample import Sample, content_of_file, line, read_image

SUFFIXES = frozenset((".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"))
_SPLITS = {"train", "training", "val", "valid", "validation", "test"}
_UNLABELLED = -1
# An OpenOOD list lies some folders below the one its paths start from.
_LEVELS_UP = 4


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


def open_image(path: Path) -> ImageFiles:
    """One picture."""
    return ImageFiles(path.parent, [(path.name, None)])


def open_folder(path: Path, *, flat: bool = False) -> ImageFiles:
    """A folder: sub-folders with pictures are classes in alphabetic order, loose pictures have no labels.

    ``flat`` takes every picture below the folder, unlabelled.
    """
    here = [file.name for file in _pictures(path.iterdir())]
    if flat:
        below = sorted(file.relative_to(path).as_posix() for file in _pictures(_visible(path)))
        return ImageFiles(path, _required([(name, None) for name in below], path))
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
    return ImageFiles(path, _required([*files], path), tuple(classes))


def open_list(path: Path, *, root: Path | None = None) -> ImageFiles:
    """A text file with `path label` a line, as OpenOOD has them; a label of -1, or none, is no label.

    Paths start from ``root``, else from the list's folder or the nearest one above it where the first exists.
    """
    files: list[tuple[str, int | None]] = []
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not a text file of `path label` lines: {error.reason}") from error
    for number, entry in enumerate(text.splitlines(), start=1):
        if entry.strip():
            files.append(_entry(entry.strip(), f"{path}, line {number}"))
    _required(files, path)
    return ImageFiles(root or _root_of(path, files[0][0]), files)


def _entry(entry: str, where: str) -> tuple[str, int | None]:
    name, _, last = entry.rpartition(" ")
    if not name:
        return entry, None
    try:
        label = int(last)
    except ValueError as error:
        if Path(entry).suffix.lower() in SUFFIXES:
            return entry, None
        raise InputError(f"{where}: {last!r} is not a label, expected `path label` with a number") from error
    if label < _UNLABELLED:
        raise InputError(f"{where}: label {label} is out of range, expected 0 or more, or -1 for none")
    return name, None if label == _UNLABELLED else label


def _root_of(path: Path, first: str) -> Path:
    for folder in list(path.resolve().parents)[:_LEVELS_UP]:
        if (folder / first).is_file():
            return folder
    return path.parent


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


def _required(files: list[tuple[str, int | None]], path: Path) -> list[tuple[str, int | None]]:
    if not files:
        raise InputError(f"{path} holds no pictures; known suffixes: {', '.join(sorted(SUFFIXES))}")
    return files
