"""Scores of every entry on every set of a subject: one pass to fit all, one pass a set to score all.

Each (entry, set) is kept on disk under a key of everything that decides it: the features, the head, the
entry, the code. A run that was interrupted fits again, and scores only what is not there.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import torch

from ..core.arrays import FloatArray
from ..core.errors import FormatError, InputError
from ..core.files import read_tensors, write_tensors
from ..detectors import Detector, fit_many
from ..detectors.spec import Entry
from .feature_sets import FeatureSet, StoreSet, head_digest
from .protocols import TEST
from .subject import Subject

_FORMAT = "theodolite-scores/1"


@dataclass
class Scores:
    """What came out: ``values[label][set]``; entries that refused the data, with their reason; seconds."""

    values: dict[str, dict[str, FloatArray]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    fit_seconds: float = 0.0
    reused: int = 0


class Scorer:
    """Scores one subject. ``cache`` is the folder of finished scores, or None to keep nothing."""

    def __init__(
        self,
        subject: Subject,
        entries: Sequence[Entry],
        *,
        cache: Path | None = None,
        progress: Callable[[str, int, int], None] = lambda _name, _done, _total: None,
    ) -> None:
        self.subject = subject
        self.entries = list(entries)
        self.cache = cache
        self.progress = progress
        self.sets: Mapping[str, FeatureSet] = {TEST: subject.test, **subject.ood}
        self._head = head_digest(subject.head)
        self._detectors: dict[str, Detector] = {}

    def run(self) -> Scores:
        result = Scores()
        for name, rows in self.sets.items():
            waiting = []
            for entry in self.entries:
                kept = self._read(entry, name)
                if kept is not None:
                    result.values.setdefault(entry.label, {})[name] = kept
                    result.reused += 1
                elif entry.label not in result.refused:
                    waiting.append(entry)
            if waiting:
                self._fit(waiting, result)
                self._score_set(name, rows, waiting, result)
        for label in result.refused:
            result.values.pop(label, None)
        order = [entry.label for entry in self.entries if entry.label in result.values]
        result.values = {label: result.values[label] for label in order}
        return result

    @property
    def detectors(self) -> Mapping[str, Detector]:
        """The fitted detectors of this run; empty where every score was on disk."""
        return self._detectors

    def _fit(self, entries: Sequence[Entry], result: Scores) -> None:
        """Fit what is not fitted yet, all in one pass."""
        fresh = {entry.label: entry.build() for entry in entries if entry.label not in self._detectors}
        if not getattr(self.subject.fit, "labelled", True):
            for label in [label for label, detector in fresh.items() if detector.needs.class_means]:
                result.refused[label] = "it needs class means, and the ID data has no labels"
                del fresh[label]
        if not fresh:
            return
        labels = {id(detector): label for label, detector in fresh.items()}

        def refused(detector: Detector, error: InputError) -> None:
            result.refused[labels[id(detector)]] = str(error)

        self.progress("fitting", 0, 1)
        start = time.perf_counter()
        fit_many(list(fresh.values()), self.subject.fit, head=self.subject.head, on_refusal=refused)
        result.fit_seconds += time.perf_counter() - start
        self.progress("fitting", 1, 1)
        self._detectors.update(
            {label: detector for label, detector in fresh.items() if label not in result.refused}
        )

    @torch.no_grad()
    def _score_set(self, name: str, rows: FeatureSet, entries: Sequence[Entry], result: Scores) -> None:
        """One pass over a set; the logits of a batch are computed once for all."""
        able = [entry for entry in entries if entry.label in self._detectors]
        parts: dict[str, list[FloatArray]] = {entry.label: [] for entry in able}
        done = 0
        for batch, _, _ in rows:
            features = batch.float()
            logits = self.subject.head(features)
            for entry in able:
                detector = self._detectors[entry.label]
                shared = logits if detector.uses_logits and detector.shaping is None else None
                start = time.perf_counter()
                parts[entry.label].append(detector.score(features, shared).double().numpy())
                spent = time.perf_counter() - start
                result.seconds[entry.label] = result.seconds.get(entry.label, 0.0) + spent
            done += len(features)
            self.progress(name, done, len(rows))
        for entry in able:
            scores = np.concatenate(parts[entry.label])
            result.values.setdefault(entry.label, {})[name] = scores
            self._write(entry, name, scores)

    # ------------------------------------------------------------------ on disk

    def _path(self, entry: Entry, name: str) -> Path | None:
        if self.cache is None:
            return None
        decides = {
            "code": code_digest(),
            "head": self._head,
            "fit": self.subject.fit.digest,
            "rows": self.sets[name].digest,
            "entry": [entry.name, entry.options, entry.shaping],
        }
        if own := own_code(type(entry.build())):
            decides["own code"] = own
        if "store" in entry.options:
            decides["store"] = StoreSet(Path(entry.options["store"])).digest
        key = hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()
        return self.cache / f"{key[:32]}.safetensors"

    def _read(self, entry: Entry, name: str) -> FloatArray | None:
        path = self._path(entry, name)
        if path is None or not path.is_file():
            return None
        try:
            tensors, _ = read_tensors(path, _FORMAT)
        except FormatError:
            return None  # damaged: computed again and replaced
        return tensors["scores"].numpy()

    def _write(self, entry: Entry, name: str, scores: FloatArray) -> None:
        path = self._path(entry, name)
        if path is None:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        about = {"format": _FORMAT, "model": self.subject.name, "entry": entry.label, "set": name}
        write_tensors(path, {"scores": torch.from_numpy(scores)}, about)


@cache
def code_digest() -> str:
    """sha256 over the code that turns features into scores: scores of other code are not reused."""
    folder = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for path in sorted([*folder.glob("*.py"), *(folder / "detectors").glob("*.py")]):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def own_code(detector: type[Detector]) -> str:
    """Digest of the files of a score that is not one of ours; empty for ours, which `code_digest` covers."""
    files = {
        inspect.getsourcefile(part)
        for part in detector.__mro__
        if issubclass(part, Detector) and not part.__module__.startswith(f"{__package__.split('.')[0]}.")
    }
    digest = hashlib.sha256()
    for file in sorted(str(file) for file in files):
        digest.update(Path(file).read_bytes())
    return digest.hexdigest() if files else ""
