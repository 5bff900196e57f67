"""Scores with options and shaping, read from their text."""

from __future__ import annotations

import pytest

from theodolite.core.errors import InputError
from theodolite.detectors.spec import on_every_layer, parse_spec, parse_specs, spec_text


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


def test_with_a_model_odin_has_both_its_forms() -> None:
    nudged, plain = parse_specs(["odin"], model=True)
    assert (nudged.label, plain.label) == ("ODIN", "ODIN (ε=0)")
    assert nudged.published_options() == {}, "the published setting"
    assert nudged.template.model_score == "odin?noise=0.0014&temperature=1000.0"
    (own,) = parse_specs(["odin?noise=0.01"], model=True)
    assert own.label == "ODIN noise=0.01"
    assert [spec.label for spec in parse_specs([], model=True)] == [spec.label for spec in parse_specs([])]
    with pytest.raises(InputError, match="noise has no effect here"):
        parse_specs(["odin?noise=0.01"])
    assert parse_specs(["odin?noise=0"])[0].template.model_score is None


def test_with_layers_scores_without_a_head_have_a_row_more() -> None:
    labels = [
        spec.label for spec in parse_specs(["knn?k=5&fraction=0.5", "ora", "mds+react:90"], layers=True)
    ]
    assert labels[-1] == "KNN k=5 fraction=0.5 on layers"
    assert len(labels) == 4
    spec = parse_specs(["knn?k=5&fraction=0.5"], layers=True)[-1]
    assert parse_spec(spec.text).template.options() == spec.template.options()
    (asked,) = parse_specs(["layered?detector=mds&combine=p-values"], layers=True)
    assert asked.label == "MDS on layers combine=p-values"
    for text in ("knn?k=7", "ora?aggregate=mean+react:80", "relative-energy"):
        assert spec_text(parse_spec(text).build()) == text


@pytest.mark.parametrize("name", ["maha+", "ssd+", "knn?k=5"])
def test_a_plus_in_the_name_of_a_score_is_no_blank(name: str) -> None:
    spec = on_every_layer(parse_spec(name))
    assert parse_spec(spec.text) == spec
    assert parse_spec(spec_text(spec.template)).options == spec.options
    assert parse_spec(f"layered?detector={name}").template.options() == spec.template.options()
