"""How much a reader takes on trust: what a file may unpack to, and how large a label may be."""

from __future__ import annotations

from pathlib import Path

from ..core.errors import FormatError

# Beyond this much, what is packed may unpack to at most so many times its size. Pictures pack to a tenth of
# their size at best, a file of zeros to a thousandth.
UNPACKED = 2**28
RATIO = 100
# Classes are counted in 32 bits: no classifier has more.
LARGEST_LABEL = 2**31 - 1


def require_unpackable(path: Path, unpacked: int, packed: int) -> None:
    """Refuse to unpack what would become far larger than it is; ``packed`` is its size on disk."""
    if unpacked > UNPACKED and unpacked > RATIO * packed:
        raise FormatError(
            f"{path} has {packed:,} bytes and would unpack to {unpacked / 2**30:.1f} GiB, more than {RATIO} "
            f"times its size: it is not read. If it is what it should be, unpack it first (gunzip, np.save)"
        )
