"""The head: construction from everything a user may hold, and its errors."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from theodolite import Head
from theodolite.core.errors import InputError
from theodolite.reference.head import unit_rows


def test_from_arrays_tensors_and_layers_alike() -> None:
    layer = nn.Linear(12, 5)
    features = torch.randn(7, 12)
    expected = layer(features).detach()
    weight, bias = layer.weight.detach(), layer.bias.detach()
    for head in (Head(weight, bias), Head(weight.numpy(), bias.numpy()), Head.from_linear(layer)):
        torch.testing.assert_close(head(features), expected)
        assert (head.classes, head.width) == (5, 12)
        assert not any(parameter.requires_grad for parameter in head.buffers())
    bare = nn.Linear(12, 5, bias=False)
    torch.testing.assert_close(Head.from_linear(bare)(features), bare(features).detach())


def test_the_head_does_not_follow_later_changes_of_the_layer() -> None:
    layer = nn.Linear(4, 3)
    head = Head.from_linear(layer)
    before = head.weight.clone()
    with torch.no_grad():
        layer.weight.add_(1)
    assert torch.equal(head.weight, before)


def test_half_precision_weights_are_widened_exactly() -> None:
    weight = torch.randn(4, 6).bfloat16()
    head = Head(weight, torch.randn(4).bfloat16())
    assert head.weight.dtype == torch.float32
    assert torch.equal(head.weight.bfloat16(), weight)


def test_cosine_head() -> None:
    texts, images = torch.randn(4, 10), torch.randn(6, 10) * 50
    head = Head.cosine(texts)
    expected = nn.functional.cosine_similarity(images[:, None], texts[None], dim=2)
    torch.testing.assert_close(head(images), expected)
    torch.testing.assert_close(head(images * 7), expected)
    torch.testing.assert_close(head.weight.norm(dim=1), torch.ones(4))
    assert (head.bias == 0).all()


def test_unit_rows_of_extreme_sizes() -> None:
    rows = torch.tensor([[3e30, 4e30], [3e-30, 4e-30], [0.0, 0.0]])
    torch.testing.assert_close(unit_rows(rows), torch.tensor([[0.6, 0.8], [0.6, 0.8], [0.0, 0.0]]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", ["huge", "tiny", "subnormal"])
def test_unit_rows_at_the_ends_of_the_format(dtype: torch.dtype, size: str) -> None:
    """The norm of such rows overflows or vanishes, the direction is there all the same."""
    limits = torch.finfo(dtype)
    row = torch.tensor([1.0, -1.0, 1.0, 1.0, 0.0], dtype=dtype)
    scale = {"huge": limits.max, "tiny": limits.tiny, "subnormal": limits.tiny / 2**12}[size]
    mixed = torch.stack([row * scale, row, 0 * row])
    expected = torch.stack([row / 2, row / 2, 0 * row])
    torch.testing.assert_close(unit_rows(mixed), expected, rtol=1e-6, atol=0)
    texts = Head.cosine(torch.stack([row * scale, -row]))
    torch.testing.assert_close(texts.weight, torch.stack([row / 2, -row / 2]), rtol=1e-6, atol=0)


def test_text_embeddings_must_have_a_direction() -> None:
    with pytest.raises(InputError, match="text_embeddings hold NaN or infinity in row 1"):
        Head.cosine(torch.tensor([[1.0, 2.0], [torch.nan, 1.0]]))
    with pytest.raises(InputError, match="text_embeddings row 0 is all zero"):
        Head.cosine(torch.tensor([[0.0, 0.0], [0.0, 1.0]]))


@pytest.mark.parametrize(
    ("weight", "bias", "message"),
    [
        (np.zeros(3), None, r"weight must have shape \(C, D\), got \(3,\)"),
        (np.zeros((1, 3)), None, "weight has 1 row: a decision boundary needs at least two classes"),
        (np.zeros((2, 3)), np.zeros(3), r"bias must have shape \(2,\), got \(3,\)"),
        (np.array([[0.0, np.nan], [0, 0]]), None, "weight hold NaN or infinity in row 0"),
        (np.zeros((2, 3)), np.array([0, np.inf]), "bias hold NaN or infinity in row 1"),
        (np.array([["a", "b"], ["c", "d"]]), None, "weight must be numeric"),
    ],
)
def test_errors_name_the_argument(weight: np.ndarray, bias: np.ndarray | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Head(weight, bias)


def test_cosine_errors() -> None:
    with pytest.raises(InputError, match="text_embeddings row 1 is all zero"):
        Head.cosine(torch.tensor([[1.0, 0.0], [0.0, 0.0]]))
    with pytest.raises(InputError, match=r"text_embeddings must have shape \(C, D\)"):
        Head.cosine(torch.zeros(4))
    with pytest.raises(InputError, match=r"layer must be an nn\.Linear, got Conv2d"):
        Head.from_linear(nn.Conv2d(3, 4, 1))  # type: ignore[arg-type]
