"""`torchvision:NAME` or `torchvision:NAME/WEIGHTS`: a classifier of torchvision and its weights."""

from __future__ import annotations

from ...core.compat import import_torchvision
from ...core.errors import InputError, did_you_mean
from ..preprocess import Rgb
from ..registry import LoadedModel, Request, canonical, source


@source("torchvision", options=("num_classes",))
def load(request: Request) -> LoadedModel:
    import_torchvision()
    from torchvision import models

    name, _, chosen = request.name.partition("/")
    known = models.list_models(module=models)
    if name not in known:
        raise InputError(f"torchvision has no classifier called {name!r}{did_you_mean(name, known)}")
    choices = models.get_model_weights(name)
    chosen = chosen or choices.DEFAULT.name
    if chosen not in choices.__members__:
        raise InputError(f"{name} has no weights {chosen!r}; it has: {', '.join(choices.__members__)}")
    weights = choices[chosen]
    classes = request.num_classes
    extra = {} if classes is None else {"num_classes": classes}
    with request.fetching():
        model = models.get_model(name, weights=weights if request.fetch else None, **extra)
    request.fill(model)
    transforms = weights.transforms()
    size = transforms.crop_size[0]
    return LoadedModel(
        spec=canonical("torchvision", f"{name}/{weights.name}", request.options),
        model=model,
        preprocess=Rgb(transforms),
        preprocess_id="torchvision " + " ".join(repr(transforms).split()),
        input_shape=(3, size, size),
        class_names=tuple(weights.meta["categories"]) if classes is None else None,
    )
