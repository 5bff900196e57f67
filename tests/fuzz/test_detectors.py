"""Every score on whatever arrays and options there are: a score without NaN, or an error of ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import theodolite as th
from fuzzing import ArrayPlan, array_plans, cases, count
from theodolite.core.errors import TheodoliteError
from theodolite.detectors._options import option_kinds
from theodolite.detectors.shaping import SHAPINGS

NUMBERS: tuple[object, ...] = (
    0, 1, 2, 3, 7, -1, 10**6, 2**70, 0.0, 0.5, 0.9, 1.0, 1e-300, 1e300, 1e-9, 50.0, 99.9, 100.0,
    float("nan"), float("inf"), -0.5, True, False, None, "1", "maybe", "mean",
)  # fmt: skip
WORDS: tuple[object, ...] = (
    "mean", "max", "min", "median", "predicted", "target", "sum-classes", "sum-extremes", "rms", "euclidean",
    "mahalanobis", "oas", "none", "variance", "accuracy", "", "nonsense", None, 0, 1, 9,
)  # fmt: skip
TYPES = {bool: (True, False, "maybe", 1), str: WORDS}
# Values that are meant, so that most cases get as far as a score.
MEANT: dict[str, tuple[object, ...]] = {
    "centre": (*WORDS[:8], 0, 1),
    "aggregate": ("max", "mean", "rms", "min"),
    "metric": ("euclidean", "mahalanobis"),
    "shrinkage": ("oas", "none"),
    "class_weights": (None, "variance", "accuracy"),
    "fraction": (1e-9, 0.01, 0.5, 1.0),
    "variance": (1e-9, 0.5, 1.0),
    "dimension": (None, 1, 2, 7),
    "temperature": (1e-300, 1e-9, 0.5, 1.0, 1000.0, 1e300),
    "noise": (0.0, 1e-9, 1e300),
    "k": (1, 2, 7, 10**6),
    "views": (1, 2, 3),
    "seed": (0, 1, -1, 10**18),
    "alpha": (0.0, -0.5, 1e-4, 1, 3, 1e300),
    "top": (1, 2, 100),
    "tail": (1, 5, 20),
    "percentile": (0.0, 50.0, 95.0),
    "memory_limit": (1e-9, 1.0, 1e300),
    "gamma": (1e-6, 0.5, 2.0, 1e3),
    "components": (2, 16, 64),
}


@st.composite
def options_of(draw: st.DrawFn, name: str) -> dict[str, object]:
    """Some options of a score, most of a type that it takes."""
    constructor = type(th.create(name)).__init__
    chosen: dict[str, object] = {}
    for option, kinds in option_kinds(constructor).items():
        if option in ("shaping", "store") or draw(st.integers(0, 2)):
            continue
        odd = option not in MEANT or draw(st.integers(0, 14)) == 14
        chosen[option] = draw(st.sampled_from(TYPES.get(kinds[0], NUMBERS) if odd else MEANT[option]))
    if name == "corp":
        chosen.setdefault("components", 16)  # 2,048 would take most of the time
    if draw(st.integers(0, 3)) == 0:
        kind = SHAPINGS[draw(st.sampled_from(sorted(SHAPINGS)))]
        percents = st.sampled_from((*(0, 1, 35, 80, 99.9, 100) * 4, 101, -1, "nan", "1e999", "x"))
        drawn = [draw(percents) for _ in kind().options()]
        numbers = drawn if draw(st.integers(0, 9)) == 9 else sorted(drawn, key=str)
        chosen["shaping"] = f"{kind.name}:{','.join(map(str, numbers))}".removesuffix(":")
    return chosen


@dataclass(frozen=True)
class Case:
    name: str
    options: dict[str, object]
    width: int
    classes: int
    fit_rows: int
    score_rows: int
    fit: ArrayPlan
    score: ArrayPlan
    weight: ArrayPlan
    bias: ArrayPlan
    head: str
    labels: str
    streamed: bool
    with_logits: bool
    fit_form: str
    score_form: str


# What arrives instead of a matrix of the right width.
FORMS = ("matrix",) * 150 + (
    "wider",
    "narrower",
    "flat",
    "stack",
    "list",
    "nothing",
    "number",
    "text",
    "none at all",
)


@st.composite
def detector_cases(draw: st.DrawFn) -> Case:
    name = draw(st.sampled_from(th.list_detectors()))
    return Case(
        name=name,
        options=draw(options_of(name)),
        width=draw(st.sampled_from((1, 2, 3, 5, 8, 24))),
        classes=draw(st.sampled_from((2, 3, 5))),
        fit_rows=draw(st.sampled_from((200, 200, 40, 40, 40, 40, 12, 12, 12, 5, 5, 5, 2, 2, 1, 0))),
        score_rows=draw(st.sampled_from((40, 40, 9, 9, 9, 9, 2, 2, 2, 1, 1, 1, 0))),
        fit=draw(array_plans()),
        score=draw(array_plans()),
        weight=draw(array_plans(ordinary=0.98)),
        bias=draw(array_plans(ordinary=0.98)),
        head=draw(st.sampled_from(("linear",) * 6 + ("no bias", "no bias", "cosine", "cosine", "none"))),
        labels=draw(
            st.sampled_from(
                ("right",) * 40 + ("uneven",) * 6 + ("none", "one class", "too large", "negative", "floats")
            )
        ),
        streamed=draw(st.booleans()),
        with_logits=draw(st.booleans()),
        fit_form=draw(st.sampled_from(FORMS)),
        score_form=draw(st.sampled_from(FORMS)),
    )


def formed(array: Any, form: str) -> Any:
    """The array, or what somebody passes by mistake."""
    ways: dict[str, Callable[[], Any]] = {
        "matrix": lambda: array,
        "wider": lambda: array[:, [0, *range(array.shape[1])]],
        "narrower": lambda: array[:, 1:],
        "flat": lambda: array.reshape(-1),
        "stack": lambda: array[None],
        "list": lambda: array.tolist(),
        "nothing": lambda: [],
        "number": lambda: 0.5,
        "text": lambda: "features.npy",
        "none at all": lambda: None,
    }
    return ways[form]()


def make_head(case: Case) -> th.Head | None:
    if case.head == "none":
        return None
    weight = case.weight.make(case.classes, case.width)
    if case.head == "cosine":
        return th.Head.cosine(weight)
    bias = None if case.head == "no bias" else case.bias.make(case.classes, 1)[:, 0]
    return th.Head(weight, bias)


def make_labels(case: Case) -> Any:
    labels = np.arange(case.fit_rows) % case.classes
    return {
        "right": labels,
        "none": None,
        "one class": labels * 0,
        "too large": labels + 3,
        "negative": labels - 1,
        "floats": labels.astype(float),
        "uneven": np.minimum(labels, 1).astype(np.uint8),
    }[case.labels]


def in_batches(features: Any, labels: Any) -> list[Any]:
    parts = [slice(start, start + 7) for start in range(0, max(1, len(features)), 7)]
    return [features[part] if labels is None else (features[part], labels[part]) for part in parts]


def score_of(case: Case) -> Any:
    detector = th.create(case.name, **case.options)
    head, labels = make_head(case), make_labels(case)
    features = formed(case.fit.make(case.fit_rows, case.width), case.fit_form)
    if case.streamed and case.fit_form in ("matrix", "wider", "narrower", "stack"):
        detector.fit(in_batches(features, labels), head=head)
    else:
        detector.fit(features, labels, head=head)
    rows = formed(case.score.make(case.score_rows, case.width), case.score_form)
    logits = None
    plain = isinstance(rows, Tensor) and rows.is_floating_point() and case.score_form == "matrix"
    if case.with_logits and head is not None and plain:
        logits = head(torch.nan_to_num(rows.detach().to(torch.float64))).to(torch.float32)
    return rows, detector.score(rows, logits)


@given(detector_cases())
@cases(bounded=400, long=14_000)
def test_a_score_without_nan_or_an_error_of_ours(case: Case) -> None:
    try:
        rows, scores = score_of(case)
    except TheodoliteError as error:
        assert str(error), "an error says what is wrong"  # noqa: PT017
        tell(case, "refused")
        return
    assert scores.shape == (len(rows),)
    assert isinstance(scores, Tensor) == isinstance(rows, Tensor)
    assert not np.isnan(np.asarray(scores)).any()
    tell(case, "scored")


def tell(case: Case, end: str) -> None:
    count("detectors", case.name, end)
