"""`net:NAME`: networks of our own, for `theodolite train` and for the weights that it writes.

They have no weights of a release: pass those of a training with --weights FILE.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from torch import nn

from ...core.errors import InputError, ModelError, did_you_mean
from ..identity import STEM
from ..nets.convnet import ConvNet
from ..nets.lenet import LeNet5
from ..nets.resnet import cifar_resnet, resnet18, resnet50
from ..preprocess import Pixels
from ..registry import LoadedModel, Request, source

_CIFAR_MEAN, _CIFAR_STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
_CLASSES = 10


@dataclass(frozen=True)
class Network:
    """One architecture: how it is built from classes, channels and the stride of its first convolution, the
    side of its pictures, its head.

    ``channels`` are those it can take, the usual number first; pictures of another size fit only if
    ``any_size``, and strides above 1 only if ``strides``.
    """

    build: Callable[[int, int, int], nn.Module]
    size: int
    layer: str
    channels: tuple[int, ...]
    any_size: bool
    strides: bool = False


def _residual(build: Callable[..., nn.Module]) -> Network:
    return Network(
        lambda classes, channels, stride: build(classes, image_channels=channels, stem_stride=stride),
        32,
        "fc",
        (3, 1),
        any_size=True,
        strides=True,
    )


NETWORKS = {
    **{f"resnet{layers}": _residual(partial(cifar_resnet, layers)) for layers in (20, 32, 44, 56, 110)},
    "resnet18": _residual(partial(resnet18, cifar_stem=True)),
    "resnet50": _residual(partial(resnet50, cifar_stem=True)),
    "lenet5": Network(lambda classes, *_: LeNet5(classes), 28, "head", (1,), any_size=False),
    "convnet": Network(lambda classes, *_: ConvNet(classes), 28, "fc2", (1,), any_size=False),
}


@source("net", options=("num_classes", "channels", "stem_stride"))
def load(request: Request) -> LoadedModel:
    known = NETWORKS.get(request.name)
    if known is None:
        hint = did_you_mean(request.name, NETWORKS)
        raise InputError(f"net has no network {request.name!r}{hint} It has: {', '.join(NETWORKS)}")
    if request.fetch:
        raise ModelError(
            f"{request.spec}: networks of our own have no weights of a release. Pass those of a training, "
            f"--weights model.safetensors, or make some: theodolite train --model {request.spec}"
        )
    channels = request.integer("channels")
    channels = known.channels[0] if channels is None else channels
    if channels not in known.channels:
        raise InputError(
            f"{request.spec}: option channels must be {' or '.join(map(str, known.channels))}, got {channels}"
        )
    if not known.any_size and request.size not in (None, known.size):
        raise InputError(
            f"{request.spec}: pictures of this network have side {known.size}, got {request.size}"
        )
    stride = request.integer("stem_stride")
    stride = 1 if stride is None else stride
    if stride not in ((1, 2) if known.strides else (1,)):
        takes = "1 or 2" if known.strides else "1 for this network"
        raise InputError(f"{request.spec}: option stem_stride must be {takes}, got {stride}")
    classes = _CLASSES if request.num_classes is None else request.num_classes
    if classes < 2:
        raise InputError(f"{request.spec}: a classifier has at least two classes, got num_classes={classes}")
    model = known.build(classes, channels, stride)
    request.fill(model)
    pixels = (
        Pixels(size=known.size, mean=_CIFAR_MEAN, std=_CIFAR_STD)
        if channels == len(_CIFAR_MEAN)
        else Pixels(size=known.size, mean=(0.0,), std=(1.0,))
    )
    return LoadedModel(
        spec=request.spec,
        model=model,
        preprocess=pixels,
        # Weights fit either stride: what features are known by has to say which it was.
        preprocess_id=repr(pixels) if stride == 1 else f"{pixels!r}, {STEM} {stride}",
        input_shape=pixels.input_shape,
        layer=known.layer,
    )
