"""`oe:mnist`: the MNIST ConvNet of Outlier Exposure (Hendrycks et al., ICLR 2019); its weights are a file."""

from __future__ import annotations

from ...core.errors import InputError, ModelError
from ..nets.convnet import ConvNet
from ..preprocess import Pixels
from ..registry import LoadedModel, Request, source

PREPROCESS = Pixels(size=28, mean=(0.0,), std=(1.0,))


@source("oe")
def load(request: Request) -> LoadedModel:
    if request.name != "mnist":
        raise InputError(f"oe has one model, mnist; got {request.name!r}")
    if request.fetch:
        raise ModelError(
            f"{request.spec}: the weights of this network are a file of the Outlier Exposure release and "
            f"cannot be fetched. Pass it with --weights baseline.safetensors"
        )
    model = ConvNet()
    request.fill(model)
    return LoadedModel(
        spec=request.spec,
        model=model,
        preprocess=PREPROCESS,
        preprocess_id=repr(PREPROCESS),
        input_shape=PREPROCESS.input_shape,
        layer="fc2",
        class_names=tuple("0123456789"),
    )
