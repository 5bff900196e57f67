"""Names of classes: ImageNet's, from whichever installed package has them, or those a user gives."""

from __future__ import annotations

import csv
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from ..core.compat import import_torchvision
from ..core.errors import InputError, MissingExtraError

IMAGENET_CLASSES = 1000
# Bytes of a file of names.
_LARGEST = 2**24


@cache
def imagenet_names() -> tuple[str, ...] | None:
    """The 1000 class names in the usual order; None where neither timm nor torchvision is installed."""
    return _names_in_files() or _names_of_packages()


def _names_in_files() -> tuple[str, ...] | None:
    """The names as timm keeps them in two files: to import timm and torchvision for them takes seconds."""
    try:
        found = find_spec("timm")
        folder = Path(str(found and found.origin)).parent / "data" / "_info"
        synsets = (folder / "imagenet_synsets.txt").read_text(encoding="utf-8").splitlines()
        with (folder / "imagenet_synset_to_lemma.txt").open(encoding="utf-8", newline="") as file:
            lemmas = {row[0]: row[1] for row in csv.reader(file, delimiter="\t") if len(row) == 2}
        names = tuple(lemmas[synset] for synset in synsets)
    except (OSError, ValueError, KeyError, csv.Error):
        return None
    return names if len(names) == IMAGENET_CLASSES else None


def _names_of_packages() -> tuple[str, ...] | None:
    try:
        import_torchvision()
    except MissingExtraError:
        return None
    try:
        from timm.data import ImageNetInfo
    except ImportError:
        from torchvision.models import ResNet50_Weights

        return tuple(ResNet50_Weights.IMAGENET1K_V1.meta["categories"])
    info = ImageNetInfo()
    return tuple(info.index_to_description(index) for index in range(IMAGENET_CLASSES))


def read_names(value: str) -> tuple[str, ...]:
    """Class names from a text file with one a line, or from a list separated by commas."""
    text = file_text(value)
    lines = value.split(",") if text is None else text.splitlines()
    names = tuple(line.strip() for line in lines if line.strip())
    if len(names) < 2:
        read = "gives" if text is not None else "is no file, and as a list gives"
        raise InputError(
            f"classes={value!r:.80} {read} {len(names)} class name: pass a text file with one name a line, "
            f"or names separated by commas, at least two"
        )
    if any("\0" in name for name in names):
        raise InputError(
            f"classes={value!r:.80} is no text, since it holds a zero byte: pass a text file with one name a "
            f"line"
        )
    return names


def file_named(value: str) -> Path | None:
    """The file that a value names; None where it is a list of names, or whatever else."""
    path = Path(value)
    try:
        return path if path.is_file() else None
    except (OSError, ValueError):  # a list of names that is too long for a path, or holds a zero byte
        return None


def file_text(value: str) -> str | None:
    """The text of the file that a value names; None where it names none."""
    path = file_named(value)
    if path is None:
        return None
    try:
        size = path.stat().st_size
        if size > _LARGEST:
            raise InputError(
                f"{path} is too large for names of classes: {size:,} bytes, at most {_LARGEST:,}"
            )
        return path.read_text(encoding="utf-8-sig")  # some editors begin a file with a mark of order
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not a text file in UTF-8 that can be read: {error}") from error
