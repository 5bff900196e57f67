"""A score with its options and its shaping, by one short text.

ora    knn?k=200    ora?centre=predicted    energy+react:90    ora?aggregate=mean+scale:90
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self, TypeAlias
from urllib.parse import parse_qsl, quote, urlencode

from ..core.errors import InputError
from ._base import Detector
from ._registry import FEATURES_AS_THEY_ARE, Record, create, detector_record, list_detectors
from .shaping import SHAPINGS, parse_shaping

Option: TypeAlias = bool | int | float | str
Options: TypeAlias = Mapping[str, Option]
# The settings of a benchmark: options by the name of the score.
Settings: TypeAlias = Mapping[str, Options]

# The score that has another one look at every layer.
EVERY_LAYER = "layered"

_SHAPED = re.compile(rf"\+((?:{'|'.join(SHAPINGS)})(?::[^+?]*)?)$")


@dataclass(frozen=True)
class DetectorSpec:
    """One score as it was asked for, and one row of a table.

    ``chosen`` are the options somebody asked for; the rest is the score's default or, in ``settings``, what
    the benchmark or the use of stored features asks for. ``asks_model``: the score has what it asks of the
    model, changed inputs or numbers of its own, and not its form on features.
    """

    name: str
    chosen: Options = field(default_factory=dict)
    settings: Options = field(default_factory=dict)
    shaping: str | None = None
    asks_model: bool = False

    @property
    def record(self) -> Record:
        return detector_record(self.name)

    @property
    def label(self) -> str:
        """The row's name: ``ORA``, ``KNN k=200``, ``Energy + react:90``, ``KNN on layers``."""
        if self.name == EVERY_LAYER:
            more = [f"{key}={value}" for key, value in self.chosen.items() if key != "detector"]
            return " ".join([parse_spec(str(self.options.get("detector", "knn"))).label, "on layers", *more])
        words = [self.record.title, *(f"{key}={value}" for key, value in self.chosen.items())]
        if self.record.on_features is not FEATURES_AS_THEY_ARE and not self.asks_model:
            words.append(f"({self.record.on_features.mark})")
        return " ".join(words) + (f" + {self.shaping}" if self.shaping else "")

    @property
    def text(self) -> str:
        """The spec as `parse_spec` reads it."""
        query = urlencode(self.chosen, safe=":/?,+= ", quote_via=quote)
        return self.name + (f"?{query}" if query else "") + (f"+{self.shaping}" if self.shaping else "")

    @property
    def options(self) -> dict[str, Option]:
        return {**self.settings, **self.chosen}

    @cached_property
    def template(self) -> Detector:
        """The detector, made once and never fitted: what it is asked for is checked here."""
        return self.build()

    def checked(self) -> Self:
        """Itself, if its options are ones that the score takes."""
        _ = self.template
        return self

    def build(self) -> Detector:
        """A new detector, to be fitted."""
        shaping = None if self.shaping is None else parse_shaping(self.shaping)
        return create(self.name, **self.options, **({} if shaping is None else {"shaping": shaping}))

    def field_settings(self) -> dict[str, Option]:
        """What the benchmark asked of the score, without what stored features ask of it."""
        fixed = self.record.on_features.options
        return {key: value for key, value in self.settings.items() if key not in fixed}

    def published_options(self) -> dict[str, Option]:
        """The options as the published tables spell them; settings of the field count as plain."""
        options = {**self.chosen, **({} if self.asks_model else self.record.on_features.options)}
        if self.shaping:
            name, _, percentile = self.shaping.partition(":")
            options["shaping"] = name
            if percentile:
                options["percentile"] = _value(percentile)
        return options


def parse_spec(text: str, *, settings: Settings | None = None, model: bool = False) -> DetectorSpec:
    """The spec that a text describes; refused if there is no such score or option.

    With a ``model`` a score may change its inputs; without, it takes its form on features.
    """
    # A name may itself end in + (ssd+, maha+): only a + before the name of a shaping separates.
    shaped = _SHAPED.search(text)
    shaping = shaped[1] if shaped else None
    head, _, query = text[: shaped.start() if shaped else None].partition("?")
    record = detector_record(head.strip())
    takes = inspect.signature(record.detector.__init__).parameters
    # A + is a sign of its own here (maha+), and no blank.
    chosen = {key: _value(value) for key, value in parse_qsl(query.replace("+", "%2B"))}
    unknown = sorted(set(chosen) - set(takes))
    if unknown:
        known = ", ".join(name for name in takes if name not in ("self", "shaping")) or "none"
        raise InputError(f"{text}: {record.title} has no option {unknown[0]!r}; options: {known}")
    here = {} if model else record.on_features.options
    fixed = sorted(key for key in set(chosen) & set(here) if chosen[key] != here[key])
    if fixed:
        raise InputError(f"{text}: {fixed[0]} has no effect here, features are those of unchanged inputs")
    given = {**here, **(settings or {}).get(record.name, {})}
    spec = DetectorSpec(record.name, chosen, given, shaping).checked()
    return spec if spec.template.model_score is None else replace(spec, asks_model=True)


def parse_specs(
    texts: Sequence[str],
    *,
    shapings: Sequence[str] = (),
    settings: Settings | None = None,
    model: bool = False,
    layers: bool = False,
) -> list[DetectorSpec]:
    """Specs in the order given, all registered scores if none is; then each again behind every shaping.

    With a ``model``, a score named that changes its inputs stands there twice: so, and in its form on
    features. With several ``layers``, scores that need no head are there once more, on every layer.
    """
    plain = []
    for text in texts or list_detectors():
        forms = [parse_spec(text, settings=settings, model=model and bool(texts))]
        fixed = set(forms[0].record.on_features.options)
        if forms[0].asks_model and fixed and not fixed & set(forms[0].chosen):
            forms.append(parse_spec(text, settings=settings))
        plain += forms
    for shaping in shapings:
        parse_shaping(shaping)
        plain += [
            replace(spec, shaping=shaping)
            for spec in [spec for spec in plain if spec.shaping is None and not spec.template.of_layers]
        ]
    if layers:
        plain += [on_every_layer(spec) for spec in plain if _needs_no_head(spec)]
    labels = [spec.label for spec in plain]
    doubled = sorted({label for label in labels if labels.count(label) > 1})
    if doubled:
        raise InputError(f"{', '.join(doubled)} would stand in the table twice: name every score once")
    return plain


def on_every_layer(spec: DetectorSpec) -> DetectorSpec:
    """The same score on every layer."""
    inner = replace(spec, chosen=spec.options, settings={})
    return DetectorSpec(EVERY_LAYER, {"detector": inner.text}).checked()


def _needs_no_head(spec: DetectorSpec) -> bool:
    """Whether a layer before the last can be scored so."""
    if spec.template.of_layers or spec.shaping is not None:
        return False
    try:
        on_every_layer(spec)
    except InputError:
        return False
    return True


def spec_text(detector: Detector) -> str:
    """The spec of a detector at hand, as `parse_spec` reads it: options that are not its defaults."""
    usual = type(detector)().options()
    chosen = {key: value for key, value in detector.options().items() if value != usual[key]}
    shaping = chosen.pop("shaping", None)
    query = urlencode(chosen, quote_via=quote)
    return detector.record.name + (f"?{query}" if query else "") + (f"+{shaping}" if shaping else "")


def _value(text: str) -> Option:
    """A number where it is one, a truth value where it is one, else the text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text.lower(), text)
