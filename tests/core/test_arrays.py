"""What comes in: numbers that mean what they say, or a refusal that says how to convert them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

import theodolite as th
from synthetic import make_problem
from theodolite.core.arrays import as_scores, as_tensor
from theodolite.core.errors import InputError

PROBLEM = make_problem()
ORA = th.ORA().fit(PROBLEM.train, PROBLEM.labels, head=PROBLEM.head)
INTEGERS = (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_are_not_features(dtype: type[np.generic]) -> None:
    whole = PROBLEM.test.numpy().astype(dtype)
    message = r"features must be floating-point numbers, got dtype .*int.*astype\('float32'\)"
    with pytest.raises(InputError, match=message):
        ORA.score(whole)
    with pytest.raises(InputError, match=message):
        th.ORA().fit(whole, PROBLEM.labels.numpy(), head=PROBLEM.head)
    with pytest.raises(InputError, match=message):
        th.KNN().fit([(whole, PROBLEM.labels.numpy())])
    with pytest.raises(InputError, match="features must be floating-point numbers, got dtype torch"):
        ORA.score(torch.from_numpy(whole))


def test_integers_are_not_logits() -> None:
    logits = PROBLEM.head(PROBLEM.test)
    with pytest.raises(InputError, match=r"logits must be floating-point numbers, got dtype torch\.int32"):
        ORA.score(PROBLEM.test, logits.int())
    with pytest.raises(InputError, match=r"logits must be real numbers, got dtype torch\.complex64"):
        ORA.score(PROBLEM.test, logits.to(torch.complex64))


@pytest.mark.parametrize("dtype", [torch.bool, torch.complex64, torch.complex128])
def test_truth_values_and_complex_numbers_are_not_features(dtype: torch.dtype) -> None:
    with pytest.raises(InputError, match=f"features must be real numbers, got dtype {dtype}"):
        ORA.score(PROBLEM.test.to(dtype))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble])
def test_every_width_of_float_is_a_feature(dtype: type[np.floating]) -> None:
    rows = PROBLEM.test.numpy().astype(dtype)
    np.testing.assert_allclose(ORA.score(rows), ORA.score(rows.astype(np.float64)), rtol=1e-4)


def test_a_mask_is_not_ignored() -> None:
    rows = np.ma.masked_array(PROBLEM.test.numpy())
    np.testing.assert_array_equal(ORA.score(rows), ORA.score(PROBLEM.test.numpy()))
    rows[3, 5] = np.ma.masked
    with pytest.raises(InputError, match=r"features hold 1 masked entries: .*features\.filled"):
        ORA.score(rows)
    labels = np.ma.masked_array(PROBLEM.labels.numpy(), mask=PROBLEM.labels.numpy() == 2)
    with pytest.raises(InputError, match="labels hold 50 masked entries"):
        th.MDS().fit(PROBLEM.train.numpy(), labels)
    with pytest.raises(InputError, match="scores hold 1 masked entries"):
        as_scores(np.ma.masked_array([1.0, 2.0], mask=[True, False]), "scores")


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: PROBLEM.test.to_sparse(), "must be an ordinary tensor, got layout torch.sparse_coo"),
        (lambda: PROBLEM.test.to_sparse_csr(), "must be an ordinary tensor, got layout torch.sparse_csr"),
        (lambda: PROBLEM.test.to("meta"), "must be an ordinary tensor, got one without numbers"),
        (lambda: np.array([["a"] * 48]), "must be numeric, got an array of dtype <U1"),
        (lambda: np.array([[None] * 48]), "must be numeric, got an array of dtype object"),
        (lambda: np.zeros((2, 48), "datetime64[s]"), "must be numeric, got an array of dtype datetime64"),
        (lambda: np.zeros((2, 48), [("x", "f4")]), "must be numeric, got an array of dtype"),
        (lambda: np.zeros((2, 48), np.clongdouble), "must be real numbers, got dtype torch.complex128"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_other_containers_are_refused_by_name(made: Callable[[], torch.Tensor], message: str) -> None:
    with pytest.raises(InputError, match=f"features {message}"):
        ORA.score(made())


def test_features_without_columns_are_refused() -> None:
    with pytest.raises(InputError, match=r"features have no columns: shape \(4, 0\)"):
        th.KNN().fit(np.zeros((4, 0), np.float32))


@pytest.mark.parametrize("dtype", [torch.complex64, torch.int64, torch.bool])
def test_a_head_has_real_weights(dtype: torch.dtype) -> None:
    weight, bias = PROBLEM.head.weight, PROBLEM.head.bias
    with pytest.raises(InputError, match=f"weight must be .* numbers, got dtype {dtype}"):
        th.Head(weight.to(dtype), bias)
    with pytest.raises(InputError, match=f"bias must be .* numbers, got dtype {dtype}"):
        th.Head(weight, bias.to(dtype))
    with pytest.raises(InputError, match=f"text_embeddings must be .* numbers, got dtype {dtype}"):
        th.Head.cosine(weight.to(dtype))


def test_byte_order_and_strides_do_not_matter() -> None:
    rows = PROBLEM.test.numpy()
    expected = ORA.score(rows)
    np.testing.assert_array_equal(ORA.score(rows.astype(">f4")), expected)
    np.testing.assert_allclose(ORA.score(rows[::-1])[::-1], expected, rtol=1e-6)
    np.testing.assert_array_equal(ORA.score(np.asfortranarray(rows)), expected)
    assert as_tensor(np.broadcast_to(np.float32(1), (3, 4)), "x").shape == (3, 4)
