"""What a run may have, before it has begun: so that a slip in what is to be seen of it costs no run."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..detectors.spec import parse_specs
from ..features.folders import feature_sets
from .asked import FEATURES
from .feature_folder import read_about
from .protocols import Protocol, find_protocol
from .protocols import protocol as protocol_called
from .ranking import Ranking
from .repeats import Repeats


@dataclass(frozen=True)
class Foreseen:
    """The OOD sets and groups of them, the scores by label with their texts, and whether models are joined.

    A run may have less: a data set is missing, a score refuses. It has nothing besides.
    """

    sets: Collection[str]
    scores: Mapping[str, str]
    joint: bool


def foreseen(
    protocol: str | Protocol,
    models: Sequence[str | Repeats],
    detectors: Sequence[str] = (),
    shapings: Sequence[str] = (),
    rankings: Sequence[Ranking] = (),
) -> Foreseen:
    """What `bench` may have to show; the arguments are its."""
    named = [protocol] if isinstance(protocol, str) and protocol.startswith(FEATURES) else []
    for model in models:
        named += [model] if isinstance(model, str) else model.models
    folders = [Path(text.removeprefix(FEATURES)).expanduser() for text in named if text.startswith(FEATURES)]
    protocols = [find_protocol(read_about(folder).protocol) for folder in folders]
    if not isinstance(protocol, str):
        protocols.append(protocol)
    elif not protocol.startswith(FEATURES.rstrip(":")):
        protocols.append(protocol_called(protocol))
    sets = {name for folder in folders if folder.is_dir() for name in feature_sets(folder)}
    for known in protocols:
        sets |= set() if known is None else {*known.groups, *(part.name for part in known.ood)}
    texts = list(dict.fromkeys([*detectors, *(choice.chosen for choice in rankings)]))
    # A score that asks the model, and one on every layer, have rows of their own where there are such.
    specs = [
        spec
        for model in (False, True)
        for layers in (False, True)
        for spec in parse_specs(texts, shapings=shapings, model=model, layers=layers)
    ]
    return Foreseen(sorted(sets), {spec.label: spec.text for spec in specs}, len(named) + len(models) > 1)
