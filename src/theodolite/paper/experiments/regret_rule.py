"""The rule behind the recommended score, chosen again: the smallest worst-case regret.

Written before any candidate was scored on any development set by `regret`; `docs/which-score.md` says which
figures were known by then.

Let F(k, d) be the FPR95 of candidate k on development set d in per cent, averaged over d's OOD sets and,
where d is a network trained from several seeds, over these. The regret of k on d is

    R(k, d) = F(k, d) − min F(k', d) over all registered scores k',

with 100 for a candidate that refuses d (any of its networks): what gives no verdict is not left out. The best
of a set is taken among registered scores, so a combination may have a regret below 0.

- The worst regret of a candidate is its largest over the sets, the mean regret their mean.
- Eligible is what has no number to set and reads no bank of ID rows when it scores. All others are reported.
- Of the eligible, those whose worst regret is within `TIE` points of the smallest are tied: a point is what
  chance does to FPR95 on a thousand outliers. Of the tied the smallest mean regret wins, then the first
  named.
- Left out: the same rule chooses on all sets but one, and its choice is reported on that one; and on all but
  those of one kind of ID data, for networks on the same data are no strangers to each other.

The winner replaces the default only if all of these hold:

1. its worst regret is at least `MARGIN` points below that of the default,
2. its mean regret is not above that of the default,
3. the worst regret of what is chosen without the set it is reported on is below that of the default,
4. likewise without all sets of the same ID data.

Otherwise the default stays. AUROC is reported beside FPR95 and decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

TIE, MARGIN = 1.0, 2.0
REFUSED = 100.0
_DIGITS = 4


@dataclass(frozen=True)
class Figure:
    """One candidate on one set, in per cent."""

    fpr95: float
    auroc: float


@dataclass(frozen=True)
class DevelopmentSet:
    """What every candidate gave on a set; ``data`` is what its networks know, ``refused`` says why not."""

    name: str
    data: str
    networks: int
    figures: Mapping[str, Figure]
    refused: Mapping[str, str]


@dataclass(frozen=True)
class Candidate:
    """A score that may win: ``single`` ones are registered, and the best of a set is taken among them."""

    label: str
    what: str
    single: bool
    eligible: bool


@dataclass(frozen=True)
class Row:
    """One candidate, by the rule."""

    candidate: str
    worst: float
    on: str
    mean: float
    eligible: bool
    tied: bool
    chosen: bool


@dataclass(frozen=True)
class LeftOut:
    """What is chosen without a set, and its regret on it beside that of the default."""

    data: str
    set: str
    candidate: str
    regret: float
    of_default: float


@dataclass(frozen=True)
class Condition:
    """One of the four, in points of FPR95."""

    condition: str
    winner: float
    default: float
    holds: bool


@dataclass(frozen=True)
class Decision:
    """What the rule says."""

    rows: tuple[Row, ...]
    without_set: tuple[LeftOut, ...]
    without_data: tuple[LeftOut, ...]
    conditions: tuple[Condition, ...]
    winner: str
    default: str
    replaced: bool


def best_single(found: DevelopmentSet, candidates: Sequence[Candidate]) -> str:
    """The registered score with the lowest FPR95 on a set."""
    singles = [one.label for one in candidates if one.single and one.label in found.figures]
    return min(singles, key=lambda label: found.figures[label].fpr95)


def regrets(sets: Sequence[DevelopmentSet], candidates: Sequence[Candidate]) -> dict[str, dict[str, float]]:
    """R(k, d), by candidate and set."""
    lowest = {found.name: found.figures[best_single(found, candidates)].fpr95 for found in sets}
    return {
        one.label: {
            found.name: REFUSED
            if one.label in found.refused
            else round(found.figures[one.label].fpr95 - lowest[found.name], _DIGITS)
            for found in sets
        }
        for one in candidates
    }


def ranked(regret: Mapping[str, Mapping[str, float]], candidates: Sequence[Candidate]) -> list[Row]:
    """Every candidate, the winner first, then the tied, then by worst regret."""
    worst = {one.label: max(regret[one.label].values()) for one in candidates}
    mean = {one.label: round(float(np.mean(list(regret[one.label].values()))), _DIGITS) for one in candidates}
    smallest = min(worst[one.label] for one in candidates if one.eligible)
    tied = [
        one.label for one in candidates if one.eligible and round(worst[one.label] - smallest, _DIGITS) <= TIE
    ]
    winner = min(tied, key=mean.__getitem__)
    rows = [
        Row(
            one.label,
            worst=worst[one.label],
            on=max(regret[one.label], key=regret[one.label].__getitem__),
            mean=mean[one.label],
            eligible=one.eligible,
            tied=one.label in tied,
            chosen=one.label == winner,
        )
        for one in candidates
    ]
    return sorted(rows, key=lambda row: (not row.chosen, not row.tied, row.worst, row.mean))


def left_out(
    sets: Sequence[DevelopmentSet], candidates: Sequence[Candidate], default: str, *, by_data: bool
) -> list[LeftOut]:
    """The rule on all sets but one, or but those of one kind of ID data, and its choice on the rest."""
    regret = regrets(sets, candidates)
    found = []
    for one in sets:
        others = [
            other.name for other in sets if (other.data != one.data if by_data else other.name != one.name)
        ]
        seen = {label: {name: values[name] for name in others} for label, values in regret.items()}
        winner = ranked(seen, candidates)[0].candidate
        found.append(LeftOut(one.data, one.name, winner, regret[winner][one.name], regret[default][one.name]))
    return found


def decided(sets: Sequence[DevelopmentSet], candidates: Sequence[Candidate], default: str) -> Decision:
    """The whole rule."""
    rows = ranked(regrets(sets, candidates), candidates)
    winner, usual = rows[0], next(row for row in rows if row.candidate == default)
    single = left_out(sets, candidates, default, by_data=False)
    whole = left_out(sets, candidates, default, by_data=True)
    unseen, unknown = (max(row.regret for row in part) for part in (single, whole))
    margin = round(usual.worst - winner.worst, _DIGITS) >= MARGIN
    conditions = (
        Condition(f"worst regret lower by {MARGIN:g}", winner.worst, usual.worst, margin),
        Condition("mean regret not higher", winner.mean, usual.mean, winner.mean <= usual.mean),
        Condition("worst regret, set left out", unseen, usual.worst, unseen < usual.worst),
        Condition("worst regret, ID data left out", unknown, usual.worst, unknown < usual.worst),
    )
    return Decision(
        rows=tuple(rows),
        without_set=tuple(single),
        without_data=tuple(whole),
        conditions=conditions,
        winner=winner.candidate,
        default=default,
        replaced=winner.candidate != default and all(one.holds for one in conditions),
    )
