"""A judge of whatever lies at a path: pictures, folders, data files, features and feature stores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path

from ..features.settings import Running
from .discoveries import check_rules, together
from .model_judge import ModelJudge
from .path_reader import PathReader
from .provenance import only_model, trusted_spec
from .verdicts import RAISE, PathVerdict, check_unscorable


class PathJudge(ModelJudge):
    """Verdicts on features, images and pictures, and on files of all of them."""

    def score_paths(
        self,
        paths: str | Path | Sequence[str | Path],
        *,
        kind: str | None = None,
        limit: int | None = None,
        model: str | Sequence[str] | None = None,
        weights: str | Path | None = None,
        false_alarm_rate: float | None = None,
        fdr: float | None = None,
        unscorable: str = RAISE,
        running: Running | None = None,
        progress: Callable[[int, int], None] = lambda _done, _total: None,
    ) -> Iterator[list[PathVerdict]]:
        """Verdicts on pictures, folders, data files and feature stores, mixed, in batches of rows.

        Pictures go through the guard's own model, loaded at the first of them; if it is code (``python:…``)
        the caller must name it as ``model``. ``weights`` is where its checkpoint is now; ``kind`` and
        ``limit`` are as in `ExtractionSettings`, the limit for each path. A picture that cannot be read is an
        error, or with ``Running(skip_unreadable=True)`` a row that says so; so are features with NaN or
        infinity, with ``unscorable="flag"``. With ``fdr`` all samples are flagged together (`discoveries`),
        and their rows come at the end, at once. ``progress`` gets samples done, and those of all paths opened
        so far.
        """
        check_unscorable(unscorable)
        check_rules(fdr, false_alarm_rate)
        if false_alarm_rate is not None:
            self.calibration.require_rate(false_alarm_rate)
        named = [paths] if isinstance(paths, str | Path) else paths
        finite = unscorable == RAISE
        reader = self.reader(
            only_model(model), weights, kind=kind, limit=limit, running=running, finite=finite
        )
        judge = partial(self.verdicts_of_own, rate=false_alarm_rate, unscorable=unscorable)
        rows = reader.verdicts([str(path) for path in named], judge, self.class_name, progress)
        return rows if fdr is None else together(rows, fdr, self.calibration)

    def score_folder(
        self,
        folder: str | Path,
        *,
        kind: str | None = None,
        model: str | None = None,
        fdr: float | None = None,
        unscorable: str = RAISE,
        running: Running | None = None,
    ) -> list[PathVerdict]:
        """All verdicts of `score_paths` on one path at once: for what fits in memory."""
        batches = self.score_paths(
            folder, kind=kind, model=model, fdr=fdr, unscorable=unscorable, running=running
        )
        return list(chain.from_iterable(batches))

    def reader(
        self,
        model: str | None,
        weights: str | Path | None,
        *,
        kind: str | None,
        limit: int | None,
        running: Running | None,
        finite: bool,
    ) -> PathReader:
        """What reads paths for this judge; ``model`` and ``weights`` are as in `score_paths`."""
        if model is not None and self.provenance is not None:
            trusted_spec(self.provenance, model)
        own = partial(self._own_model, model, weights)
        reader = PathReader(self.provenance, own, kind=kind, limit=limit, running=running, finite=finite)
        reader.knows(self.width, self.head, self.origin)
        reader.accept_code_change = self.accept_code_change
        reader.score = None if self.model_score is None else self.detector
        return reader
