"""The listing of a source as a store keeps it: one digest of everything, and one of each sample's content."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from ..data import ImageSource
from ..data.digests import CLOSED, MISSING
from .manifest import listing_digest


class Listed(NamedTuple):
    """What a source holds: a digest of its listing, and 63 bits for the content of each sample.

    Two samples with the same bits are the same picture, whatever it is called and wherever it lies.
    """

    digest: str
    contents: Tensor


def listed(source: ImageSource, lines: Iterable[str] | None = None) -> Listed:
    """The listing of a source, run through once; its ``lines``, where others have put them together."""
    by_content = getattr(source, "content_digests", False)
    contents = array("q")

    def seen() -> Iterable[str]:
        for line in source.listing() if lines is None else lines:
            content = line.rpartition("\t")[2] if by_content else line
            # Of a file that cannot be read nothing is known but its name.
            contents.append(content_bits(line if content in (MISSING, CLOSED) else content))
            yield line

    digest = listing_digest(seen())
    return Listed(digest, torch.tensor(contents, dtype=torch.int64))


def content_bits(text: str) -> int:
    """63 bits for a content, or whatever text stands for it."""
    content = text.encode("utf-8", "surrogateescape")
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest()) >> 1
