"""The record of a choice among scores and settings: what it was made on, every figure, and what was chosen.

It knows the rows that decided by their numbers and pictures, so that a benchmark can refuse to judge the
choice on them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ..core.errors import FormatError, InputError
from ..core.files import read_json, write_json
from ..core.plain import JsonObject, JsonValue, from_plain, to_plain
from .feature_sets import FeatureSet
from .result import versions
from .row_keys import PRECISIONS, RowKeys, name_of
from .trials import Ranked, in_order

FORMAT = "theodolite-ranking/1"
LEAVE_CLASS_OUT, VALIDATION = "leave-class-out", "validation OOD"
# ID rows that are judged: given as such, or a share of those to fit on.
HELD_OUT, HELD_SHARE = "held-out ID rows", "a held-out share of id_fit"
# A few equal rows are chance: features of an empty picture, a sample that is in two sets.
TOLERATED = 0.01
_KEY = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True)
class Ranking:
    """Candidates in the order of the rule, the chosen one first.

    ``method`` is leave-class-out, or validation OOD; ``decided_by`` are the rows that were judged, by the
    name of their set; ``left_out`` the classes of each fold. No other rows but those fitted on had a part.
    ``doubt`` is why the head seems not to belong to the features, where that was overruled.

    >>> means, labels, rng = 4 * np.eye(3, 8), np.arange(450) % 3, np.random.default_rng(0)
    >>> train, test = (th.ArraySet(means[labels] + rng.normal(size=(450, 8)), labels) for _ in range(2))
    >>> fog = th.ArraySet(1 + rng.normal(size=(100, 8)))
    >>> subject = th.Subject("mine", th.Head(means), train, test, {"fog": fog})
    >>> ranking = th.tune(subject, ["ora?aggregate={max,mean}"])
    >>> ranking.method, len(ranking.ranked)
    ('leave-class-out', 2)
    """

    subject: str
    command: str
    method: str
    folds: int
    seed: int
    fitted_on: int
    decided_by: Mapping[str, RowKeys]
    ranked: tuple[Ranked, ...]
    left_out: tuple[tuple[int, ...], ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    doubt: str | None = None
    versions: Mapping[str, str] = field(default_factory=versions)

    @property
    def chosen(self) -> str:
        """The best candidate, as text that ``--detector`` takes."""
        return self.ranked[0].spec

    @property
    def close(self) -> tuple[str, ...]:
        """Candidates whose FPR95 is behind the chosen one's by no more than the standard error over folds."""
        first, *others = self.ranked
        differences = {row.spec: np.subtract(row.fpr95, first.fpr95) for row in others}
        return tuple(
            spec
            for spec, found in differences.items()
            if len(found) > 1 and found.mean() <= found.std(ddof=1) / len(found) ** 0.5
        )

    @property
    def statement(self) -> str:
        """What the choice was made for and on, in one sentence."""
        sets = ", ".join(f"{name} ({keys.rows:,} rows)" for name, keys in self.decided_by.items())
        how = "ID classes that played OOD" if self.method == LEAVE_CLASS_OUT else "a validation OOD set"
        return (
            f"chosen for {self.subject} among {len(self.ranked)} candidates on {how} ({self.folds} folds): "
            f"judged on {sets}, "
            f"fitted on {self.fitted_on:,} other ID rows; {self._unread}"
            + ("" if self.doubt is None else f"; measured by force: {self.doubt}")
        )

    @property
    def _unread(self) -> str:
        """What is certain: whether data that was given is a test set only a benchmark can tell."""
        if list(self.decided_by) == [HELD_SHARE]:
            return "no OOD data and no test set was read"
        return "nothing else was read, and bench --ranking refuses to judge on these rows"

    def require_apart(self, name: str, rows: FeatureSet) -> None:
        """Refuse rows that a benchmark would judge, and that had a part in the choice."""
        asked = RowKeys.of(rows, None)
        for decided, keys in self.decided_by.items():
            shared = keys.shared(asked)
            if shared > TOLERATED:
                raise InputError(
                    f"{name} holds rows of {decided}, on which {self.chosen} was chosen "
                    f"({100 * shared:.0f} % of the smaller of the two are in both): figures on them would "
                    f"flatter the choice. Judge it on other data, or tune it on other data"
                )

    def to_json(self) -> JsonObject:
        content = to_plain(self)
        assert isinstance(content, dict)
        return {"format": FORMAT, "chosen": self.chosen, "statement": self.statement, **content}

    @classmethod
    def from_json(cls, content: Mapping[str, JsonValue]) -> Ranking:
        """What `to_json` wrote; refused where it contradicts itself."""
        if content.get("format") != FORMAT:
            raise FormatError(f"the content has format {content.get('format')!r}; expected {FORMAT}")
        said = {key: content.get(key) for key in ("chosen", "statement")}
        record = from_plain(
            cls, {key: value for key, value in content.items() if key not in ("format", *said)}
        )
        record._require_whole()
        if said != {"chosen": record.chosen, "statement": record.statement}:
            raise FormatError("what it says was chosen, and on what, is not what its figures and sets say")
        return record

    def save(self, path: str | Path) -> None:
        """Write it as a JSON file."""
        write_json(Path(path), self.to_json())

    @classmethod
    def load(cls, path: str | Path) -> Ranking:
        """The record in a file of `theodolite tune`."""
        place = Path(path).expanduser()
        if not place.is_file():
            raise InputError(f"no such file: {place}; expected a record of `theodolite tune`")
        content = read_json(place)
        if not isinstance(content, dict):
            raise FormatError(f"{place} must hold a JSON object, a record of `theodolite tune`")
        try:
            return cls.from_json(content)
        except FormatError as error:
            raise FormatError(f"{place}: {error}") from error

    def _require_whole(self) -> None:
        if not self.ranked or in_order(self.ranked) != self.ranked:
            raise FormatError("its candidates are none, or not in the order of their figures")
        if not self.decided_by:
            raise FormatError("it does not say on which rows the choice was made")
        names = [name_of(precision) for precision in PRECISIONS]
        for name, rows in self.decided_by.items():
            parts = [*rows.precisions.values(), *([] if rows.pictures is None else [rows.pictures])]
            keys = [key for kept in parts for key in kept.keys.split()]
            absent = set(names) - set(rows.precisions)
            if absent or not keys or not all(map(_KEY.fullmatch, keys)):
                raise FormatError(f"decided_by.{name} must have the keys of its rows in {', '.join(names)}")
