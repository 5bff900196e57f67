"""Options are what their constructor says they are: for every score, every shaping, and one's own."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import theodolite as th
from theodolite import Detector
from theodolite.core.errors import InputError
from theodolite.detectors._options import option_kinds
from theodolite.detectors.shaping import SHAPINGS, Shaping
from theodolite.detectors.spec import parse_spec

NAN, INF = float("nan"), float("inf")
WRONG: dict[type, list[object]] = {
    float: [
        NAN,
        INF,
        -INF,
        "high",
        "1",
        True,
        None,
        [1.0],
        1j,
        torch.tensor(1.0),
        10**400,
        np.float32("nan"),
    ],
    int: [NAN, INF, 2.5, "many", "3", True, None, [1], 2**70, torch.tensor(3), Fraction(1, 2)],
    bool: ["maybe", "true", 1, 0, 1.0, None, [True]],
    str: [3, 2.5, True, b"mean", ["mean"]],
}


def numeric_options() -> Iterator[tuple[type, str, type]]:
    owners: list[type] = [th.create(name).record.detector for name in th.list_detectors()]
    for owner in [*owners, *SHAPINGS.values()]:
        for option, kinds in option_kinds(owner.__init__).items():  # type: ignore[misc]
            for kind in kinds:
                if kind in WRONG:
                    yield owner, option, kind


def test_every_option_of_every_score_says_what_it_may_be() -> None:
    owners = [th.create(name).record.detector for name in th.list_detectors()]
    for owner in [*owners, *SHAPINGS.values()]:
        kinds = option_kinds(owner.__init__)
        names = [name for name in inspect.signature(owner.__init__).parameters if name != "self"]
        assert all(kinds[name] for name in names), owner
    assert {(owner.__name__, option) for owner, option, _ in numeric_options()} >= {
        ("NCI", "alpha"), ("Energy", "temperature"), ("NECO", "use_logit"), ("NECO", "variance"),
        ("KNN", "k"), ("KNN", "seed"), ("SSDPlus", "memory_limit"), ("ODIN", "noise"), ("CSI", "views"),
        ("ReAct", "percentile"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("owner", "option", "kind"), [*numeric_options()], ids=lambda part: getattr(part, "__name__", part)
)
def test_a_value_of_another_kind_is_refused(owner: type, option: str, kind: type) -> None:
    allowed = option_kinds(owner.__init__)[option]  # type: ignore[misc]
    for value in WRONG[kind]:
        if type(value) in allowed and value is not NAN and value not in (INF, -INF):
            continue  # another type of a union
        with pytest.raises(InputError, match=f"{option} must"):
            owner(**{option: value})


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("neco?use_logit=maybe", "use_logit must be true or false, got 'maybe'"),
        ("neco?use_logit=1", "use_logit must be true or false, got 1"),
        ("energy?temperature=1e999", "temperature must be a finite number, got inf"),
        ("energy?temperature=nan", "temperature must be a finite number, got nan"),
        ("energy?temperature=hot", "temperature must be a finite number, got 'hot'"),
        ("nci?alpha=-inf", "alpha must be a finite number, got -inf"),
        ("knn?k=2.5", "k must be a whole number, got 2.5"),
        ("knn?k=1e99", "k must be a whole number, got 1e"),
        ("knn?seed=x", "seed must be a whole number, got 'x'"),
        ("vim?dimension=true", "dimension must be a whole number or None, got True"),
        ("ora?aggregate=3", "aggregate must be a text, got 3"),
        ("ora?project_to_sphere=no", "project_to_sphere must be true or false, got 'no'"),
        ("ssd+?memory_limit=inf", "memory_limit must be a finite number, got inf"),
        ("energy+react:nan", "percentile must be a finite number, got nan"),
        ("energy+react:1e999", "percentile must be a finite number, got inf"),
        ("energy+react:-3", r"percentile must lie in 0\.\.100, got -3"),
        (f"knn?k={'9' * 5000}", "k must be a whole number"),
    ],
)
def test_texts_are_checked_alike(spec: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_spec(spec)


def test_numbers_of_other_libraries_become_pythons() -> None:
    assert type(th.KNN(k=np.int64(5)).k) is int  # type: ignore[arg-type]
    assert type(th.KNN(k=5.0).k) is int  # type: ignore[arg-type]
    assert type(th.Energy(temperature=np.float32(2)).temperature) is float  # type: ignore[arg-type]
    assert type(th.Energy(temperature=2).temperature) is float
    assert type(th.NECO(use_logit=np.bool_(False)).use_logit) is bool  # type: ignore[arg-type]
    assert parse_spec("knn?k=1e3").template.options()["k"] == 1000
    assert th.ORA(centre=np.int64(3)).centre == 3  # type: ignore[arg-type]
    assert th.KNN(store=Path("somewhere")).store is not None


def test_a_shaping_is_a_shaping_or_its_text() -> None:
    for wrong in (3, ["react"], torch.nn.ReLU(), th.ReAct):
        with pytest.raises(InputError, match="shaping must be Shaping or a text or None"):
            th.ORA(shaping=wrong)  # type: ignore[arg-type]


class Sharp(Detector):
    """A score of one's own: nothing about options but their annotations."""

    def __init__(self, *, power: float = 2.0, rounds: int = 1, strict: bool = False, free=None) -> None:  # type: ignore[no-untyped-def]
        super().__init__()
        self.power, self.rounds, self.strict, self.free = power, rounds, strict, free

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:  # noqa: ARG002
        return logits.amax(dim=1) ** self.power


class Halving(Shaping):
    name = "halving"
    title = "Halving"

    def __init__(self, *, percentile: float = 50.0) -> None:
        super().__init__(percentile=percentile)

    def forward(self, features: Tensor) -> Tensor:
        return features / 2


def test_a_score_and_a_shaping_of_ones_own_get_it_for_free() -> None:
    for option, value in (("power", NAN), ("power", "2"), ("rounds", 1.5), ("strict", 1)):
        with pytest.raises(InputError, match=f"{option} must be"):
            Sharp(**{option: value})  # type: ignore[arg-type]
    assert Sharp(free=NAN).free != 0
    with pytest.raises(InputError, match="percentile must be a finite number"):
        Halving(percentile=NAN)
    with pytest.raises(TypeError, match="unexpected keyword argument 'sharpness'"):
        Sharp(sharpness=3)  # type: ignore[call-arg]
    again = copy.deepcopy(Sharp(power=3))
    assert again.options() == {"power": 3.0, "rounds": 1, "strict": False, "free": None}
