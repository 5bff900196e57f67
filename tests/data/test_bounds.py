"""Files that lie about their size, or unpack to far more than they are: refused within bounded memory."""

from __future__ import annotations

import gzip
import io
import pickle
import resource
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.lib import format as npy

from theodolite.core.errors import FormatError, InputError, TheodoliteError
from theodolite.data import open_source

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is counted as on Linux")
GIGABYTE = 2**30
PICTURES = np.zeros((4, 8, 8), dtype=np.uint8)


@pytest.fixture(autouse=True)
def little_memory() -> Iterator[None]:
    """Whatever is promised, half a gigabyte more than now must do: beyond it, allocation fails."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**29, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def npy_header(text: str, version: int = 1) -> bytes:
    size = "<H" if version == 1 else "<I"
    return b"\x93NUMPY" + bytes((version, 0)) + struct.pack(size, len(text)) + text.encode("latin1")


def described(shape: str, kind: str = "|u1") -> str:
    return f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n"


def array_file(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    npy.write_array(file, array)
    return file.getvalue()


def archive(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)
    return path


def packed_zeros(path: Path, count: int, head: bytes) -> int:
    """A zip archive whose one member is a head and then zeros, without ever holding them; its size."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    start = packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH)
    # After a full flush nothing refers back: the same bytes unpack to the same zeros as often as they stand.
    piece = bytes(2**26)
    zeros = packer.compress(piece) + packer.flush(zlib.Z_FULL_FLUSH)
    times = count // len(piece)
    content = start + zeros * times + packer.flush()
    checksum = zlib.crc32(head)
    for _ in range(times):
        checksum = zlib.crc32(piece, checksum)
    sizes = (checksum, 2**32 - 1, 2**32 - 1, len("images.npy"), 20)
    extra = struct.pack("<HHQQ", 1, 16, len(head) + times * len(piece), len(content))
    local = b"PK\3\4" + struct.pack("<5H3I2H", 45, 0, 8, 0, 33, *sizes) + b"images.npy" + extra
    entry = b"PK\1\2" + struct.pack("<6H3I5H2I", 45, 45, 0, 8, 0, 33, *sizes, 0, 0, 0, 0, 0)
    entry += b"images.npy" + extra
    end = b"PK\5\6" + struct.pack("<4H2IH", 0, 0, 1, 1, len(entry), len(local) + len(content), 0)
    path.write_bytes(local + content + entry + end)
    return path.stat().st_size


HEADERS = {
    "digits": described("(" + "9" * 5_000 + ",)"),
    "many digits": described("(" + "9" * 400 + ", 8, 8)"),
    "overflow": described("(4294967296, 4294967296, 4294967296)"),
    "negative": described("(-1, 8, 8)"),
    "deep": described("(" * 4_000 + ")" * 4_000),
    "minus": described("(" + "-" * 8_000 + "1, 8, 8)"),
    "many sizes": described("(" + "1, " * 3_000 + ")"),
    "more": described("(1099511627776, 8, 8)"),
    "objects": described("(4, 8, 8)", "|O"),
    "wide": described("(4, 8, 8)", "|S2147483647"),
    "words": described("'many'"),
    "truth": described("(True, 8, 8)"),
    "no shape": "{'descr': '|u1', 'fortran_order': False}\n",
    "no text": "\xff\xfe\n",
    "long": described("(4, 8, 8)") + " " * 60_000,
}


@pytest.mark.parametrize("name", HEADERS)
@pytest.mark.parametrize("kind", ["npy", "npz"])
def test_headers_of_arrays_that_lie(tmp_path: Path, name: str, kind: str) -> None:
    content = npy_header(HEADERS[name]) + PICTURES.tobytes()
    path = tmp_path / f"x.{kind}"
    if kind == "npy":
        path.write_bytes(content)
    else:
        archive(path, images=content)
    with pytest.raises(FormatError, match=r"x\.np") as caught:
        open_source(path)
    assert len(str(caught.value)) < 600
    assert "\n" not in str(caught.value)


def test_labels_that_lie(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", PICTURES)
    (tmp_path / "x_labels.npy").write_bytes(npy_header(HEADERS["more"]))
    with pytest.raises(FormatError, match=r"x_labels\.npy"):
        open_source(tmp_path / "x.npy")
    (tmp_path / "x_labels.npy").unlink()
    np.save(tmp_path / "x_labels.npy", np.array([0, 1, 2, 2**64 - 1], dtype=np.uint64))
    with pytest.raises(InputError, match="labels run from 0 to 18446744073709551615"):
        open_source(tmp_path / "x.npy")


def test_an_archive_of_eight_megabytes_that_claims_eight_gibibytes(tmp_path: Path) -> None:
    """Truthful as a zip file: it would unpack to what it claims."""
    rows = 8 * GIGABYTE // 64
    head = npy_header(described(f"({rows}, 8, 8)"))
    size = packed_zeros(tmp_path / "x.npz", 8 * GIGABYTE, head)
    assert size < 9e6
    with pytest.raises(FormatError, match=r"would unpack to 8\.0 GiB, more than 100 times"):
        open_source(tmp_path / "x.npz")


def test_an_archive_whose_directory_lies(tmp_path: Path) -> None:
    """The sizes in the directory are those of eight gibibytes stored as they are, in a file of 1 kB."""
    content = npy_header(described(f"({8 * GIGABYTE // 64}, 8, 8)")) + PICTURES.tobytes()
    archive(tmp_path / "x.npz", images=content)
    raw = bytearray((tmp_path / "x.npz").read_bytes())
    directory = raw.index(b"PK\x01\x02")
    # Packed and unpacked size in 64 bits, in an extra field after the name.
    extra = struct.pack("<HHQQ", 1, 16, 8 * GIGABYTE + 128, 8 * GIGABYTE + 128)
    struct.pack_into("<IIHH", raw, directory + 20, 2**32 - 1, 2**32 - 1, len("images.npy"), len(extra))
    end = raw.index(b"PK\x05\x06")
    raw[directory + 46 + len("images.npy") : directory + 46 + len("images.npy")] = extra
    struct.pack_into("<I", raw, end + len(extra) + 12, end + len(extra) - directory)
    (tmp_path / "x.npz").write_bytes(raw)
    with pytest.raises(FormatError, match=r"x\.npz"):
        open_source(tmp_path / "x.npz")


def test_packed_arrays_within_bounds_are_read(tmp_path: Path) -> None:
    """A hundred to one is allowed up to 256 MiB: black pictures are pictures."""
    np.savez_compressed(tmp_path / "x.npz", images=np.zeros((10_000, 32, 32), dtype=np.uint8))
    assert len(open_source(tmp_path / "x.npz")) == 10_000


def idx_header(*sizes: int) -> bytes:
    return bytes((0, 0, 8, len(sizes))) + struct.pack(f">{len(sizes)}I", *sizes)


def gzipped_zeros(path: Path, head: bytes, count: int) -> int:
    """A gzip file of many members, each of the same zeros, packed once; its size."""
    zeros = gzip.compress(bytes(2**26))
    path.write_bytes(gzip.compress(head) + zeros * (count // 2**26))
    return path.stat().st_size


def test_a_gzip_file_of_four_megabytes_that_claims_four_gibibytes(tmp_path: Path) -> None:
    path = tmp_path / "x-images-idx3-ubyte.gz"
    assert gzipped_zeros(path, idx_header(2**22, 32, 32), 4 * GIGABYTE) < 5e6
    with pytest.raises(FormatError, match=r"would unpack to 4\.0 GiB, more than 100 times"):
        open_source(path)


@pytest.mark.parametrize(
    "head",
    [
        idx_header(2**32 - 1, 2**32 - 1, 2**32 - 1),
        bytes((0, 0, 8, 255)) + b"\0\0\0\1" * 255 + b"\0",
        bytes((0, 0, 8, 3)),
        idx_header(0, 28, 28),
        idx_header(2**32 - 1, 0, 28),
        idx_header(1, 2**16, 2**16),
    ],
    ids=["overflow", "255 sizes", "no sizes", "no rows", "no height", "4 GiB"],
)
@pytest.mark.parametrize("packed", [True, False])
def test_headers_of_idx_files_that_lie(tmp_path: Path, head: bytes, packed: bool) -> None:
    path = tmp_path / ("x-idx3-ubyte.gz" if packed else "x-idx3-ubyte")
    content = head + bytes(100)
    path.write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(FormatError, match="x-idx3-ubyte"):
        open_source(path, kind="idx")


# ---------------------------------------------------------------------- pickles

REDUCE = {
    "allocates": b"cnumpy\nndarray\n(J\x00\x00\x00\x10K\xff\x8a\x02\x00\x0ct\x85R",
    "reconstructs": b"cnumpy._core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(J\x00\x00\x00\x40tU\x01btR",
}


def batch_of(data: bytes, labels: bytes) -> bytes:
    """A pickled dictionary of `data` and `labels`, given as opcodes."""
    return b"\x80\x02}(U\x04data" + data + b"U\x06labels" + labels + b"u."


def pickled(value: Any) -> bytes:
    return pickle.dumps(value, protocol=2)[2:-1]


PICKLES: dict[str, Callable[[], bytes]] = {
    "an array of gigabytes": lambda: batch_of(REDUCE["allocates"], b"]"),
    "a reconstructed array of gigabytes": lambda: batch_of(REDUCE["reconstructs"], b"]"),
    "labels that double 40 times": lambda: batch_of(
        pickled(np.zeros((2, 3072), np.uint8)),
        b"](K\x00K\x01eq\x10" + b"".join(b"](h%ch%ceq%c" % (16 + i, 16 + i, 17 + i) for i in range(40)),
    ),
    "a label of many digits": lambda: batch_of(pickled(np.zeros((1, 3072), np.uint8)), pickled([10**3_000])),
    "a text of many digits": lambda: b"\x80\x02I" + b"9" * 5_000 + b"\n.",
    "a key of nested tuples": lambda: b"\x80\x02})" + b"\x85" * 500_000 + b"K\x00s.",
    "labels that are no list": lambda: batch_of(pickled(np.zeros((1, 3072), np.uint8)), pickled({1: 2})),
    "words for labels": lambda: batch_of(pickled(np.zeros((1, 3072), np.uint8)), pickled(["a"])),
    "floats for pictures": lambda: batch_of(pickled(np.zeros((1, 3072))), pickled([0])),
    "a long frame": lambda: b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f.",
    "a long text": lambda: b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7f.",
    "an entry of the memo far away": lambda: b"\x80\x02K\x00r\xff\xff\xff\x7f.",
}


@pytest.mark.parametrize("name", PICKLES)
def test_pickles_that_ask_for_too_much(tmp_path: Path, name: str) -> None:
    (tmp_path / "test_batch").write_bytes(PICKLES[name]())
    with pytest.raises(TheodoliteError, match=r"test_batch") as caught:
        open_source(tmp_path / "test_batch")
    assert len(str(caught.value)) < 600


def test_names_of_classes_that_are_no_names(tmp_path: Path) -> None:
    batch = {b"data": np.zeros((1, 3072), np.uint8), b"labels": [0]}
    (tmp_path / "test_batch").write_bytes(pickle.dumps(batch, protocol=2))
    for names in (5, [1, 2], [b"\xff"], "text"):
        (tmp_path / "batches.meta").write_bytes(pickle.dumps({b"label_names": names}, protocol=2))
        with pytest.raises(FormatError, match=r"batches\.meta"):
            open_source(tmp_path / "test_batch")


# ---------------------------------------------------------------------- lists


@pytest.mark.parametrize("label", ["9" * 5_000, "9" * 4_000, str(2**31), "-" + "9" * 30])
def test_labels_of_a_list_that_are_too_large(tmp_path: Path, label: str) -> None:
    (tmp_path / "x.txt").write_text(f"a.png {label}\n")
    with pytest.raises(InputError, match=r"line 1: label .* out of range") as caught:
        open_source(tmp_path / "x.txt")
    assert len(str(caught.value)) < 300


def test_a_list_that_is_too_long(tmp_path: Path) -> None:
    with (tmp_path / "x.txt").open("wb") as file:
        file.truncate(2**30)
    with pytest.raises(InputError, match="1,073,741,824 bytes"):
        open_source(tmp_path / "x.txt")
