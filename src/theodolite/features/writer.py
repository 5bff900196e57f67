"""The feature store, written: shard by shard, each one complete on disk before the manifest names it.

A run may die between any two instructions. What the manifest names is whole (shards are renamed into place
and flushed first); what it does not name is extracted again. A shard is always the same samples in the same
batches, so the bytes do not depend on where a run was interrupted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor

from ..core.errors import InputError, StorageError
from ..core.files import tensor_bytes, write_bytes
from ..core.plain import JsonObject
from ..reference.head import Head
from .layout import CHANNELS_LAST, CONTIGUOUS
from .manifest import FILE, MIXED, Manifest, Recipe, ShardRecord, require_recipe, shard_name
from .store import (
    CONTENTS_FILE,
    CONTENTS_FORMAT,
    HEAD_FILE,
    HEAD_FORMAT,
    SHARD_FORMAT,
    UNLABELLED,
    FeatureStore,
    absent_shards,
)

SHARD_ROWS = 1024
BATCH_SIZE = 64


@dataclass
class Rows:
    """The rows of a shard as they gather: features of batches, then labels, names, what was skipped, how many
    pictures were turned, and how many samples cut off."""

    features: list[Tensor] = field(default_factory=list)
    labels: list[int | None] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    turned: int = 0
    cut: int = 0

    @property
    def samples(self) -> int:
        """Samples seen, readable or not."""
        return len(self.names) + len(self.skipped)


class StoreWriter:
    """Creates a store, or goes on with one of the same recipe."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder = folder
        self.manifest = manifest

    @classmethod
    def open(
        cls,
        folder: str | Path,
        recipe: Recipe,
        head: Head | int,
        *,
        source: str,
        weights_file: str | None = None,
        class_names: Iterable[str] | None = None,
        folders: Iterable[str] | None = None,
        shard_rows: int = SHARD_ROWS,
        batch_size: int | None = None,
        contents: Tensor | None = None,
    ) -> StoreWriter:
        """A writer that goes on where an earlier one stopped; it keeps that one's shard and batch size.

        ``head`` is that of the features, or the width of features without one.
        """
        folder = Path(folder)
        head_bytes = _head_bytes(head) if isinstance(head, Head) else None
        if (folder / FILE).is_file():
            manifest = Manifest.read(folder)
            require_recipe(folder, manifest, recipe)
            writer = cls(folder, manifest)
            writer._bring_up_to_date(recipe, contents)
            return writer
        _make(folder)
        if head_bytes is not None:
            write_bytes(folder / HEAD_FILE, head_bytes)
        manifest = Manifest(
            recipe=recipe,
            width=head.width if isinstance(head, Head) else head,
            classes=head.classes if isinstance(head, Head) else 0,
            head=None if head_bytes is None else hashlib.sha256(head_bytes).hexdigest(),
            shard_rows=shard_rows,
            batch_size=batch_size or BATCH_SIZE,
            source=source,
            weights_file=weights_file,
            class_names=None if class_names is None else tuple(class_names),
            folders=None if folders is None else tuple(folders),
            contents=None if contents is None else _write_contents(folder, contents),
        )
        manifest.write(folder)
        return cls(folder, manifest)

    def _bring_up_to_date(self, recipe: Recipe, contents: Tensor | None) -> None:
        """Note in a store of 0.1.0 what is known of the same features now; its key is the same."""
        if self.manifest.recipe == recipe and (self.manifest.contents is not None or contents is None):
            return
        with suppress(StorageError):  # one that may not be written is good as it is
            digests = self.manifest.contents
            if digests is None and contents is not None:
                digests = _write_contents(self.folder, contents)
            manifest = replace(self.manifest, recipe=recipe, contents=digests)
            manifest.write(self.folder)
            self.manifest = manifest

    def restore_head(self, head: Head) -> None:
        """Write the head again, where its file was damaged."""
        write_bytes(self.folder / HEAD_FILE, _head_bytes(head))

    def restore_contents(self, contents: Tensor) -> None:
        """Write the digests of the samples again, where their file was damaged."""
        if self.manifest.contents is not None:
            _write_contents(self.folder, contents)

    def missing(self) -> list[int]:
        """Shards that are not written yet, or whose files are gone."""
        later = range(len(self.manifest.shards), self.manifest.shards_needed)
        return [*absent_shards(self.folder, self.manifest), *later]

    def damaged(self) -> list[int]:
        """Shards that were written and are not whole any more."""
        return FeatureStore(self.folder, incomplete_ok=True).damaged()

    def samples(self, index: int) -> range:
        """The samples of the source that belong to a shard."""
        start = index * self.manifest.shard_rows
        return range(start, min(start + self.manifest.shard_rows, self.manifest.recipe.samples))

    def channels_last(self, asked: bool | None) -> bool | None:
        """The layout to go on in: as ``asked``, else that of the shards so far; None where it is open."""
        if asked is not None or not self.manifest.shards:
            return asked
        # A store without a word on it was most likely written as 0.1.0 did.
        known = {CHANNELS_LAST: True, CONTIGUOUS: False, MIXED: None, None: False}
        return known[self.manifest.layout]

    def write(self, index: int, rows: Rows, layout: str | None = None) -> None:
        """Put a shard on disk, then name it in the manifest, with the ``layout`` the model ran in."""
        self.note(index, write_shard(self.folder, self.manifest, index, rows), layout)
        self.manifest.write(self.folder)

    def note(self, index: int, record: ShardRecord, layout: str | None = None) -> None:
        """Name a shard that is on disk; the manifest is yet to be written."""
        so_far = self.manifest.layout or (None if not self.manifest.shards else CONTIGUOUS)
        if layout is not None:
            layout = layout if so_far in (None, layout) else MIXED
            self.manifest = replace(self.manifest, layout=layout)
        self.manifest = self.manifest.with_shard(index, record)


def write_shard(folder: Path, manifest: Manifest, index: int, rows: Rows) -> ShardRecord:
    """Put a shard of a store on disk; what its manifest is to say of it."""
    content, record = _shard_bytes(index, rows, manifest)
    write_bytes(folder / shard_name(index), content)
    return record


def _make(folder: Path) -> None:
    """Create the folder of a store; one that holds other things is left alone."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot create the folder {folder}: {error.strerror}") from error
    foreign = [
        path.name
        for path in folder.iterdir()
        if path.name not in (HEAD_FILE, CONTENTS_FILE) and path.suffix != ".partial"
    ]
    if foreign:
        raise InputError(
            f"{folder} is not a feature store and holds other files ({foreign[0]}): choose an empty folder"
        )


def _shard_bytes(index: int, rows: Rows, manifest: Manifest) -> tuple[bytes, ShardRecord]:
    dtype = torch.float16 if manifest.recipe.dtype == "float16" else torch.float32
    empty = torch.zeros(0, manifest.width)
    features = torch.cat([empty, *(batch.cpu().float() for batch in rows.features)]).to(dtype)
    _require_finite(features, rows.names, manifest.recipe.dtype)
    labels = [UNLABELLED if label is None else label for label in rows.labels]
    description: JsonObject = {
        "format": SHARD_FORMAT,
        "key": manifest.recipe.key,
        "shard": index,
        "names": rows.names,
    }
    tensors = {"features": features, "labels": torch.tensor(labels, dtype=torch.int64)}
    content = tensor_bytes(tensors, description)
    unlabelled = sum(label is None for label in rows.labels)
    checksum = hashlib.sha256(content).hexdigest()
    return content, ShardRecord(
        len(features), checksum, unlabelled, tuple(rows.skipped), rows.turned, rows.cut
    )


def _require_finite(features: Tensor, names: Sequence[str], dtype: str) -> None:
    bad = (~torch.isfinite(features).all(dim=1)).nonzero().flatten()
    if len(bad) == 0:
        return
    remedy = "use --dtype float32" if dtype == "float16" else "look at the model: it is broken on this input"
    raise InputError(
        f"the features of {names[int(bad[0])]} ({len(bad)} of {len(features)} samples) are not finite "
        f"in {dtype}: {remedy}"
    )


def _head_bytes(head: Head) -> bytes:
    description: JsonObject = {"format": HEAD_FORMAT, "unit_features": head.unit_features}
    return tensor_bytes({"weight": head.weight, "bias": head.bias}, description)


def _write_contents(folder: Path, contents: Tensor) -> str:
    """Put the digests of the samples on disk; their checksum."""
    content = tensor_bytes({"contents": contents}, {"format": CONTENTS_FORMAT})
    write_bytes(folder / CONTENTS_FILE, content)
    return hashlib.sha256(content).hexdigest()
