"""What a file of weights that `theodolite train` wrote says of itself: the pictures it expects, its classes.

Weights that fit a network say nothing of how its pictures were prepared, nor of its strides. A file that
knows it is compared with the model that it is loaded into.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from ..core.errors import ModelError
from ..core.files import format_of, read_tensors
from ..core.plain import JsonValue, from_plain
from .preprocess import Pixels

if TYPE_CHECKING:
    from .registry import LoadedModel

FORMAT = "theodolite-trained/1"
# Options of specs that change what a network computes and not which weights fit it, with their defaults.
_UNSEEN = {"stem_stride": "1"}


@dataclass(frozen=True)
class TrainedAs:
    """The header of trained weights: the model's spec, its pictures, its classes, how it was made."""

    spec: str
    layer: str
    pixels: str
    class_names: tuple[str, ...] | None
    training: dict[str, JsonValue]


def trained_as(path: Path) -> TrainedAs | None:
    """What the file says, if it is one of `theodolite train`; a damaged one is refused."""
    if path.suffix != ".safetensors" or format_of(path) != FORMAT:
        return None
    _, said = read_tensors(path, FORMAT)
    return from_plain(TrainedAs, {key: value for key, value in said.items() if key != "format"}, str(path))


def as_trained(loaded: LoadedModel, path: Path) -> LoadedModel:
    """The model with the names of its classes and of its head, where the file of its weights knows them.

    Weights of a network that was trained on pictures prepared otherwise, or with another stride, are refused.
    """
    known = trained_as(path)
    if known is None:
        return loaded
    pixels = loaded.preprocess if isinstance(loaded.preprocess, Pixels) else loaded.pixels
    if repr(pixels) != known.pixels:
        raise ModelError(
            f"{path} was trained as {known.spec} with {known.pixels}, but {loaded.spec} prepares pictures by "
            f"{'code of its own' if pixels is None else pixels}: its answers would be wrong. Load it as "
            f"--model '{known.spec}' --weights {path}"
        )
    same_source = known.spec.partition(":")[0] == loaded.spec.partition(":")[0]
    for option, usual in _UNSEEN.items() if same_source else ():
        trained, asked = (_option(spec, option, usual) for spec in (known.spec, loaded.spec))
        if trained != asked:
            raise ModelError(
                f"{path} was trained as {known.spec}, with {option}={trained}, but {loaded.spec} has "
                f"{option}={asked}: the weights fit, and its answers would be wrong. Load it as "
                f"--model '{known.spec}' --weights {path}"
            )
    return replace(
        loaded, class_names=known.class_names or loaded.class_names, layer=loaded.layer or known.layer
    )


def _option(spec: str, option: str, usual: str) -> str:
    """An option of a spec, or the usual one."""
    return str(dict(parse_qsl(spec.partition("?")[2])).get(option, usual))
