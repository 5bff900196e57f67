"""The manifest of a feature store: what the features are, and a checksum for every shard.

The recipe is everything that decides the numbers; its sha256 is the key of the store. Two runs with the same
key write the same features, and features with another key are never taken for these. What 0.1.0 did not know
of is no part of the key where it is as it was then: its stores keep their keys.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..core.errors import FormatError, InputError
from ..core.files import read_json, write_json
from ..core.plain import JsonValue, from_plain
from .layer_rows import LayerRows

FORMAT = "theodolite-store/1"
FILE = "manifest.json"
DTYPES = ("float32", "float16")
# Which way up pictures were looked at: as their EXIF orientation says, or as arrays, which have none. None is
# the way of 0.1.0, as they are stored.
EXIF, NO_ORIENTATION = "exif", "none"
# The layout of a store whose shards were not all computed in the same one.
MIXED = "mixed"
# Parts of a recipe that 0.1.0 did not know, with the values that mean what it did.
_LATER: dict[str, tuple[str | None, ...]] = {
    "sample": (None,),
    "orientation": (None, NO_ORIENTATION),
    "model_score": (None,),
}


@dataclass(frozen=True)
class Recipe:
    """What decides the numbers in a store.

    ``sample`` says how the samples of a ``limit`` were chosen (None: all of them, or the first ones, as 0.1.0
    did), ``orientation`` whether pictures were turned as their EXIF orientation says. ``layer`` is the head's
    name, or of several layers the text of their rows (`LayerRows`); ``model_score`` is the score that changed
    the model's inputs or computed from them, with its options (None: features of inputs as they are).
    """

    model: str
    weights: str
    preprocess: str
    layer: str
    data: str
    samples: int
    dtype: str = "float32"
    limit: int | None = None
    autocast: bool = False
    sample: str | None = None
    orientation: str | None = None
    model_score: str | None = None

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise InputError(f"dtype must be one of {', '.join(DTYPES)}, got {self.dtype!r}")

    @property
    def key(self) -> str:
        parts = dataclasses.asdict(self)
        known = {name: value for name, value in parts.items() if value not in _LATER.get(name, ())}
        canonical = json.dumps(known, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    @property
    def rows(self) -> LayerRows | None:
        """Which columns are whose, of several layers; None where there is one."""
        return LayerRows.parse(self.layer)

    def differences(self, other: Recipe) -> str:
        """What separates two recipes, in words: ``dtype float16, not float32``."""
        pairs = (
            (part.name, getattr(self, part.name), getattr(other, part.name))
            for part in dataclasses.fields(self)
        )
        return ", ".join(
            f"{name} {_said(name, mine)}, not {_said(name, its)}" for name, mine, its in pairs if mine != its
        )


@dataclass(frozen=True)
class ShardRecord:
    """One shard: its rows, its checksum, how many rows have no label, the samples left out of it, how many
    pictures were turned as their EXIF orientation says, and how many samples cut off at the model's limit."""

    rows: int
    sha256: str
    unlabelled: int = 0
    skipped: tuple[str, ...] = ()
    turned: int = 0
    cut: int = 0


@dataclass(frozen=True)
class Manifest:
    """The content of ``manifest.json``. Nothing in it depends on when or how often a run was interrupted.

    ``class_names`` are the model's, ``folders`` those that the labels of the data number; ``contents`` is the
    checksum of the samples' digests (None in a store of 0.1.0, which has none). ``layout`` is how pictures
    lay in memory on their way through the model, which decides the last digits and nothing else. Features of
    an encoder have no ``head``, and no ``classes``: 0.
    """

    recipe: Recipe
    width: int
    classes: int
    head: str | None
    shard_rows: int
    batch_size: int
    source: str
    weights_file: str | None = None
    class_names: tuple[str, ...] | None = None
    folders: tuple[str, ...] | None = None
    contents: str | None = None
    layout: str | None = None
    shards: tuple[ShardRecord, ...] = field(default=())

    @property
    def shards_needed(self) -> int:
        return -(-self.recipe.samples // self.shard_rows)

    @property
    def complete(self) -> bool:
        return len(self.shards) == self.shards_needed

    @property
    def samples_done(self) -> int:
        return min(self.recipe.samples, len(self.shards) * self.shard_rows)

    def with_shard(self, index: int, record: ShardRecord) -> Manifest:
        """The manifest with one more shard, or with one replaced."""
        return dataclasses.replace(self, shards=(*self.shards[:index], record, *self.shards[index + 1 :]))

    def write(self, folder: Path) -> None:
        content = {"format": FORMAT, "key": self.recipe.key, **dataclasses.asdict(self)}
        write_json(folder / FILE, {**content, "checksum": _checksum(content)})

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        path = folder / FILE
        if not path.is_file():
            raise InputError(f"{folder} is not a feature store: it has no {FILE}")
        try:
            content = read_json(path)
            if not isinstance(content, dict) or "format" not in content:
                raise FormatError("it describes no feature store")
        except FormatError as error:
            raise FormatError(f"{path} is damaged ({error}): delete the folder and extract again") from error
        if content["format"] != FORMAT:
            raise FormatError(f"{path} has format {content['format']!r}; this version reads {FORMAT!r}")
        if content.pop("checksum", None) != _checksum(content):
            raise FormatError(f"{path} is damaged or was edited: delete the folder and extract again")
        own = {key: value for key, value in content.items() if key not in ("format", "key")}
        return from_plain(cls, own, str(path))


def listing_digest(lines: Iterable[str]) -> str:
    """sha256 over the lines that describe the data, in order."""
    digest = hashlib.sha256()
    for line in lines:
        digest.update(line.encode("utf-8", "surrogateescape"))
        digest.update(b"\0")
    return digest.hexdigest()


def shard_name(index: int) -> str:
    return f"shard-{index:05d}.safetensors"


def _checksum(content: Mapping[str, JsonValue]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _said(name: str, value: object) -> str:
    """A part of a recipe in words: digests by their beginning, the rest in full."""
    if value is None and name in _LATER:
        words = {
            "sample": "the first ones",
            "orientation": "as stored",
            "model_score": "of inputs as they are",
        }
        return words[name]
    text = str(value)
    return f"{text[:12]}…" if len(text) == 64 else text


def require_recipe(path: Path, manifest: Manifest, wanted: Recipe | None) -> None:
    """Refuse features that were made from anything but the wanted recipe."""
    if wanted is not None and manifest.recipe.key != wanted.key:
        told = (
            ". Pictures were added, removed or changed since, or version 0.1.0 listed them, which read only "
            "parts of large ones"
            if manifest.recipe.data != wanted.data and manifest.recipe.limit == wanted.limit
            else ""
        )
        raise InputError(
            f"{path} holds other features: {manifest.recipe.differences(wanted)}{told}. "
            f"Remedy: choose another folder, or delete this one to extract anew"
        )
