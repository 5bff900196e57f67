"""The entries of a table: a score with its options and shaping, by one short text.

ora    knn?k=200    ora?centre=predicted    energy+react:90    ora?aggregate=mean+scale:90
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from ..core.errors import InputError
from . import Detector, create, detector_record, list_detectors
from .shaping import SHAPINGS, parse_shaping

# Stored features are those of the pictures as they are: ODIN cannot perturb its input any more.
_FROM_FEATURES: Mapping[str, Mapping[str, Any]] = {"odin": {"noise": 0.0}}
_SHAPED = re.compile(rf"\+((?:{'|'.join(SHAPINGS)})(?::[^+?]*)?)$")


@dataclass(frozen=True)
class Entry:
    """One row of a table. ``chosen`` are the options somebody asked for; the rest is the score's default or,
    in ``settings``, what the protocol or the use of stored features asks for."""

    name: str
    chosen: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    shaping: str | None = None

    @property
    def label(self) -> str:
        """The row's name: ``ORA``, ``KNN k=200``, ``Energy + react:90``."""
        words = [detector_record(self.name).title]
        words += [f"{key}={value}" for key, value in self.chosen.items()]
        if self.name == "odin":
            words.append("(ε=0)")
        return " ".join(words) + (f" + {self.shaping}" if self.shaping else "")

    @property
    def text(self) -> str:
        """The entry as `parse_entries` reads it."""
        query = "&".join(f"{key}={value}" for key, value in self.chosen.items())
        return self.name + (f"?{query}" if query else "") + (f"+{self.shaping}" if self.shaping else "")

    @property
    def options(self) -> dict[str, Any]:
        return {**self.settings, **self.chosen}

    def build(self) -> Detector:
        shaping = None if self.shaping is None else parse_shaping(self.shaping)
        return create(self.name, **self.options, **({} if shaping is None else {"shaping": shaping}))

    def published_options(self) -> dict[str, Any]:
        """The options as the published tables spell them; settings of the field count as plain."""
        options = dict(self.chosen)
        options.update(_FROM_FEATURES.get(self.name, {}))
        if self.shaping:
            name, _, percentile = self.shaping.partition(":")
            options["shaping"] = name
            if percentile:
                options["percentile"] = _number(percentile)
        return options


def parse_entries(
    texts: Sequence[str],
    *,
    shapings: Sequence[str] = (),
    settings: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Entry]:
    """Entries in the order given, all registered scores if none is; then each again behind every shaping."""
    plain = [_parse(text, settings or {}) for text in texts or list_detectors()]
    for shaping in shapings:
        parse_shaping(shaping)
        plain += [
            Entry(entry.name, entry.chosen, entry.settings, shaping)
            for entry in [entry for entry in plain if entry.shaping is None]
        ]
    labels = [entry.label for entry in plain]
    doubled = sorted({label for label in labels if labels.count(label) > 1})
    if doubled:
        raise InputError(f"{', '.join(doubled)} would stand in the table twice: name every score once")
    return plain


def _parse(text: str, settings: Mapping[str, Mapping[str, Any]]) -> Entry:
    # A name may itself end in + (ssd+, maha+): only a + before the name of a shaping separates.
    shaped = _SHAPED.search(text)
    shaping = shaped[1] if shaped else None
    head, _, query = text[: shaped.start() if shaped else None].partition("?")
    record = detector_record(head.strip())
    takes = inspect.signature(record.detector.__init__).parameters
    chosen = {key: _number(value) for key, value in parse_qsl(query)}
    unknown = sorted(set(chosen) - set(takes))
    if unknown:
        known = ", ".join(name for name in takes if name not in ("self", "shaping")) or "none"
        raise InputError(f"{text}: {record.title} has no option {unknown[0]!r}; options: {known}")
    fixed = sorted(set(chosen) & set(_FROM_FEATURES.get(record.name, {})))
    if fixed:
        raise InputError(f"{text}: {fixed[0]} has no effect here, features are those of unchanged inputs")
    given = {**_FROM_FEATURES.get(record.name, {}), **settings.get(record.name, {})}
    entry = Entry(record.name, chosen, given, shaping)
    entry.build()
    return entry


def _number(text: str) -> Any:
    """A number where it is one, a truth value where it is one, else the text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text.lower(), text)
