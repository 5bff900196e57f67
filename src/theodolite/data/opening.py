"""`open_source`: look at what was given, and open it as what it is."""

from __future__ import annotations

from pathlib import Path

from ..core.addresses import is_address, require_named
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

    >>> np.savez("digits.npz", images=np.zeros((5, 28, 28), np.uint8), labels=np.arange(5))
    >>> source = th.open_source("digits.npz")
    >>> len(source), source[3].label, source[3].image.size
    (5, 3, (28, 28))
    """
    if isinstance(path_or_object, str) and path_or_object.startswith("hf:"):
        return open_hub(path_or_object)
    if not isinstance(path_or_object, str | Path):
        return path_or_object if isinstance(path_or_object, ImageSource) else open_object(path_or_object)
    path = _existing(path_or_object)
    known = _format_of(path) if kind is None else find_format(kind)
    if not path.exists() and not known.patterns:
        raise InputError(f"{path} is a pattern, which {known.kind} does not take: name one file")
    if not known.lies_at(path):
        if known.place == "folder":
            raise InputError(f"{path} is not a folder, which kind {known.kind!r} asks for")
        raise InputError(f"{path} is a folder, but kind {known.kind!r} is a file")
    if known.rooted and root is not None:
        return known.open(path, root=Path(root))
    return known.open(path)


def _existing(given: str | Path) -> Path:
    """A path that exists, or a pattern for names that exist."""
    require_named(given)
    try:
        path = Path(given).expanduser()
        if path.exists():
            return path
        matched = "*" in path.name and any(path.parent.glob(path.name))
    except (OSError, ValueError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"data path {str(given)!r:.200} cannot be looked up: {reason}") from error
    if matched:
        return path
    if is_address(given):
        raise InputError(
            f"data {given} is a web address, and nothing is fetched from it: download it first; a data set "
            f"of the Hugging Face hub is hf:OWNER/NAME"
        )
    if "*" in path.name:
        raise InputError(f"no file matches {path} (looked from {Path.cwd()})")
    raise InputError(f"data path {path} does not exist (looked from {Path.cwd()})")


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
