"""Published numbers by what they are about."""

from typing import Any

import pytest

from published_cells import all_cells
from theodolite.published import PublishedCell, load_table, lookup


def test_lookup_finds_one_number() -> None:
    (found,) = lookup(protocol="cifar10", backbone="resnet18", detector="odin", ood="isun", metric="auroc")
    assert (found.value, found.printed, found.table, found.row) == (97.37, "97.37", "cifar10", "ODIN")
    assert found.caveats == ()


def test_lookup_by_options() -> None:
    def values(**options: Any) -> set[tuple[str, float]]:
        found = lookup(
            protocol="imagenet", detector="ora", ood="average", metric="fpr95", options=options or None
        )
        return {(c.table, c.value) for c in found}

    assert values(centre="predicted") == {("centring", 43.02)}
    assert values(centre=999) == {("statistics-imagenet", 24.75)}
    assert values(aggregate="mean") == {("aggregation", 32.76)}
    assert values(shaping="scale", percentile=90) == {("shaping", 23.34), ("shaping-extended", 23.34)}
    assert values(head="zero-shot") == {("clip", 25.85)}
    assert values(ensemble=("resnet50", "resnet50-scl", "vit-b16")) == {
        ("ensemble", 22.53),
        ("ensemble-extended", 22.53),
    }
    assert values(centre="nowhere") == set()


def test_the_default_written_out_is_the_plain_detector() -> None:
    def found(options: dict[str, Any] | None) -> list[PublishedCell]:
        return lookup(
            protocol="imagenet",
            backbone="resnet50-scl",
            detector="ora",
            ood="average",
            metric="auroc",
            options=options,
        )

    plain = found({})
    assert {"aggregation", "centring", "imagenet", "shaping"} <= {c.table for c in plain}
    assert {c.value for c in plain} == {94.26}
    assert found({"centre": "mean"}) == plain
    assert found({"aggregate": "max"}) == plain
    assert len(found(None)) > len(plain)


def test_lookup_ignores_case_hyphens_and_underscores() -> None:
    exact = lookup(protocol="near-ood", backbone="convnext-pre", ood="ssb-hard", metric="fpr95")
    assert [c.value for c in exact] == [68.82]
    assert lookup(protocol="Near_OOD", backbone="ConvNeXt-pre", ood="SSB-Hard", metric="FPR95") == exact


def test_lookup_of_the_unpublished_is_empty() -> None:
    assert lookup(detector="ora", backbone="densenet") == []
    assert len(lookup()) == sum(1 for _ in all_cells())


def test_an_unknown_table_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"'tables'.*aggregation.*vit"):
        load_table("tables")
