"""Explanations of whatever paths name: pictures, folders, data files, feature stores, features in files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ..core.errors import InputError
from ..features.folders import holds_features
from ..features.loading import living_workers
from ..features.settings import Running
from ..features.store import FeatureStore, is_store
from .explain import Explainer
from .explanation import Explanation
from .nearest import folder_of, picture_at
from .path_reader import PathReader


def explain_paths(
    explainer: Explainer,
    paths: str | Path | Sequence[str | Path],
    *,
    rows: Sequence[int] | None = None,
    kind: str | None = None,
    limit: int | None = None,
    model: str | None = None,
    weights: str | Path | None = None,
    running: Running | None = None,
) -> Iterator[Explanation]:
    """Explanations of the samples at paths, in order; ``rows`` are those wanted of a single path, from 0.

    The other arguments are those of `Guard.score_paths`. A sample that cannot be scored is explained as such;
    a picture that cannot be read is an error.

    >>> means, labels, rng = 4 * np.eye(3, 8), np.arange(300) % 3, np.random.default_rng(0)
    >>> train, val = (means[labels] + rng.normal(size=(300, 8)) for _ in range(2))
    >>> guard = th.Guard.fit(train, labels, head=th.Head(means), calibration=val)
    >>> np.save("new.npy", np.full((2, 8), 9.0))
    >>> [(why.name, why.verdict) for why in th.explain_paths(th.Explainer(guard), "new.npy")]
    [('new.npy#0', 'OOD'), ('new.npy#1', 'OOD')]
    """
    named = [paths] if isinstance(paths, str | Path) else list(paths)
    if rows is not None and len(named) != 1:
        raise InputError(f"rows are those of one path, but {len(named)} are given: name one")
    if rows is not None and (limit is not None or not rows or min(rows) < 0):
        raise InputError(f"rows must be at least one number from 0, without a limit, got {list(rows)}")
    reader = explainer.guard.reader(model, weights, kind=kind, limit=limit, running=running, finite=False)
    return _explained(explainer, reader, [str(path) for path in named], rows)


def _explained(
    explainer: Explainer, reader: PathReader, paths: Sequence[str], rows: Sequence[int] | None
) -> Iterator[Explanation]:
    with living_workers():
        for path in paths:
            told = _of_path(explainer, reader, path, rows)
            yield from told if rows is None else _in_order(told, rows, path)


def _of_path(
    explainer: Explainer, reader: PathReader, path: str, rows: Sequence[int] | None
) -> Iterator[Explanation]:
    """The wanted samples of one path, in the order of the path; it is read no further than the last."""
    folder = folder_of(FeatureStore(path)) if is_store(path) else None
    has_pictures = folder is not None or not (is_store(path) or holds_features(path, reader.kind))
    wanted, start = None if rows is None else set(rows), 0
    for names, features, _ in reader.read([path]):
        places = [place for place in range(len(names)) if wanted is None or start + place in wanted]
        start += len(names)
        if features is not None and places:
            called = [names[place] for place in places]
            pictures = [picture_at(folder, name) if has_pictures else None for name in called]
            yield from explainer.of_features(features[places], names=called, pictures=pictures)
        if wanted is not None and start > max(wanted):
            return


def _in_order(told: Iterator[Explanation], rows: Sequence[int], path: str) -> Iterator[Explanation]:
    """The samples in the order they were asked for."""
    found = dict(zip(sorted(set(rows)), told, strict=False))
    for row in rows:
        if row not in found:
            raise InputError(f"row {row} was asked for, but {path} holds fewer samples: rows begin at 0")
        yield found[row]
