"""One verdict from several guards, each with a model of its own, on the same samples.

    both = EnsembleGuard.fit([guard_a, guard_b], "pictures/val")
    both.score_folder("pictures/new")
    both.verdicts([features_a, features_b])

The members' scores are combined into one (see `ensemble`), which has a calibration of its own: the members'
thresholds play no part. Where scores are put on one scale first, half of the calibration data, drawn at
random with a fixed seed, gives the scale and the other half the threshold, so that a guard's promise holds as
it is.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from PIL.Image import Image
from torch import Tensor

from ..core.arrays import ArrayLike, as_tensor, like
from ..core.errors import CalibrationWarning, InputError
from ..detectors.combination import STANDARDISED, SUM, check_combination
from ..features.settings import Running
from .calibration import FALSE_ALARM_RATE, Calibration
from .discoveries import check_rules, discoveries, together
from .ensemble import combined, require_one_each
from .ensemble_files import EnsembleParts, read_ensemble, write_ensemble
from .guard import Guard
from .judge import verdicts_by
from .lockstep import Seen, in_lockstep, member_scores, scores_in_lockstep
from .members import checked_members, why_no_class
from .same_kind import calibration_doubts
from .storage import find
from .verdicts import FLAG, NO_CLASS, RAISE, PathVerdict, Verdicts, check_unscorable
from .verdicts import path_verdicts as rows_of
from .verdicts import unreadable as row_unread

_SPLIT_SEED = 0


class EnsembleGuard:
    """Several guards with one verdict.

    A sample's class has the highest mean of the members' probabilities, where all members know the same
    classes; else none is predicted. A sample that one member cannot score is unscorable. Members are copied;
    only the models that they have attached are shared.

    >>> means, labels, rng = 4 * np.eye(3, 8), np.arange(300) % 3, np.random.default_rng(0)
    >>> train, val = (means[labels] + rng.normal(size=(300, 8)) for _ in range(2))
    >>> guard = th.Guard.fit(train, labels, head=th.Head(means), calibration=val)
    >>> both = th.EnsembleGuard.fit([guard, guard], [val, val])  # features of the same samples, by model
    >>> strange = np.full((1, 8), 9.0)
    >>> both.verdicts([strange, strange]).is_ood
    array([ True])
    """

    def __init__(
        self,
        members: Sequence[Guard],
        calibration: Calibration,
        *,
        combine: str = STANDARDISED,
        scales: Sequence[Calibration] | None = None,
        false_alarm_rate: float = FALSE_ALARM_RATE,
    ) -> None:
        self.members = checked_members(members)
        self.combine = check_combination(combine)
        if (0 if scales is None else len(scales)) != (0 if combine == SUM else len(self.members)):
            raise InputError(
                f"scales must be one for each member, and none for {SUM!r}; combine is {combine!r}"
            )
        self.scales = None if scales is None else tuple(scales)
        self.calibration = calibration
        calibration.require_rate(false_alarm_rate)
        self.false_alarm_rate = false_alarm_rate
        self.why_no_class = why_no_class(self.members)
        self.class_names = None if self.why_no_class else self.members[0].class_names

    @classmethod
    def fit(
        cls,
        members: Sequence[Guard],
        calibration: str | Path | Sequence[ArrayLike],
        *,
        combine: str = STANDARDISED,
        ids: Sequence[Sequence[object]] | None = None,
        false_alarm_rate: float = FALSE_ALARM_RATE,
        model: str | Sequence[str] | None = None,
        running: Running | None = None,
        progress: Callable[[int, int], None] = lambda _done, _total: None,
    ) -> EnsembleGuard:
        """Calibrate guards together, on ID samples that none of them was fitted on.

        ``calibration`` is a path of pictures, which every member sees through its own model, or features, one
        array a member, of the same samples in the same order; ``ids`` are their names, compared where given.
        Whether a member was fitted on them cannot be known, which a warning says; where its scores are far
        higher than those it was calibrated on, as fitted data has them, the data is refused (`same_kind`).
        ``model`` names code that members may run on pictures (``python:…``), one or several.
        """
        checked = checked_members(members)
        check_combination(combine)
        if isinstance(calibration, str | Path):
            scores = scores_in_lockstep(checked, calibration, model, running, progress)
        else:
            require_one_each(calibration, len(checked), "guard", ids)
            pairs = zip(checked, calibration, strict=True)
            scores = [member_scores(one, as_tensor(rows, "features")) for one, rows in pairs]
        doubts = calibration_doubts(checked, scores)
        if combine == SUM:
            scales, rest = None, combined(SUM, scores, None)
        else:
            one, other = halves(len(scores[0]))
            scales = [Calibration(values[one]) for values in scores]
            rest = combined(combine, [values[other] for values in scores], scales)
        made = cls(
            checked, Calibration(rest), combine=combine, scales=scales, false_alarm_rate=false_alarm_rate
        )
        tied = made.calibration.doubt(made.false_alarm_rate)
        for doubt in (*doubts, *([] if tied is None else [tied])):
            warnings.warn(doubt, CalibrationWarning, stacklevel=2)
        return made

    @property
    def predicts(self) -> bool:
        """Whether the members know the same classes, so that one of them is predicted; else
        ``why_no_class``."""
        return self.why_no_class is None

    @property
    def title(self) -> str:
        """The members' scores, as tables name them."""
        names = dict.fromkeys(one.detector.record.title for one in self.members)
        return f"{' + '.join(names)} of {len(self.members)} models"

    def class_name(self, index: int) -> str:
        """The name of a class, or its number."""
        return str(index) if self.class_names is None else self.class_names[index]

    # ------------------------------------------------------------------ verdicts

    def verdicts(
        self,
        inputs: Sequence[ArrayLike] | Sequence[Image],
        *,
        ids: Sequence[Sequence[object]] | None = None,
        false_alarm_rate: float | None = None,
        fdr: float | None = None,
        unscorable: str = RAISE,
    ) -> Verdicts:
        """Verdicts on samples as every member sees them: features (N, D) or prepared images, one array a
        member; or on a list of pictures, which each member prepares by itself.

        ``ids`` are the members' names of the samples, compared where given; the rest is as for a `Guard`.
        """
        check_unscorable(unscorable)
        check_rules(fdr, false_alarm_rate)
        pictures = _are_pictures(inputs)
        if not pictures:
            require_one_each(inputs, len(self.members), "guard", ids)  # type: ignore[arg-type]
        elif ids is not None:
            raise InputError("ids are for features, one sequence a member: every member sees the pictures")
        flag = unscorable == FLAG
        seen = [
            one._features(inputs if pictures else inputs[place], finite=not flag)
            for place, one in enumerate(self.members)
        ]
        columns = self._judge(seen, false_alarm_rate, flag=flag)
        if fdr is not None:
            p_values = as_tensor(columns.p_value, "p_values")
            found = discoveries(p_values, fdr, self.calibration)
            columns = columns._replace(is_ood=torch.isnan(p_values) | found)
        first = inputs[0]
        template = first if isinstance(first, Tensor | np.ndarray) else seen[0]
        return Verdicts(*(like(as_tensor(column, "verdicts"), template) for column in columns))

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
        """Verdicts on pictures and folders of them, in batches of rows, as of a `Guard`.

        ``model`` names code that members may run (``python:…``), one or several; of ``weights`` every member
        has its own.
        """
        require_no_weights(weights)
        check_unscorable(unscorable)
        check_rules(fdr, false_alarm_rate)
        self.calibration.require_rate(self._rate(false_alarm_rate))
        flag = unscorable == FLAG
        batches = in_lockstep(
            self.members, paths, kind=kind, limit=limit, model=model, running=running, finite=not flag
        )
        rows = self._rows(batches, false_alarm_rate, progress, flag=flag)
        return rows if fdr is None else together(rows, fdr, self.calibration)

    def score_folder(
        self,
        folder: str | Path,
        *,
        model: str | Sequence[str] | None = None,
        running: Running | None = None,
    ) -> list[PathVerdict]:
        """All verdicts of `score_paths` on one path at once."""
        return list(chain.from_iterable(self.score_paths(folder, model=model, running=running)))

    def _rows(
        self, batches: Iterator[Seen], rate: float | None, progress: Callable[[int, int], None], *, flag: bool
    ) -> Iterator[list[PathVerdict]]:
        done = 0
        for names, features, unread, total in batches:
            rows = rows_of(names, self._judge(features, rate, flag=flag), self.class_name) if features else []
            rows += map(row_unread, unread)
            done += len(rows)
            progress(done, total)
            yield rows

    @torch.no_grad()
    def _judge(self, features: Sequence[Tensor], false_alarm_rate: float | None, *, flag: bool) -> Verdicts:
        rate = self._rate(false_alarm_rate)
        self.calibration.require_rate(rate)
        pairs = list(zip(self.members, features, strict=True))
        found = [member_scores(one, rows, flag=flag) for one, rows in pairs]
        whole = torch.stack([torch.isfinite(scores) for scores in found]).all(dim=0)
        scores = torch.full_like(found[0], torch.nan)
        if bool(whole.any()):
            scores[whole] = combined(self.combine, [values[whole] for values in found], self.scales)
        return verdicts_by(
            self.calibration, self._classes(pairs), scores, torch.tensor(rate, dtype=torch.float64)
        )

    def _rate(self, given: float | None) -> float:
        return self.false_alarm_rate if given is None else given

    def _classes(self, pairs: Sequence[tuple[Guard, Tensor]]) -> Tensor:
        if not self.predicts:
            return torch.full((len(pairs[0][1]),), NO_CLASS)
        logits = [one._logits(rows) for one, rows in pairs]
        chances = [torch.softmax(one.double().cpu(), dim=1) for one in logits if one is not None]
        return torch.stack(chances).mean(dim=0).argmax(dim=1)

    # ------------------------------------------------------------------ files

    def save(self, path: str | Path) -> None:
        """Write all members, their scales and the calibration as one safetensors file."""
        members = [one.parts(one.head) for one in self.members]
        parts = EnsembleParts(members, self.combine, self.scales, self.calibration, self.false_alarm_rate)
        write_ensemble(path, parts)

    @classmethod
    def load(cls, path: str | Path, *, accept_code_change: bool = False) -> EnsembleGuard:
        """The ensemble that `save` wrote; ``accept_code_change`` is as for `Guard.load`."""
        parts, source = read_ensemble(path), find(path)
        members = [
            Guard.of_parts(one, source, accept_code_change=accept_code_change) for one in parts.members
        ]
        return cls(
            members,
            parts.calibration,
            combine=parts.combine,
            scales=parts.scales,
            false_alarm_rate=parts.false_alarm_rate,
        )


def _are_pictures(inputs: object) -> bool:
    """Whether inputs are a list of pictures; one that is in no list is refused."""
    if isinstance(inputs, Image):
        raise InputError("inputs is one picture, expected a list of them: [picture]")
    if not isinstance(inputs, list | tuple) or not inputs:
        return False
    return all(isinstance(one, Image) for one in inputs)


def halves(count: int) -> tuple[Tensor, Tensor]:
    """Two halves of so many samples, drawn at random with a fixed seed: data may alternate by its source."""
    order = torch.randperm(count, generator=torch.Generator().manual_seed(_SPLIT_SEED))
    return order[: (count + 1) // 2], order[(count + 1) // 2 :]


def require_no_weights(weights: str | Path | None) -> None:
    """An ensemble has several checkpoints."""
    if weights is not None:
        raise InputError(
            "weights are for a guard of one model: an ensemble finds the checkpoints of its members where "
            "they were when they were fitted"
        )
