"""Entries of a table, read from their text."""

from __future__ import annotations

import pytest

from theodolite.core.errors import InputError
from theodolite.detectors.spec import parse_entries


def test_entries_by_text() -> None:
    texts = ["KNN+?k=7", "ora?centre=3", "ssd++scale:90", "energy+react"]
    entries = parse_entries(texts, shapings=["ash-s:35"])
    assert [entry.text for entry in entries[:4]] == ["knn?k=7", *texts[1:]]
    assert parse_entries([entry.text for entry in entries]) == entries
    assert [entry.label for entry in entries[:4]] == [
        "KNN k=7",
        "ORA centre=3",
        "SSD+ + scale:90",
        "Energy + react",
    ]
    assert [entry.label for entry in entries[4:]] == ["KNN k=7 + ash-s:35", "ORA centre=3 + ash-s:35"]
    assert entries[3].published_options() == {"shaping": "react"}
    assert parse_entries(["knn"], settings={"knn": {"k": 1000}})[0].build().options()["k"] == 1000
    assert parse_entries(["knn"], settings={"knn": {"k": 1000}})[0].published_options() == {}
    with pytest.raises(InputError, match="no option 'q'"):
        parse_entries(["knn?q=1"])
    with pytest.raises(InputError, match="twice"):
        parse_entries(["ora", "ORA"])


def test_odin_from_features_says_that_nothing_was_perturbed() -> None:
    (odin,) = parse_entries(["odin"])
    assert odin.label == "ODIN (ε=0)"
    assert odin.published_options() == {"noise": 0.0}, "not the published setting"
