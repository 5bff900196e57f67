"""What ONNX lacks, composed of what it has: against NumPy and Python's own mathematics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from theodolite.guard.export.quiet import quiet
from theodolite.guard.export.translations import OPSET, translations

ort = pytest.importorskip("onnxruntime", reason="pip install 'theodolite[onnx]'")
pytest.importorskip("onnxscript", reason="pip install 'theodolite[onnx]'")
pytestmark = pytest.mark.usefixtures("operators_once")


class Function(nn.Module):
    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *given: Tensor) -> Tensor:
        return self.function(*given)


def in_onnx(function: Callable[..., Tensor], *given: Tensor) -> Any:
    program: Any = torch.onnx.export(
        Function(function).eval(),
        given,
        dynamo=True,
        opset_version=OPSET,
        verbose=False,
        custom_translation_table=translations(),
    )
    session = ort.InferenceSession(program.model_proto.SerializeToString())
    names = [one.name for one in session.get_inputs()]
    return session.run(None, dict(zip(names, (one.numpy() for one in given), strict=True)))[0]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with quiet():
        yield


def test_the_arctangent_in_every_quadrant() -> None:
    rng = np.random.default_rng(0)
    sizes = 10.0 ** rng.uniform(-12, 12, (2, 20_000))
    y, x = torch.from_numpy(sizes * rng.choice([-1, 1], sizes.shape))
    edges = torch.tensor([0.0, 1.0, -1.0, 1e-300, 1e300, -1e300], dtype=torch.float64)
    y = torch.cat([y, edges.repeat(len(edges)), torch.tan(torch.linspace(0, 1.57, 500, dtype=torch.float64))])
    x = torch.cat([x, edges.repeat_interleave(len(edges)), torch.ones(500, dtype=torch.float64)])
    found = in_onnx(torch.atan2, y, x)
    np.testing.assert_allclose(found, np.arctan2(y.numpy(), x.numpy()), rtol=2e-15)
    single = in_onnx(torch.atan2, y[:20_000].float(), x[:20_000].float())
    assert single.dtype == np.float32
    right = np.arctan2(y[:20_000].float().double().numpy(), x[:20_000].float().double().numpy())
    np.testing.assert_allclose(single, right, rtol=6.1e-8)


def test_the_logarithm_of_one_and_little() -> None:
    rng = np.random.default_rng(1)
    small = 10.0 ** rng.uniform(-300, 0, 10_000)
    x = torch.from_numpy(np.concatenate([small, -small[small < 0.99], 10.0 ** rng.uniform(0, 300, 1_000)]))
    edges = torch.tensor([0.0, -1.0, torch.inf], dtype=torch.float64)
    x = torch.cat([x, edges, torch.tensor([-1 + 1e-6, -0.5, 3e-4], dtype=torch.float64)])
    np.testing.assert_allclose(in_onnx(torch.log1p, x), torch.log1p(x).numpy(), rtol=1e-15)
    single = in_onnx(torch.log1p, x.float())
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, torch.log1p(x.float().double()).float().numpy(), rtol=1.2e-7)
    assert np.isnan(in_onnx(torch.log1p, torch.tensor([-2.0, torch.nan]))).all()


@pytest.mark.parametrize(
    ("count", "dtype"),
    [(1, torch.float64), (7, torch.float64), (8, torch.int64), (1_000, torch.float64), (1_000, torch.int64)],
)
def test_the_search_counts_exactly(count: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(count)
    known = torch.randint(-50, 50, (count,), generator=generator).to(dtype).sort().values
    if dtype == torch.float64:  # neighbours that float32 could not tell apart
        known = (known + 1e-12 * torch.rand(count, generator=generator, dtype=dtype)).sort().values
    ends = known[[0, -1]]
    values = torch.cat([known, known - 1, known + 1, 10 * ends - 1000, 10 * ends + 1000])
    if dtype == torch.float64:
        values = torch.cat([values, torch.nextafter(known, torch.tensor(-torch.inf, dtype=dtype))])
    found = in_onnx(lambda held, asked: torch.searchsorted(held, asked, right=True), known, values)
    np.testing.assert_array_equal(found, np.searchsorted(known.numpy(), values.numpy(), side="right"))


def test_a_search_of_another_kind_is_not_translated() -> None:
    held, asked = torch.arange(5.0), torch.rand(3)
    with pytest.raises(Exception, match=r"Failed to convert|right=True alone"):
        in_onnx(lambda held, asked: torch.searchsorted(held, asked, right=False), held, asked)
