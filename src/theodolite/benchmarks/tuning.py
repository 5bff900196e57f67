"""Settings chosen without the data they are judged on: on a validation OOD set, or on ID data alone.

    ranking = tune("features:FOLDER", ["ora+react:{70,80,90}", "knn?k={10,50,200}"])
    ranking.chosen                                              # text that --detector takes

Of a feature folder the head and ``id_fit`` are opened, and ``id_val`` and ``ood_val``, which are never
judged; nothing else: neither ``id_test`` nor an OOD set.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ..core.errors import InputError, TheodoliteWarning
from ..detectors.grid import expand_grids
from ..detectors.spec import DetectorSpec, Option, parse_specs
from .asked import FEATURES
from .belonging import require_head_of
from .chosen_rows import ChosenRows, LabelledRows
from .feature_sets import AVERAGE, FIT, ID_VAL, OOD_VAL, TEST, FeatureSet
from .known_folder import KnownFolder, feature_set, known_folder
from .leave_out import FOLDS, KnownData
from .protocols import find_protocol
from .ranking import HELD_OUT, HELD_SHARE, LEAVE_CLASS_OUT, TOLERATED, VALIDATION, Ranking
from .row_keys import RowKeys
from .subject import Subject
from .trials import Trial, class_trials, ranked, validation_trial
from .words import refused_words


def tune(
    features: str | Path | Subject,
    detectors: Sequence[str],
    *,
    validation_ood: Mapping[str, str | Path | FeatureSet] | None = None,
    held_out: str | Path | FeatureSet | None = None,
    folds: int | None = None,
    seed: int = 0,
    command: str | None = None,
    force: bool = False,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Ranking:
    """Choose among settings: ``detectors`` are specs, several at once by braces, ``knn?k={10,50,200}``.

    Without ``validation_ood`` some ID classes play OOD (`benchmarks.leave_out`). ``held_out`` are ID rows
    that the network did not learn and that no benchmark will judge; without them a share of the rows to fit
    on is held out. Where neither is given, a folder's own sets ``ood_val`` and ``id_val`` are taken, if it
    has them (``validation_ood={}`` takes none). ``features`` is a feature folder, or a subject, whose test
    and OOD sets are left alone. There are five folds, or as many as there are classes to leave out. A head
    that hardly agrees with the labels is refused, unless forced (`benchmarks.belonging`).

    >>> means, labels, rng = 4 * np.eye(3, 8), np.arange(450) % 3, np.random.default_rng(0)
    >>> train, test = (th.ArraySet(means[labels] + rng.normal(size=(450, 8)), labels) for _ in range(2))
    >>> fog = th.ArraySet(1 + rng.normal(size=(100, 8)))
    >>> subject = th.Subject("mine", th.Head(means), train, test, {"fog": fog})
    >>> th.tune(subject, ["knn?k={5,20}"]).chosen in ("knn?k=5", "knn?k=20")
    True
    """
    known = _known(features)
    doubt = require_head_of(known.name, known.head, known.fit, force=force)
    specs = candidates(detectors, known.protocol)
    others_words = refused_words(known.fit, specs)
    if others_words:
        raise InputError(next(iter(others_words.values())))
    outliers, judged = _validation(known, validation_ood, held_out)
    data = _data(known, next(iter(judged.values()), None))
    _require_other_rows(data, outliers)
    left_out: tuple[tuple[int, ...], ...] = ()
    if outliers:
        folds = FOLDS if folds is None else folds
        trials: list[Trial] = [validation_trial(data, outliers, folds, seed)]
    else:
        data.require_labels()
        _warn_of_scores(specs)
        folds = min(FOLDS, len(data.held_out.classes)) if folds is None else folds
        trials, left_out = class_trials(data, folds, seed)
    order = ranked(trials, specs, progress)
    if not order.ranked:
        reasons = "; ".join(f"{label}: {reason}" for label, reason in order.refused.items())
        raise InputError(f"no candidate could be computed in every fold: {reasons}")
    rows = {next(iter(judged), HELD_SHARE): ChosenRows(data.held_out), **outliers}
    return Ranking(
        subject=known.name,
        command=command or f"theodolite.tune({known.name!r}, {list(detectors)})",
        method=VALIDATION if outliers else LEAVE_CLASS_OUT,
        folds=folds,
        seed=seed,
        fitted_on=len(data.fit),
        decided_by={name: RowKeys.of(part) for name, part in rows.items()},
        ranked=order.ranked,
        left_out=left_out,
        refused=order.refused,
        doubt=doubt,
    )


def candidates(detectors: Sequence[str], protocol: str | None = None) -> list[DetectorSpec]:
    """The specs of grids, each with the settings of its protocol spelt out: what is chosen is all of it."""
    known = find_protocol(protocol)
    texts = expand_grids(detectors)
    if len(texts) < 2:
        raise InputError(
            f"there is nothing to choose from: {len(texts)} candidates are named, expected at least 2; "
            f"braces hold the values to try, --detector 'knn?k={{10,50,200}}'"
        )
    specs = [
        replace(spec, chosen={**spec.field_settings(), **spec.chosen}, settings=_fixed(spec))
        for spec in parse_specs(texts, settings={} if known is None else known.settings)
    ]
    for spec in specs:
        if spec.options.get("store") is not None:
            raise InputError(
                f"{spec.text}: a bank in a store of its own may hold the rows that it is judged on; leave "
                f"store out, and the bank is made of the rows to fit on"
            )
    return specs


def _warn_of_scores(specs: Sequence[DetectorSpec]) -> None:
    """ID classes that play OOD compare settings of one score at best."""
    names = list(dict.fromkeys(spec.record.title for spec in specs))
    if len(names) > 1:
        warnings.warn(
            f"the candidates are of {len(names)} scores ({', '.join(names)}), and ID classes that play OOD "
            f"do not tell which score is the better one: on five networks that choice was 13 points of FPR95 "
            f"behind the best, Relative Energy 3 (docs/which-score.md). Give a validation OOD set, or "
            f"settings of one score",
            TheodoliteWarning,
            stacklevel=3,
        )


def _fixed(spec: DetectorSpec) -> dict[str, Option]:
    """What the use of stored features asks for."""
    fixed = spec.record.on_features.options
    return {key: value for key, value in spec.settings.items() if key in fixed}


def _known(features: str | Path | Subject) -> KnownFolder:
    if isinstance(features, Subject):
        return KnownFolder(features.name, features.protocol, features.head, features.fit, features.folder)
    return known_folder(str(features).removeprefix(FEATURES))


def _validation(
    known: KnownFolder,
    given: Mapping[str, str | Path | FeatureSet] | None,
    held_out: str | Path | FeatureSet | None,
) -> tuple[dict[str, FeatureSet], dict[str, FeatureSet]]:
    """The validation OOD sets, and the held-out ID rows: those that are given, or the folder's own."""
    if given is None and held_out is None:
        own = {name: path for name in (OOD_VAL, ID_VAL) if (path := known.own_set(name)) is not None}
        found = {name: feature_set(path) for name, path in own.items()}
        strange = {name: rows for name, rows in found.items() if name == OOD_VAL}
        return strange, {name: rows for name, rows in found.items() if name == ID_VAL}
    outliers = {name: _opened(rows, known) for name, rows in (given or {}).items()}
    for name in outliers:
        if name in (FIT, TEST, AVERAGE, ID_VAL, HELD_OUT, HELD_SHARE):
            raise InputError(f"a validation set cannot be called {name!r}, which has a meaning of its own")
    return outliers, {} if held_out is None else {HELD_OUT: _opened(held_out, known)}


def _opened(rows: str | Path | FeatureSet, known: KnownFolder) -> FeatureSet:
    """Features by their path; a set of the folder that a benchmark judges on is refused."""
    if not isinstance(rows, str | Path):
        return rows
    place = Path(rows).expanduser().resolve()
    inside = known.folder is not None and place.parent == known.folder.resolve()
    if inside and place.name.removesuffix(".safetensors") not in known.validation_names:
        raise InputError(
            f"{rows} is a set of the feature folder {known.folder}, on which `theodolite bench` judges: tune "
            f"on {', '.join(sorted(known.validation_names))}, which it never judges, or on data that lies "
            f"elsewhere, and that is none of its samples"
        )
    return feature_set(rows)


def _data(known: KnownFolder, judged: FeatureSet | None) -> KnownData:
    classes = known.head.classes
    for name, rows in ((FIT, known.fit), (HELD_OUT, judged)):
        if rows is not None and rows.width != known.head.width:
            raise InputError(
                f"{known.name}, {name}: features have width {rows.width}, but the head expects "
                f"{known.head.width}"
            )
    fit = LabelledRows.of(known.fit, classes, f"{known.name}, {FIT}")
    own = None if judged is None else LabelledRows.of(judged, classes, HELD_OUT)
    return KnownData.of(known.name, known.head, fit, own)


def _require_other_rows(data: KnownData, outliers: Mapping[str, FeatureSet]) -> None:
    """Rows that are judged are none of those fitted on, and OOD rows are no ID rows."""
    given = data.fit.rows is not data.held_out.rows
    if not given and not outliers:
        return
    fit, held_out = (RowKeys.of(ChosenRows(rows), None) for rows in (data.fit, data.held_out))
    pairs = [(HELD_OUT, held_out, "the rows to fit on", fit)] if given else []
    for name, rows in outliers.items():
        keys = RowKeys.of(rows, None)
        pairs += [(name, keys, "the rows to fit on", fit), (name, keys, HELD_OUT, held_out)]
    for name, keys, other, known in pairs:
        shared = keys.shared(known)
        if shared > TOLERATED:
            raise InputError(
                f"{name} and {other} share rows ({100 * shared:.0f} % of the smaller of the two): what is "
                f"judged must not have been fitted on, and OOD rows must not be ID rows"
            )
