"""Capture finds the head, leaves the model as it was, and refuses where the logits are not the head's."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from theodolite import Head
from theodolite.core.errors import CaptureError
from theodolite.features.capture import Capture

IMAGES = torch.rand(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))


def body(width: int = 6) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(3, width, 3), nn.BatchNorm2d(width), nn.ReLU())


def pooled(*end: nn.Module) -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(body(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), *end)


class Then(nn.Module):
    """A classifier and something after it."""

    def __init__(self, model: nn.Module, after: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.model, self.after = model, after

    def forward(self, images: Tensor) -> object:
        return self.after(self.model(images))


class TwoHeads(nn.Module):
    def __init__(self, *, merge: str) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.body, self.one, self.two = pooled(), nn.Linear(6, 5), nn.Linear(6, 5)
        if merge == "equal":
            self.two.load_state_dict(self.one.state_dict())
        self.merge = merge

    def forward(self, images: Tensor) -> object:
        features = self.body(images)
        one, two = self.one(features), self.two(features)
        return {"tuple": (one, two), "mean": (one + two) / 2, "equal": two, "second": two}[self.merge]


unit = nn.functional.normalize


class CosineLinear(nn.Linear):
    def forward(self, features: Tensor) -> Tensor:
        return nn.functional.linear(unit(features), unit(self.weight))


def assert_captures(model: nn.Module, layer: str, width: int, classes: int = 5) -> None:
    capture = Capture(model)
    features, logits = capture(IMAGES)
    assert capture.layer == layer
    assert features.shape == (4, width)
    assert logits.shape == (4, classes)
    assert not features.requires_grad
    assert torch.allclose(capture.head(features), logits, atol=1e-5)
    with torch.no_grad():
        assert torch.allclose(model.eval()(IMAGES).flatten(1), logits)


@pytest.mark.parametrize("bias", [True, False])
def test_linear_head_after_pool_and_flatten(bias: bool) -> None:
    assert_captures(pooled(nn.Dropout(0.5), nn.Linear(6, 5, bias=bias)), "4", 6)


def test_the_last_of_several_linear_layers() -> None:
    assert_captures(pooled(nn.Linear(6, 7), nn.ReLU(), nn.Linear(7, 5)), "5", 7)


def test_linear_layers_of_the_same_width_do_not_confuse() -> None:
    assert_captures(pooled(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 5)), "5", 5)


def test_convolution_head_after_pool() -> None:
    assert_captures(nn.Sequential(body(), nn.AdaptiveAvgPool2d(1), nn.Conv2d(6, 5, 1), nn.Flatten()), "2", 6)


def test_convolution_head_before_pool() -> None:
    assert_captures(nn.Sequential(body(), nn.Conv2d(6, 5, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()), "1", 6)


def test_convolution_head_that_keeps_its_positions() -> None:
    assert_captures(nn.Sequential(body(), nn.AdaptiveAvgPool2d(1), nn.Conv2d(6, 5, 1)), "2", 6)


def test_head_on_a_token_axis() -> None:
    tokens = nn.Sequential(body(), nn.Flatten(2))
    head = nn.Linear(6, 5)
    model = Then(nn.ModuleList([tokens, head]), lambda logits: logits)
    model.forward = lambda images: head(tokens(images).transpose(1, 2)).mean(1)  # type: ignore[method-assign]
    assert_captures(model, "model.1", 6)


def test_outputs_with_a_logits_field() -> None:
    capture = Capture(Then(pooled(nn.Linear(6, 5)), lambda logits: {"logits": logits}))
    assert capture(IMAGES)[1].shape == (4, 5)


def test_our_own_cosine_head() -> None:
    model = pooled(Head.cosine(torch.randn(5, 6)))
    capture = Capture(model)
    features, logits = capture(IMAGES)
    assert capture.layer == ""
    assert capture.head.unit_features
    assert torch.allclose(capture.head(features), logits)


def test_one_image() -> None:
    assert Capture(pooled(nn.Linear(6, 5)))(IMAGES[:1])[0].shape == (1, 6)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_precision_of_the_model(dtype: torch.dtype) -> None:
    features, logits = Capture(pooled(nn.Linear(6, 5)).to(dtype))(IMAGES.to(dtype))
    assert features.dtype == logits.dtype == dtype


def test_autocast() -> None:
    capture = Capture(pooled(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 50)))
    with torch.autocast("cpu", torch.bfloat16):
        features, logits = capture(IMAGES)
    assert torch.allclose(capture.head(features.float()), logits.float(), atol=0.05)


def test_temperature_shows_even_in_half_precision() -> None:
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(CaptureError, match="temperature of 2"):
        Capture(Then(pooled(nn.Linear(6, 5)), lambda logits: logits / 2))(IMAGES)


# ---------------------------------------------------------------------- explicit layer


def test_explicit_layer_is_known_at_once() -> None:
    capture = Capture(pooled(nn.Linear(6, 5)), layer="3")
    assert (capture.layer, capture.head.width) == ("3", 6)
    assert capture(IMAGES)[0].shape == (4, 6)


def test_explicit_layer_chooses_between_equal_heads() -> None:
    model = TwoHeads(merge="equal")
    with pytest.raises(CaptureError, match="2 layers give the model's logits: 'one', 'two'"):
        Capture(model)(IMAGES)
    assert Capture(model, layer="two")(IMAGES)[0].shape == (4, 6)


def test_the_used_head_of_two_is_found() -> None:
    assert_captures(TwoHeads(merge="second"), "two", 6)


@pytest.mark.parametrize(
    ("layer", "message"), [("9", "is no layer of the model"), ("1", "is a AdaptiveAvgPool2d")]
)
def test_explicit_layer_must_be_linear(layer: str, message: str) -> None:
    with pytest.raises(CaptureError, match=message):
        Capture(pooled(nn.Linear(6, 5)), layer=layer)


def test_explicit_layer_that_is_not_the_head() -> None:
    with pytest.raises(CaptureError, match="it is not the model's head"):
        Capture(pooled(nn.Linear(6, 7), nn.ReLU(), nn.Linear(7, 5)), layer="3")(IMAGES)


def test_explicit_layer_that_never_runs() -> None:
    unused = TwoHeads(merge="second")
    unused.three = nn.Linear(6, 5)
    with pytest.raises(CaptureError, match="is not used when the model runs"):
        Capture(unused, layer="three")(IMAGES)


def test_head_is_unknown_before_the_first_batch() -> None:
    with pytest.raises(CaptureError, match="call the capture on one batch first"):
        _ = Capture(pooled(nn.Linear(6, 5))).head


# ---------------------------------------------------------------------- refusals

REFUSED = {
    "temperature": (Then(pooled(nn.Linear(6, 5)), lambda x: x / 2.5), r"temperature of 2\.5"),
    "softmax": (Then(pooled(nn.Linear(6, 5)), lambda x: x.softmax(1)), "a softmax follows it"),
    "log-softmax": (pooled(nn.Linear(6, 5), nn.LogSoftmax(1)), "a log-softmax follows it"),
    "norm after the head": (pooled(nn.Linear(6, 5), nn.LayerNorm(5)), "a norm, an activation"),
    "norm inside the head": (pooled(CosineLinear(6, 5)), "a norm of features or weights"),
    "sum of heads": (TwoHeads(merge="mean"), "2 heads with 5 outputs"),
    "tuple of heads": (TwoHeads(merge="tuple"), "returns 2 outputs"),
    "no linear layer": (nn.Sequential(nn.Conv2d(3, 5, 8), nn.Flatten()), "no linear head found"),
    "no head of that width": (Then(pooled(nn.Linear(6, 5)), lambda x: x[:, :3]), "no linear head found"),
    "dense output": (nn.Conv2d(3, 5, 1), r"shape \(4, 5, 8, 8\) for 4 inputs"),
    "one output": (pooled(nn.Linear(6, 1)), "at least two classes"),
    "not a tensor": (Then(pooled(nn.Linear(6, 5)), str), "returns str, not logits"),
    "NaN": (
        Then(pooled(nn.Linear(6, 5)), lambda x: x / 0 * 0),
        "NaN or infinity in rows 0, 1, 2, 3 of the batch",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_with_a_reason(case: str) -> None:
    model, message = REFUSED[case]
    capture = Capture(model)
    with pytest.raises(CaptureError, match=message) as caught:
        capture(IMAGES)
    assert "\n" not in str(caught.value)
    with pytest.raises(CaptureError, match="not known yet"):
        _ = capture.layer


class InPlace(nn.Module):
    """Divides the logits where they lie, and wipes the features after use."""

    def __init__(self, divisor: float) -> None:
        super().__init__()
        self.body, self.fc, self.divisor = pooled(), nn.Linear(6, 5), divisor

    def forward(self, images: Tensor) -> Tensor:
        features = self.body(images)
        logits: Tensor = self.fc(input=features)
        features.zero_()
        return logits.div_(self.divisor)


def test_what_the_model_overwrites_is_kept() -> None:
    assert_captures(InPlace(1.0), "fc", 6)
    with pytest.raises(CaptureError, match="temperature of 4"):
        Capture(InPlace(4.0))(IMAGES)


def test_temperature_behind_a_named_layer() -> None:
    with pytest.raises(CaptureError, match=r"not the output of layer 'model\.3': they are 0\.5 times it"):
        Capture(Then(pooled(nn.Linear(6, 5)), lambda x: x / 2), layer="model.3")(IMAGES)


# ---------------------------------------------------------------------- nothing is left behind


class Fails(nn.Module):
    def forward(self, _: Tensor) -> Tensor:
        raise ZeroDivisionError("on purpose")


@pytest.mark.parametrize("fails", [False, True])
def test_model_is_left_as_it_was(fails: bool) -> None:
    model = pooled(nn.Linear(6, 5), Fails() if fails else nn.Identity())
    model.train()
    norm = next(module for module in model.modules() if isinstance(module, nn.BatchNorm2d)).eval()
    if not fails:
        model(IMAGES)[:, 0].sum().backward()
    modes = [module.training for module in model.modules()]
    grads = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
    running = norm.state_dict()["running_mean"].clone()
    if fails:
        with pytest.raises(ZeroDivisionError):
            Capture(model)(IMAGES)
    else:
        Capture(model)(IMAGES)
    assert [module.training for module in model.modules()] == modes
    assert not any(module._forward_hooks for module in model.modules())
    assert torch.is_grad_enabled()
    assert torch.equal(norm.state_dict()["running_mean"], running)
    assert all(p.requires_grad for p in model.parameters())
    for parameter, grad in zip(model.parameters(), grads, strict=True):
        if grad is None:
            assert parameter.grad is None
        else:
            assert parameter.grad is not None
            assert torch.equal(parameter.grad, grad)


def test_later_batches_use_one_hook_and_the_same_head() -> None:
    capture = Capture(pooled(nn.Linear(6, 5)))
    capture(IMAGES)
    head = capture.head
    features, logits = capture(IMAGES.flip(0))
    assert capture.head is head
    assert torch.allclose(head(features), logits, atol=1e-6)
