"""What files hold, as digests of every byte; a file that was not touched since it was read is not read again.

A digest is kept with what the file system says of its file: size, times of the last changes, number. As long
as all of that is the same, so is the content; `recomputing` reads the files all the same. Small files are
always read.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from ..core.places import cache_folder
from .sample import fingerprint

FILE = "digests.sqlite"
# What stands for the content of a file that has none to show.
MISSING, CLOSED = "missing", "unreadable"
_SMALL = 2**14
_PIECE = 2**20
_BLOCK = 512
_THREADS = 8
# A file that changed less than so many seconds ago may change again without another time: the clock of a file
# system is that coarse.
_SETTLED = 2.0
_TABLE = "create table if not exists files (path blob primary key, state text, content text) without rowid"
_recomputing: ContextVar[bool] = ContextVar("recomputing", default=False)


@contextmanager
def recomputing(wanted: bool = True) -> Iterator[None]:
    """Within, every file is read, whatever is known of it."""
    token = _recomputing.set(wanted)
    try:
        yield
    finally:
        _recomputing.reset(token)


def contents_of_files(paths: Iterable[Path]) -> Iterator[str]:
    """``size:digest`` of every file, in order; `MISSING` or `CLOSED` where there is none to read."""
    waiting, trusting, index = iter(paths), not _recomputing.get(), _Index()
    with ThreadPoolExecutor(_THREADS) as pool:
        while block := list(islice(waiting, _BLOCK)):
            files = [_File.at(path) for path in block]
            known = [index.find(file) if trusting else None for file in files]
            found = list(pool.map(_content, files, known))
            index.keep([*zip(files, known, found, strict=True)])
            yield from found
    index.close()


class _File(NamedTuple):
    """A file as the file system shows it; ``state`` is None where there is none."""

    path: Path
    size: int
    state: str | None
    changed: float

    @classmethod
    def at(cls, path: Path) -> _File:
        try:
            seen = path.stat()
        except OSError:
            return cls(path, 0, None, 0)
        if not stat.S_ISREG(seen.st_mode):
            return cls(path, 0, None, 0)
        state = f"{seen.st_size} {seen.st_mtime_ns} {seen.st_ctime_ns} {seen.st_ino}"
        return cls(path, seen.st_size, state, max(seen.st_mtime, seen.st_ctime))

    @property
    def large(self) -> bool:
        return self.state is not None and self.size > _SMALL

    @property
    def key(self) -> bytes:
        return hashlib.blake2b(os.fsencode(self.path.absolute()), digest_size=16).digest()


def _content(file: _File, known: str | None) -> str:
    if known is not None:
        return known
    if file.state is None:
        return MISSING
    digest, size = hashlib.blake2b(digest_size=12), 0
    try:
        with file.path.open("rb") as opened:
            if not file.large:
                content = opened.read()
                return f"{len(content)}:{fingerprint(content)}"
            while piece := opened.read(_PIECE):
                digest.update(piece)
                size += len(piece)
    except OSError:
        return CLOSED
    return f"{size}:{digest.hexdigest()}"


class _Index:
    """The digests that are kept, in a file of the cache; where it cannot be used, nothing is kept."""

    def __init__(self) -> None:
        self.path = cache_folder() / FILE
        self._database: sqlite3.Connection | None = None
        self._usable = True

    def find(self, file: _File) -> str | None:
        """The content of a file in the state it is in now."""
        if not file.large or not self.path.is_file():
            return None
        rows = self._run("select content from files where path = ? and state = ?", [(file.key, file.state)])
        return str(rows[0][0]) if rows else None

    def keep(self, read: Sequence[tuple[_File, str | None, str]]) -> None:
        """Keep what was read of large files that had settled before and did not change meanwhile."""
        now = time.time()
        rows = [
            (file.key, file.state, content)
            for file, known, content in read
            if known is None and file.large and now - file.changed > _SETTLED
            if content != CLOSED and _File.at(file.path).state == file.state
        ]
        if rows:
            self._run("insert or replace into files values (?, ?, ?)", rows)

    def close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    def _run(self, statement: str, rows: Sequence[tuple[object, ...]]) -> list[tuple[object, ...]]:
        if not self._usable:
            return []
        try:
            database = self._opened()
            with database:
                if len(rows) == 1:
                    return database.execute(statement, rows[0]).fetchall()
                database.executemany(statement, rows)
        except (sqlite3.Error, OSError) as error:
            self._usable = False
            self.close()
            if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
                self.path.unlink(missing_ok=True)  # damaged: the next listing makes it anew
        return []

    def _opened(self) -> sqlite3.Connection:
        if self._database is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(self.path, timeout=10)
            self._database.execute(_TABLE)
        return self._database
