"""`open_source`: look at what was given, and open it as what it is."""

from __future__ import annotations

from pathlib import Path

from ..core.errors import InputError
from .formats import DataFormat, find_format, list_formats, recognise
from .hugging_face import open_hub
from .objects import open_object
from .sample import ImageSource


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
    asked = None if kind is None else find_format(kind)
    if not path.exists() and "*" not in path.name:
        raise InputError(f"data path {path} does not exist (looked from {Path.cwd()})")
    known = asked or _format_of(path)
    if not known.lies_at(path):
        if known.place == "folder":
            raise InputError(f"{path} is not a folder, which kind {known.kind!r} asks for")
        raise InputError(f"{path} is a folder, but kind {known.kind!r} is a file")
    if known.rooted and root is not None:
        return known.open(path, root=Path(root))
    return known.open(path)


def _format_of(path: Path) -> DataFormat:
    known = recognise(path)
    if known is not None:
        return known
    if path.is_dir():
        return find_format("folder")
    formats = list_formats()
    raise InputError(
        f"{path} is none of the known kinds of data: {', '.join(one.title for one in formats if one.title)}. "
        f"If it is one, say which: --kind (kind= in Python) {', '.join(one.kind for one in formats)}"
    )
