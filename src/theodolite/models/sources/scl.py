"""`scl:NAME`: the ResNets of the supervised-contrastive comparisons, from the public checkpoint files.

The release of the KNN and fDBD authors stores an encoder (with a projection head that is not used here) and,
for the contrastive models, the linear head in a second file beside it. Put the files into the folder that
THEODOLITE_WEIGHTS names, or pass them: ``--weights encoder.pth`` and ``?linear=encoder_linear.pth``. An
encoder alone is ``?linear=none``: its output is the feature (`theodolite extract --no-head`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from ...core.errors import InputError, ModelError
from ...core.places import weights_folder
from ..checkpoint import StateDict, fill, linear_weights, probe_head, read_state_dict, strip_wrappers
from ..class_names import imagenet_names
from ..nets.resnet import ResNet, resnet18, resnet50
from ..preprocess import IMAGENET_MEAN, IMAGENET_STD, Pixels
from ..registry import LoadedModel, Request, source

_CIFAR = Pixels(size=32, mean=(0.4914, 0.4822, 0.4465), std=(0.2023, 0.1994, 0.2010))
_IMAGENET = Pixels(size=224, resize=256, mean=IMAGENET_MEAN, std=IMAGENET_STD)
_NO_HEAD = "none"
_CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


@dataclass(frozen=True)
class Backbone:
    """One network of the release: how it is built, which files hold it."""

    build: Callable[[int], ResNet]
    classes: int
    preprocess: Pixels
    encoder: str
    linear: str | None

    @property
    def files(self) -> tuple[str, ...]:
        return (self.encoder,) if self.linear is None else (self.encoder, self.linear)


BACKBONES = {
    "resnet18": Backbone(
        lambda classes: resnet18(classes, cifar_stem=True), 10, _CIFAR, "CIFAR10_resnet18.pth.tar", None
    ),
    "resnet18-supcon": Backbone(
        lambda classes: resnet18(classes, cifar_stem=True),
        10,
        _CIFAR,
        "CIFAR10_resnet18_supcon.pth.tar",
        "CIFAR10_resnet18_supcon_linear.pth",
    ),
    "resnet50-supcon": Backbone(
        resnet50, 1000, _IMAGENET, "ImageNet_resnet50_supcon.pth", "ImageNet_resnet50_supcon_linear.pth"
    ),
}


def present(name: str) -> bool:
    """Whether all files of the network are in the folder of released weights."""
    backbone = BACKBONES.get(name)
    return backbone is not None and all((weights_folder() / file).is_file() for file in backbone.files)


@source("scl", options=("linear", "num_classes"), present=present)
def load(request: Request) -> LoadedModel:
    backbone = BACKBONES.get(request.name)
    if backbone is None:
        raise InputError(f"scl has no model {request.name!r}; it has: {', '.join(BACKBONES)}")
    classes = request.num_classes or backbone.classes
    model = backbone.build(classes)
    alone = request.options.get("linear") == _NO_HEAD
    if alone:
        model.fc = nn.Identity()  # type: ignore[assignment]
    if request.pretrained or request.weights is not None:
        encoder = request.weights or _released(request, backbone.encoder)
        weights = encoder_weights(encoder)
        if alone:
            weights = {key: value for key, value in weights.items() if not key.startswith("fc.")}
        linear = None if alone else _linear_file(request, backbone, encoder)
        if linear is not None:
            if probe_head(linear, request.base).unit_features:
                raise ModelError(f"{linear} is a cosine head: {request.spec} ends in a linear layer")
            weights |= {f"fc.{key}": value for key, value in linear_weights(linear).items()}
        fill(model, weights, str(encoder))
    names = _CIFAR10 if backbone.preprocess is _CIFAR else imagenet_names()
    return LoadedModel(
        spec=request.spec,
        model=model,
        preprocess=backbone.preprocess,
        preprocess_id=repr(backbone.preprocess),
        input_shape=backbone.preprocess.input_shape,
        layer=None if alone else "fc",
        class_names=names if names is not None and len(names) == classes and not alone else None,
    )


def encoder_weights(path: Path) -> StateDict:
    """The encoder of a contrastive checkpoint, named like our ResNet; its projection head stays behind."""
    named = strip_wrappers(read_state_dict(path))
    bare = {key.removeprefix("encoder."): value for key, value in named.items()}
    return {key: value for key, value in bare.items() if not key.startswith("head.")}


def _released(request: Request, name: str) -> Path:
    path = weights_folder() / name
    if not path.is_file():
        raise ModelError(
            f"{request.spec}: its weights {path} are not on this machine. They are a file of the public "
            f"KNN/fDBD release: put {name} into that folder (THEODOLITE_WEIGHTS changes it), or pass "
            f"--weights FILE"
        )
    return path


def _linear_file(request: Request, backbone: Backbone, encoder: Path) -> Path | None:
    """The head's file: as named, or beside the encoder, or of the release; None where the encoder has it."""
    if "linear" in request.options:
        return Path(request.options["linear"])
    if backbone.linear is None:
        return None
    beside = encoder.with_name(encoder.name.removesuffix(".tar").removesuffix(".pth") + "_linear.pth")
    return beside if beside.is_file() else _released(request, backbone.linear)
