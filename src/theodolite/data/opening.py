"""`open_source`: look at what was given, and open it as what it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..core.errors import InputError
from .cifar import is_cifar, open_cifar
from .files import SUFFIXES, open_folder, open_image, open_list
from .idx import is_idx, open_idx
from .objects import is_saved, open_hub, open_object, open_saved
from .sample import ImageSource
from .stacks import open_npy, open_npz

_KINDS: dict[str, Callable[[Path], ImageSource]] = {
    "folder": open_folder,
    "flat": lambda path: open_folder(path, flat=True),
    "image": open_image,
    "list": open_list,
    "npy": open_npy,
    "npz": open_npz,
    "idx": open_idx,
    "cifar": open_cifar,
    "saved": open_saved,
}
_FOLDERS = ("folder", "flat", "saved")


def open_source(
    path_or_object: object, *, kind: str | None = None, root: str | Path | None = None
) -> ImageSource:
    """Samples of a path or of a data set object; ``kind`` overrules the look at the path.

    ``root`` is where the paths of a list file start, if not at the list or above it.
    """
    if isinstance(path_or_object, str) and path_or_object.startswith("hf:"):
        return open_hub(path_or_object)
    if not isinstance(path_or_object, str | Path):
        return path_or_object if isinstance(path_or_object, ImageSource) else open_object(path_or_object)
    path = Path(path_or_object).expanduser()
    if kind is not None and kind not in _KINDS:
        raise InputError(f"kind {kind!r} is unknown; known: {', '.join(_KINDS)}")
    if not path.exists() and "*" not in path.name:
        raise InputError(f"data path {path} does not exist (looked from {Path.cwd()})")
    kind = kind or _kind_of(path)
    if kind in _FOLDERS and not path.is_dir():
        raise InputError(f"{path} is not a folder, which kind {kind!r} asks for")
    if kind not in (*_FOLDERS, "cifar") and path.is_dir():
        raise InputError(f"{path} is a folder, but kind {kind!r} is a file")
    if kind == "saved" and not is_saved(path):
        raise InputError(f"{path} was not written by Dataset.save_to_disk: it has no state.json")
    if kind == "list" and root is not None:
        return open_list(path, root=Path(root))
    return _KINDS[kind](path)


def _kind_of(path: Path) -> str:
    suffix = path.suffix.lower()
    if is_cifar(path):
        return "cifar"
    if path.is_dir():
        return "saved" if is_saved(path) else "folder"
    if suffix in SUFFIXES:
        return "image"
    if suffix in (".npy", ".npz"):
        return suffix[1:]
    if suffix in (".txt", ".lst", ".list"):
        return "list"
    if is_idx(path):
        return "idx"
    raise InputError(
        f"{path} is none of the known kinds of data: a folder of pictures, a picture, a list (.txt with "
        f"`path label` lines), .npy, .npz, idx, a CIFAR batch. If it is one, say which: --kind (kind= in "
        f"Python) {', '.join(_KINDS)}"
    )
