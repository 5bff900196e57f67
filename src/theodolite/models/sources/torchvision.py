"""`torchvision:NAME` or `torchvision:NAME/WEIGHTS`: a classifier of torchvision and its weights."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any

import torch

from ...core.compat import import_torchvision
from ...core.errors import InputError, MissingExtraError, did_you_mean
from ..preprocess import Pixels, Rgb
from ..registry import LoadedModel, Request, source, write_spec

# Files that torchvision fetches, written here so that a look at the paper's backbones need not import it.
FILES = {
    "resnet50/IMAGENET1K_V1": "resnet50-0676ba61.pth",
    "mobilenet_v2/IMAGENET1K_V1": "mobilenet_v2-b0353104.pth",
}


def present(name: str) -> bool:
    """Whether the file of the weights is where torch keeps what it fetched."""
    try:
        file = FILES.get(name) or PurePosixPath(_choose(name)[1].url).name
    except (InputError, MissingExtraError):
        return False
    return (Path(torch.hub.get_dir()) / "checkpoints" / file).is_file()


@source("torchvision", options=("num_classes",), present=present)
def load(request: Request) -> LoadedModel:
    name, weights = _choose(request.name)
    from torchvision import models

    classes = request.num_classes
    extra = {} if classes is None else {"num_classes": classes}
    if request.size is not None and name.startswith("vit_"):
        extra["image_size"] = request.size
    with request.fetching():
        model = models.get_model(name, weights=weights if request.fetch else None, **extra)
    request.fill(model)
    transforms = weights.transforms()
    size = transforms.crop_size[0]
    return LoadedModel(
        spec=write_spec("torchvision", f"{name}/{weights.name}", request.options),
        model=model,
        preprocess=Rgb(transforms),
        preprocess_id="torchvision " + " ".join(repr(transforms).split()),
        input_shape=(3, size, size),
        class_names=tuple(weights.meta["categories"]) if classes is None else None,
        pixels=Pixels(
            size=size,
            resize=transforms.resize_size[0],
            mean=tuple(transforms.mean),
            std=tuple(transforms.std),
            interpolation=transforms.interpolation.value,
        ),
    )


def _choose(name: str) -> tuple[str, Any]:
    """The architecture and the weights that `NAME` or `NAME/WEIGHTS` names."""
    import_torchvision()
    from torchvision import models

    architecture, _, chosen = name.partition("/")
    known = models.list_models(module=models)
    if architecture not in known:
        hint = did_you_mean(architecture, known)
        raise InputError(f"torchvision has no classifier called {architecture!r}{hint}")
    choices = models.get_model_weights(architecture)
    chosen = chosen or choices.DEFAULT.name
    if chosen not in choices.__members__:
        raise InputError(
            f"{architecture} has no weights {chosen!r}; it has: {', '.join(choices.__members__)}"
        )
    return architecture, choices[chosen]
