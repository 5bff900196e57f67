"""From paths to a part: one pass over some of the data, for machines that each see some of it.

What a part learns and holds out is what `fit_guard` on the whole data learns and holds out of its samples.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypedDict, Unpack

from torch import Tensor, nn

from ..core.errors import InputError
from ..data import open_source
from ..data.part import PartOf
from ..detectors import Detector
from ..detectors._banked import Banked
from ..detectors._fitting import looks_of, views_of
from ..detectors.shaping import Learner
from ..features.asking import inputs_of
from ..features.folders import HOLDS_PICTURES
from ..features.runs import RowRuns
from ..features.settings import ExtractionSettings, Watch
from ..features.store import StoreParts, is_store
from ..reference.head import Head
from ..reference.reference import Batch, Reference, batches, collect_views
from ..reference.seen import Seen, require_each_once
from .choice import choose_detector, require_head
from .fit_data import DataPaths, KnownData
from .fitted_rows import FittedRows
from .fitting import open_known
from .guard import CALIBRATION_SHARE
from .holdout import check_share, in_share
from .negatives import require_own_words
from .part import Part, held_out_bank, kept_share, looked_at_bank
from .part_source import Lot, PartSource, require_complete, require_one_source
from .shown import asking, require_several, shown_of, suited


class Allowed(TypedDict, total=False):
    """What is rarer: see `collect`."""

    head: Head | nn.Linear | str | Path | None
    accept_code_change: bool


def collect(
    data: str | Path | Sequence[str | Path],
    model: str | None = None,
    *,
    detectors: Sequence[Detector | str] = (),
    weights: str | Path | None = None,
    calibration_share: float = CALIBRATION_SHARE,
    first_look: Sequence[str | Path | Part] = (),
    settings: ExtractionSettings | None = None,
    progress: Watch = lambda _: None,
    **allowed: Unpack[Allowed],
) -> Part:
    """What ``detectors`` (by default the recommended one) learn from some of the data, to be merged.

    ``data``, ``model``, ``weights`` and ``head`` are as for `fit_guard`; ``settings.part`` says which of
    several equal parts of it, of stores and of files of features as well. The ``calibration_share`` is held
    out, the same samples as of the whole; 0 holds out none, for calibration data of its own. A shaping that
    learns makes two rounds of it: the first gives a first look, and the ``first_look`` of all parts is given
    to the second.

    >>> means, labels = 4 * np.eye(3, 8), np.arange(300) % 3
    >>> rows = means[labels] + np.random.default_rng(0).normal(size=(300, 8))
    >>> np.savez("train.npz", features=rows, labels=labels)
    >>> part = th.collect("train.npz", head=th.Head(means), settings=th.ExtractionSettings(part="1/2"))
    >>> part.save("part-1.safetensors")  # the others on other machines; then th.fit_parts
    """
    if calibration_share != 0:
        check_share(calibration_share)
    asked = [copy.deepcopy(choose_detector(one)) for one in detectors or (None,)]
    _require_own_banks(asked)
    named = DataPaths.of(data, None, settings)
    settings = settings or ExtractionSettings()
    settings = replace(settings, score=_one_score(asked))
    part = None if settings.part is None else PartOf.parse(settings.part)
    cut = _cuts_rows(named)
    known = open_known(
        named,
        model,
        weights=weights,
        settings=replace(settings, part=None) if cut else settings,
        progress=progress,
        head=allowed.get("head"),
        accept_code_change=allowed.get("accept_code_change", False),
    )
    asked = [suited(detector, shown_of(known.fit)) for detector in asked]
    for detector in asked:
        require_several(detector)
        require_head(detector, known.fit.head)
        require_own_words(detector, known.provenance, here=False)
    runs = [part.run(len(one)) if part and cut else range(len(one)) for one in known.fit.parts]
    whole = sum(map(len, known.fit.parts)) if cut else _pictures(named, settings)
    number, count = (1, 1) if part is None else (part.number, part.count)
    source = _source(known, Lot(tuple(map(str, named.fit)), whole, number, count, settings.limit))
    looked = [one if isinstance(one, Part) else Part.load(one) for one in first_look]
    waiting = learnt(asked, looked, known.fit.head, source, calibration_share)
    kept = kept_share(calibration_share, source.lots[0].taken)
    rows = RowRuns(known.fit, runs)
    reading = Pass(rows, known.fit.parts[0].width, known.fit.head, calibration_share, kept)
    return reading.part(asked, source, waiting, _contents(rows))


class Pass:
    """One reading of the rows, of which a share is held out, and of it a smaller share kept; what is fitted
    on goes on to the statistics."""

    def __init__(
        self, data: Iterable[Batch], width: int, head: Head | None, share: float, kept: float
    ) -> None:
        self._data = data
        self._head = head
        self._share = share
        self._kept = kept
        self._samples = Seen()
        self._rows = FittedRows()
        self._held_out, self._looked_at = held_out_bank(width), looked_at_bank(width)
        self._fitted_on = 0

    def part(
        self,
        detectors: Sequence[Detector],
        source: PartSource,
        waiting: Sequence[Learner],
        contents: Seen | None = None,
    ) -> Part:
        """What the detectors ask for; in a first look, what the shapings that are waiting learn from.

        ``contents`` are digests of the pictures, where they are known.
        """
        references: list[Reference] = []
        looks = looks_of(waiting)
        if looks:
            for rows, _, _ in self._fitted():
                for look in looks.values():
                    look.update(rows if self._head is None else self._head.prepare(rows))
        else:
            views = [*views_of(detectors).values()]
            references = collect_views(self._fitted(keep=True), head=self._head, views=views)
        require_each_once(self._samples)
        return Part(
            tuple(detectors),
            self._head,
            tuple(references),
            self._share,
            self._kept,
            self._fitted_on,
            self._held_out,
            self._looked_at,
            self._samples,
            self._rows,
            source,
            contents,
            looks,
        )

    def _fitted(self, *, keep: bool = False) -> Iterator[Batch]:
        """The rows to fit on; the others, and what is compared with calibration data, are kept if asked."""
        for rows, labels, ids in batches(self._data, None, None, self._head):
            if ids is None:
                raise InputError("the data has no ids: parts are kept apart by them")
            self._samples.add(ids)
            held = in_share(ids, self._share) if self._share else ids.new_zeros(len(ids)).bool()
            if keep and self._share:
                self._held_out.add(*_chosen(rows, labels, ids, in_share(ids, self._kept)))
            fit, fit_labels, fit_ids = _chosen(rows, labels, ids, ~held)
            if len(fit):
                self._fitted_on += len(fit)
                if keep:
                    self._rows.add(fit)
                if keep and not self._share and fit_labels is not None:
                    self._looked_at.add(fit, fit_labels, fit_ids)
                yield fit, fit_labels, fit_ids


def _chosen(
    rows: Tensor, labels: Tensor | None, ids: Tensor, which: Tensor
) -> tuple[Tensor, Tensor | None, Tensor]:
    return rows[which], None if labels is None else labels[which], ids[which]


def learnt(
    detectors: Sequence[Detector],
    given: Sequence[Part],
    head: Head | None,
    source: PartSource,
    share: float,
) -> list[Learner]:
    """Teach the shapings that have to learn from the first look of all parts; those that it is yet to be had
    for."""
    shapings = [
        one.shaping for one in detectors if isinstance(one.shaping, Learner) and not one.shaping.ready
    ]
    if not given:
        return shapings
    if not shapings:
        raise InputError("a first look is for a shaping that learns (vra, react): leave --first-look out")
    # In one order on every machine: sums of floating-point numbers are then the same to the last bit.
    seen = Part.merged(sorted(given, key=lambda part: str(part.source.lots)))
    if not seen.first_look:
        raise InputError(
            "the first look holds statistics, not what a shaping learns from: name the parts that the first "
            "round gave"
        )
    for shaping in shapings:
        if shaping.looks.name not in seen.looks:
            raise InputError(
                f"the first look was not taken for {shaping.spec}: collect it again with the same --detector "
                f"in both rounds"
            )
    require_complete(seen.source.lots, incomplete=False)
    require_one_source(seen.source, source)
    if seen.share != share:
        raise InputError(
            f"the first look held out {100 * seen.share:g} % to calibrate on, now it is {100 * share:g} %: "
            f"both rounds need the same --calibration-share"
        )
    if seen.head is not None and head is not None and not seen.head.equals(head):
        raise InputError("the first look was had through another head: both rounds need the same")
    for shaping in shapings:
        shaping.learn(seen.looks[shaping.looks.name], None)
    return []


def _cuts_rows(named: DataPaths) -> bool:
    """Whether rows are cut into parts; of pictures only those of a part are extracted."""
    stores = [path for path in named.fit if is_store(path)]
    if stores and len(stores) < len(named.fit):
        raise InputError(
            f"{stores[0]} is a feature store and other data is pictures: collect them apart, each as parts "
            f"of its own"
        )
    return named.hold_features or bool(stores)


def _pictures(named: DataPaths, settings: ExtractionSettings) -> int:
    """Samples of the pictures at all paths, of which a part was extracted."""
    kind = None if settings.kind == HOLDS_PICTURES else settings.kind
    return sum(len(open_source(path, kind=kind)) for path in named.fit)


def _source(known: KnownData, lot: Lot) -> PartSource:
    folders = known.fit.parts[0].manifest.folders if isinstance(known.fit, StoreParts) else None
    return PartSource((lot,), known.fit.labelled, known.provenance, known.origin, known.class_names, folders)


def _contents(data: RowRuns) -> Seen | None:
    """Digests of the pictures of stores; None where some have none."""
    if not isinstance(data.data, StoreParts):
        return None
    seen = Seen()
    for store in data.data.parts:
        contents = store.contents()
        if contents is None:
            return None
        seen.add(contents)
    return seen


def _one_score(detectors: Sequence[Detector]) -> Detector | None:
    """The score that says what the model is shown; refused if they differ in it."""
    if len({detector.model_score for detector in detectors}) > 1:
        names = ", ".join(inputs_of(detector.model_score) for detector in detectors)
        raise InputError(f"the scores need features of different inputs ({names}): collect them apart")
    return asking(detectors[0])


def _require_own_banks(detectors: Iterable[Detector]) -> None:
    for detector in detectors:
        if isinstance(detector, Banked) and detector.store is not None:
            raise InputError(
                f"the bank of {detector.record.title} is the feature store {detector.store}, of which a part "
                f"has nothing to learn: leave store= out, or fit on the store"
            )
