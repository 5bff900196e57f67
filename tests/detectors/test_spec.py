"""Scores with options and shaping, read from their text."""

from __future__ import annotations

import pytest

from theodolite.core.errors import InputError
from theodolite.detectors.spec import parse_specs


def test_specs_by_text() -> None:
    texts = ["KNN+?k=7", "ora?centre=3", "ssd++scale:90", "energy+react"]
    specs = parse_specs(texts, shapings=["ash-s:35"])
    assert [spec.text for spec in specs[:4]] == ["knn?k=7", *texts[1:]]
    assert parse_specs([spec.text for spec in specs]) == specs
    assert [spec.label for spec in specs[:4]] == [
        "KNN k=7",
        "ORA centre=3",
        "SSD+ + scale:90",
        "Energy + react",
    ]
    assert [spec.label for spec in specs[4:]] == ["KNN k=7 + ash-s:35", "ORA centre=3 + ash-s:35"]
    assert specs[3].published_options() == {"shaping": "react"}
    assert parse_specs(["knn"], settings={"knn": {"k": 1000}})[0].build().options()["k"] == 1000
    assert parse_specs(["knn"], settings={"knn": {"k": 1000}})[0].published_options() == {}
    with pytest.raises(InputError, match="no option 'q'"):
        parse_specs(["knn?q=1"])
    with pytest.raises(InputError, match="twice"):
        parse_specs(["ora", "ORA"])


def test_odin_from_features_says_that_nothing_was_perturbed() -> None:
    (odin,) = parse_specs(["odin"])
    assert odin.label == "ODIN (ε=0)"
    assert odin.published_options() == {"noise": 0.0}, "not the published setting"
