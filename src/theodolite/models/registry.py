"""The registry of sources that load a model by its spec: ``source:name?option=value``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias
from urllib.parse import parse_qsl, quote

from torch import nn

from ..core.addresses import is_address
from ..core.errors import InputError, ModelError, TheodoliteError
from ..data.sample import PICTURES
from .cards import resolve
from .checkpoint import load_weights
from .identity import renamed
from .loaded import Collate as Collate
from .loaded import LoadedModel as LoadedModel
from .loaded import Preprocess as Preprocess
from .preprocess import Pixels
from .preprocess_options import PREPROCESS_OPTIONS, changed, tidy, whole
from .prompts import TextEncoder
from .trained import as_trained


@dataclass(frozen=True)
class Request:
    """What was asked of a source."""

    spec: str
    name: str
    pretrained: bool = True
    weights: Path | None = None
    options: dict[str, str] = field(default_factory=dict)

    @property
    def fetch(self) -> bool:
        """Whether the source brings the weights itself."""
        return self.pretrained and self.weights is None

    def fill(self, model: nn.Module) -> None:
        """Load the weights file that came with the request, if any."""
        if self.weights is not None:
            load_weights(model, self.weights)

    def integer(self, option: str) -> int | None:
        """An option that must be a whole number."""
        value = self.options.get(option)
        if value is None:
            return None
        if not value.isdecimal():
            raise InputError(f"{self.spec}: option {option} must be a whole number, got {value!r}")
        return int(value)

    @property
    def size(self) -> int | None:
        """Another side of the input than the source's, for networks that are built for one."""
        return whole(self.options, "size", self.spec) if "size" in self.options else None

    @property
    def num_classes(self) -> int | None:
        """Another number of classes than the source's weights have, for weights of one's own."""
        classes = self.integer("num_classes")
        if classes is not None and self.fetch:
            raise InputError(
                f"{self.spec}: num_classes puts a new head on the model, and no weights are given for it. "
                f"Pass the fine-tuned checkpoint with --weights FILE, or leave num_classes out"
            )
        return classes

    @property
    def base(self) -> str:
        """The model without its options; a folder is named in full, as it is from everywhere."""
        prefix, _, name = self.spec.partition("?")[0].partition(":")
        return f"{prefix}:{Path(name).resolve() if Path(name).is_dir() else name}"

    @contextmanager
    def fetching(self, hint: str = "") -> Iterator[None]:
        """Turn whatever a third party raises while it builds or downloads into one paragraph."""
        try:
            yield
        except TheodoliteError:
            raise
        except Exception as error:
            reason = " ".join(str(error).split())[:200] or "no reason given"
            problem = (
                "its weights are not on this machine and could not be fetched, or do not fit"
                if self.fetch
                else "it could not be built"
            )
            raise ModelError(
                f"{self.spec}: {problem} ({type(error).__name__}: {reason}). Check the name and the "
                f"connection{hint}, or pass a checkpoint you have with --weights FILE (.safetensors or .pt)"
            ) from error


Loader: TypeAlias = Callable[[Request], LoadedModel]
TextLoader: TypeAlias = Callable[[Request], TextEncoder]


def _cannot_tell(_: str) -> bool:
    return False


@dataclass(frozen=True)
class Source:
    """One source of models: its prefix, its loader, the options it understands, and what it has here.

    ``text`` loads the text half of a model of pictures and texts, for sources that have such models.
    """

    prefix: str
    load: Loader
    options: tuple[str, ...]
    present: Callable[[str], bool]
    text: TextLoader | None = None


_sources: dict[str, Source] = {}


def source(
    prefix: str,
    *,
    options: tuple[str, ...] = (),
    present: Callable[[str], bool] = _cannot_tell,
    text: TextLoader | None = None,
) -> Callable[[Loader], Loader]:
    """Function decorator: enter a loader under the prefix of its specs.

    ``present(name)`` says whether the weights of a model are on this machine, and fetches nothing to find
    out; a source without it has none that it knows of. ``text`` loads the text half of its models.
    """

    def enter(load: Loader) -> Loader:
        known = _sources.get(prefix)
        if known is not None and known.load.__module__ != load.__module__:
            raise InputError(
                f"the source {prefix!r} is taken by {known.load.__module__}: choose another prefix"
            )
        _sources[prefix] = Source(prefix, load, options, present, text)
        return load

    return enter


def list_sources() -> list[str]:
    """The prefixes a spec can begin with."""
    return sorted(_sources)


def load_model(
    spec: str, *, weights: str | Path | None = None, pretrained: bool = True, **options: object
) -> LoadedModel:
    """The model that ``spec`` names: ``source:name``, or an alias of the paper's backbones.

    ``weights`` is a checkpoint of your own in place of the source's; ``pretrained=False`` leaves the weights
    random. ``options`` are the same as ``?option=value`` at the end of the spec.

    >>> loaded = th.load_model("net:lenet5?num_classes=4", pretrained=False)
    >>> loaded.model(torch.zeros(2, *loaded.input_shape)).shape  # with weights: "timm:resnet18", "lite0", …
    torch.Size([2, 4])
    """
    known, request = request_for(spec, weights, pretrained=pretrained, **options)
    merged = request.options
    # What a source declares itself, it also does itself.
    asked = {key: merged[key] for key in PREPROCESS_OPTIONS if key in merged and key not in known.options}
    loaded = _prepared_as(known.load(request), asked, request.spec)
    loaded.model.eval()
    return loaded if request.weights is None else as_trained(loaded, request.weights)


def request_for(
    spec: str, weights: str | Path | None = None, *, pretrained: bool = True, **options: object
) -> tuple[Source, Request]:
    """The source that a spec names, and what is asked of it; options that it does not take are refused."""
    known, name, given = _parse(spec)
    prefix = known.prefix
    merged = given | {key: tidy(key, _text(value)) for key, value in options.items() if value is not None}
    takes = list(dict.fromkeys((*known.options, *PREPROCESS_OPTIONS)))
    unknown = sorted(set(merged) - set(takes))
    if unknown:
        raise InputError(f"{prefix} models take no option {unknown[0]!r}; options: {', '.join(takes)}")
    path = None if weights is None else Path(weights)
    return known, Request(write_spec(prefix, name, merged), name, pretrained, path, merged)


def takes_option(spec: str, option: str) -> bool:
    """Whether the source of a spec understands an option, and the spec does not have it already."""
    known, _, given = _parse(spec)
    return option in known.options and option not in given


def _prepared_as(loaded: LoadedModel, options: dict[str, str], spec: str) -> LoadedModel:
    """The model with a preprocessing that options of its spec change; they are part of spec and id."""
    if not options:
        return loaded
    if loaded.takes != PICTURES:
        raise InputError(f"{spec}: option {next(iter(options))} is of pictures, and it takes {loaded.takes}")
    own = loaded.preprocess if isinstance(loaded.preprocess, Pixels) else loaded.pixels
    pixels = changed(own, options, spec)
    return replace(
        loaded,
        preprocess=pixels,
        preprocess_id=renamed(loaded.preprocess_id, repr(pixels)),
        former_ids=tuple(renamed(former, repr(pixels)) for former in loaded.former_ids),
        input_shape=pixels.input_shape,
        pixels=pixels,
    )


def _text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def weights_present(spec: str) -> bool:
    """Whether the weights of the model that ``spec`` names are on this machine; its source is asked."""
    known, name, _ = _parse(spec)
    return known.present(name)


def canonical_spec(spec: str) -> str:
    """The spec of the model that ``spec`` names, in its one spelling: aliases resolved, options sorted."""
    known, name, options = _parse(spec)
    return write_spec(known.prefix, name, options)


def names_model(asked: str, stored: str) -> bool:
    """Whether a spec names a stored model: a source may have added the name of its default weights."""
    (name, _, query), (wanted, _, given) = stored.partition("?"), canonical_spec(asked).partition("?")
    same = _options(query, stored) == _options(given, asked)
    return same and (name == wanted or name.startswith(wanted + "/"))


def _parse(spec: str) -> tuple[Source, str, dict[str, str]]:
    prefix, colon, rest = resolve(spec).partition(":")
    known = _sources.get(prefix)
    if not colon or not rest or known is None:
        raise InputError(_unknown(spec))
    name, _, query = rest.partition("?")
    return known, name, _options(query, spec)


def _unknown(spec: str) -> str:
    """What a spec that names no model may have been meant as."""
    if is_address(spec):
        return (
            f"model {spec!r} is a web address, and nothing is fetched from it: download the weights, and "
            f"name the architecture, --model timm:NAME --weights FILE"
        )
    if Path(spec).is_file():
        return (
            f"model {spec!r} is a file: name the architecture that it holds the weights of, "
            f"--model timm:NAME --weights {spec}; a network of your own is --model python:module:factory"
        )
    return (
        f"model {spec!r} is neither an alias (theodolite models lists them) nor of the form source:name; "
        f"sources: {', '.join(list_sources())}"
    )


def _options(query: str, spec: str) -> dict[str, str]:
    """The options of a spec, each in its one spelling."""
    pairs = parse_qsl(query, keep_blank_values=True)
    named = [key for key, _ in pairs]
    for key, value in pairs:
        if named.count(key) > 1:
            raise InputError(f"{spec}: option {key} is given twice")
        if not value:
            raise InputError(f"{spec}: option {key} has no value: write {key}=…, or leave it out")
    return {key: tidy(key, value) for key, value in pairs}


def write_spec(prefix: str, name: str, options: dict[str, str]) -> str:
    """The one spelling of a spec: options sorted and escaped."""
    query = "&".join(f"{key}={quote(options[key], safe='/,. {}')}" for key in sorted(options))
    return f"{prefix}:{name}" + (f"?{query}" if query else "")
