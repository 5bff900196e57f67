"""The published tables are the paper's, digit by digit, and each caveat is true."""

import ast
import doctest
import json
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from theodolite.benchmarks import published
from theodolite.benchmarks.published import Cell, PublishedTable, list_tables, load_table, lookup

# Counted in the paper, not in the files: label, rows, columns.
SHAPES = {
    "aggregation": ("tab:ablation_score_agg", 3, 4),
    "centring": ("tab:ablation_diff_origins", 4, 4),
    "cifar10": ("tab:cifar_performance", 10, 10),
    "clip": ("tab:clip_zero_shot", 12, 10),
    "ensemble": ("tab:ensemble_performance", 8, 2),
    "ensemble-extended": ("tab:ensemble_performance_extended", 8, 10),
    "imagenet": ("tab:imagenet_performance", 9, 10),
    "imagenet-backbones": ("tab:fpr95_ood_methods", 10, 13),
    "mnist-distances": (None, 2, 4),
    "mobilenetv2": ("tab:resource_constrained", 5, 10),
    "near-ood": ("tab:near_ood_results", 9, 7),
    "plain-resnet18": ("tab:plain_resnet_cifar10", 3, 10),
    "plain-resnet50": ("tab:plain_imagenet_resnet", 3, 10),
    "react-cifar10": ("tab:lafo_vs_react_cifar", 3, 10),
    "react-imagenet": ("tab:lafo_vs_react_imagenet", 3, 10),
    "scl-average": ("tab:ood_avg_performance", 4, 4),
    "shaping": ("tab:act_shaping_performance", 4, 2),
    "shaping-extended": ("tab:act_shaping_performance_extended", 4, 10),
    "statistics-cifar10": ("tab:different_stats_cifar", 16, 11),
    "statistics-imagenet": ("tab:different_stats_imagenet", 11, 11),
    "vit": ("tab:imagenet_vit", 3, 10),
}

# Typed from the paper; digits as printed, trailing zeros too.
SPOTS = [
    ("aggregation", "ORA w/ min", "ImageNet FPR95", "79.15"),
    ("aggregation", "ORA w/ mean", "CIFAR-10 AUROC", "97.59"),
    ("centring", "ORA w/ μ_pred", "ImageNet FPR95", "43.02"),
    ("centring", "ORA w/ μ_target", "CIFAR-10 FPR95", "13.26"),
    ("centring", "ORA w/ max(z_ID)", "ImageNet AUROC", "92.01"),
    ("cifar10", "MDS", "Place365 FPR95", "85.87"),
    ("cifar10", "SSD+", "SVHN FPR95", "1.35"),
    ("cifar10", "fDBD *", "Avg AUROC", "97.60"),
    ("clip", "RMh/zs", "iNaturalist FPR95", "3.64"),
    ("clip", "KNN/zs", "SUN FPR95", "86.68"),
    ("clip", "ORA/lp", "Avg AUROC", "95.03"),
    ("ensemble", "fDBD w/ResNet50", "AUROC", "89.20"),
    ("ensemble", "Ensemble ORA", "FPR95", "22.53"),
    ("ensemble-extended", "Ensemble ORA", "iNaturalist FPR95", "2.77"),
    ("ensemble-extended", "ORA w/ViT-B/16", "Texture AUROC", "89.85"),
    ("imagenet", "ViM", "Texture FPR95", "14.88"),
    ("imagenet", "MDS", "iNaturalist FPR95", "97.00"),
    ("imagenet", "ORA *", "Places AUROC", "90.10"),
    ("imagenet-backbones", "ConvNeXt", "Energy", "78.70"),
    ("imagenet-backbones", "Swin-pre", "P-Cos", "33.94"),
    ("imagenet-backbones", "ResNet-50 (SCL)", "NNG", "98.80"),
    ("imagenet-backbones", "DeiT", "NCI", "58.11"),
    ("imagenet-backbones", "Average", "ORA", "38.34"),
    ("mnist-distances", "MNIST", "Std", "0.62"),
    ("mnist-distances", "Fashion-MNIST", "Max", "6.66"),
    ("mobilenetv2", "KNN", "Places AUROC", "60.08"),
    ("mobilenetv2", "ORA", "Avg FPR95", "50.68"),
    ("near-ood", "EVA", "ID Acc (%)", "87.88"),
    ("near-ood", "DeiT-pre", "SSB-Hard FPR", "80.40"),
    ("plain-resnet18", "KNN", "Texture FPR95", "37.57"),
    ("plain-resnet18", "ORA", "SVHN AUROC", "96.02"),
    ("plain-resnet50", "KNN", "iNaturalist FPR95", "59.00"),
    ("plain-resnet50", "ORA", "Avg AUROC", "89.15"),
    ("react-cifar10", "ReAct", "Places AUROC", "95.47"),
    ("react-cifar10", "ORA w/ReAct", "Avg FPR95", "10.04"),
    ("react-imagenet", "ReAct", "Texture FPR95", "47.30"),
    ("react-imagenet", "ORA w/ReAct", "Avg AUROC", "96.29"),
    ("scl-average", "SSD+", "ImageNet AUROC", "80.09"),
    ("scl-average", "KNN+", "CIFAR-10 FPR95", "13.35"),
    ("shaping", "ORA w/Scale", "AUROC", "94.37"),
    ("shaping-extended", "ORA w/ASH", "Texture FPR95", "18.48"),
    ("shaping-extended", "ORA w/Scale", "SUN AUROC", "94.02"),
    ("statistics-cifar10", "Class 5 mean", "ID Acc", "88.0"),
    ("statistics-cifar10", "Sum aggregation [class means]", "Places FPR95", "23.70"),
    ("statistics-cifar10", "Sum aggregation [element-wise]", "iSUN AUROC", "95.64"),
    ("statistics-imagenet", "Class 250 mean", "ID Acc", "66"),
    ("statistics-imagenet", "Elementwise Min", "SUN FPR95", "60.70"),
    ("statistics-imagenet", "ORA", "ID Acc", "77.33"),
    ("vit", "KNN", "SUN AUROC", "86.39"),
    ("vit", "fDBD", "Texture FPR95", "45.74"),
]

# fmt: off
DETECTORS = {
    "ora", "fdbd", "distance", "msp", "maxlogit", "energy", "odin", "mds", "rmds", "maha+", "ssd+", "pcos",
    "rcos", "knn", "nnguide", "nci", "neco", "vim", "csi", "mcm",
}
BACKBONES = {
    "resnet50", "resnet50-scl", "resnet18", "resnet18-scl", "convnext", "convnext-pre", "swin", "swin-pre",
    "deit", "deit-pre", "eva", "vit-b16", "mobilenetv2", "clip-h14", "lenet5", "average",
}
# fmt: on
OOD_SETS = {
    "imagenet": {"inaturalist", "sun", "places", "textures", "average", None},
    "cifar10": {"svhn", "isun", "places", "textures", "average", None},
    "near-ood": {"ninco", "ssb-hard", "average", None},
    "mnist": {"fashion-mnist", None},
}
BETTER = {"fpr95": "lower", "auroc": "higher", "id-accuracy": "higher"}
CENTRES = {"mean", "predicted", "target", "max", "min", "median", "sum-classes", "sum-extremes"}
KINDS = {"average", "bold", "conflict", "suspect", "unstated"}


def all_cells() -> Iterator[Cell]:
    for name in list_tables():
        yield from load_table(name).cells()


def cell(table: str, row: str, column: str) -> Cell:
    (found,) = (c for c in load_table(table).cells() if (c.row, c.column) == (row, column))
    return found


def has(found: Cell, kind: str) -> bool:
    return any(caveat.kind == kind for caveat in found.caveats)


def half_unit(printed: str) -> Decimal:
    """The most that rounding to the printed digits can hide."""
    decimals = len(printed.partition(".")[2])
    return Decimal(5).scaleb(-decimals - 1)


def summarised(table: PublishedTable, average: Cell) -> list[str]:
    """The printed cells that an average cell stands for; none where the table prints averages only."""
    cells = list(table.cells())
    if average.backbone == "average":
        return [c.printed for c in cells if c.column == average.column and c.backbone != "average"]
    return [
        c.printed
        for c in cells
        if (c.row, c.metric) == (average.row, average.metric) and c.ood not in ("average", None)
    ]


def recomputed() -> Iterator[tuple[Cell, Decimal, bool]]:
    """Every average that can be checked, with its exact mean and whether rounding explains the difference.

    A cell hides up to half a unit of its last digit, a mean of cells hides up to the mean of these, and the
    printed average hides half a unit of its own: 0.005 + 0.005 at two decimals.
    """
    for name in list_tables():
        table = load_table(name)
        for average in table.cells():
            parts = summarised(table, average) if "average" in (average.ood, average.backbone) else []
            if parts:
                mean = sum(map(Decimal, parts), Decimal(0)) / len(parts)
                hidden = sum(map(half_unit, parts), Decimal(0)) / len(parts) + half_unit(average.printed)
                yield average, mean, abs(Decimal(average.printed) - mean) <= hidden


def experiment(found: Cell) -> tuple[Any, ...]:
    """What two cells share if they report the same measurement."""
    options = published._without_defaults(found.options)
    if found.metric == "id-accuracy":  # belongs to the classifier, whatever the scores are tried on
        return (found.backbone, found.metric, options)
    return (found.protocol, found.backbone, found.detector, found.ood, found.metric, options)


def test_every_table_has_the_shape_of_the_paper() -> None:
    tables = [load_table(name) for name in list_tables()]
    assert {t.name: (t.label, len(t.rows), len(t.columns)) for t in tables} == SHAPES


@pytest.mark.parametrize(("table", "row", "column", "printed"), SPOTS)
def test_spot_values(table: str, row: str, column: str, printed: str) -> None:
    assert cell(table, row, column).printed == printed


def test_spots_reach_every_table() -> None:
    assert {table for table, *_ in SPOTS} == set(SHAPES)


@pytest.mark.parametrize("name", SHAPES)
def test_schema(name: str) -> None:
    raw = json.loads(files(published).joinpath(f"{name}.json").read_text(encoding="utf-8"))
    assert list(raw) == ["label", "title", "protocol", "backbone", "detector", "columns", "rows", "caveats"]
    assert re.fullmatch(r"[A-Z][^.]*\.", raw["title"]), "a title is one sentence"
    columns = [column["name"] for column in raw["columns"]]
    rows = [row["name"] for row in raw["rows"]]
    assert len(set(columns)) == len(columns)
    assert len(set(rows)) == len(rows)
    for column in raw["columns"]:
        assert column["better"] == BETTER.get(column["metric"])
        assert column["metric"] in BETTER or re.fullmatch("distance-(mean|std|min|max)", column["metric"])
    for row in raw["rows"]:
        assert len(row["values"]) == len(columns)
        assert all(value is None or re.fullmatch(r"\d+(\.\d+)?", value) for value in row["values"])
        assert set(row["bold"]) <= set(columns)
    for caveat in raw["caveats"]:
        assert caveat["kind"] in KINDS
        assert caveat["row"] is None or caveat["row"] in rows
        assert set(caveat["columns"]) <= set(columns)
        assert set(caveat.get("see", [])) <= set(SHAPES) - {name}
        assert caveat["note"].endswith(".")
        assert caveat["columns"] or caveat["kind"] == "unstated"


@pytest.mark.parametrize("name", SHAPES)
def test_every_cell_says_what_it_is_about(name: str) -> None:
    for found in load_table(name).cells():
        assert found.detector in DETECTORS
        assert found.protocol in OOD_SETS
        assert found.ood in OOD_SETS[found.protocol]
        assert (found.ood is None) == (found.metric == "id-accuracy" or found.row == "MNIST")
        unnamed = "ensemble" in found.options or found.row in ("ReAct", "CSI")
        assert found.backbone is None if unnamed else found.backbone in BACKBONES
        assert set(found.options) <= {"shaping", "percentile", "centre", "aggregate", "head", "ensemble"}
        assert found.options.get("shaping") in {None, "react", "ash-s", "scale"}
        assert found.options.get("aggregate") in {None, "max", "mean", "min"}
        assert found.options.get("head") in {None, "zero-shot", "linear-probe"}
        centre = found.options.get("centre", "mean")
        assert centre in CENTRES or (isinstance(centre, int) and 0 <= centre < 1000)
        if found.metric in ("fpr95", "auroc", "id-accuracy"):
            assert 0 <= found.value <= 100


def test_averages_agree_with_their_cells_except_where_a_caveat_says_so() -> None:
    checked = list(recomputed())
    assert len(checked) == 13 + 2 * 99  # 13 columns over backbones, and two metrics of 99 rows
    for average, mean, agrees in checked:
        where = f"{average.table}: {average.row}, {average.column} is {average.printed}, recomputed {mean}"
        assert has(average, "average") != agrees, where
        if not agrees:
            notes = [caveat.note for caveat in average.caveats if caveat.kind == "average"]
            assert any(str(mean.normalize()) in note for note in notes), where


def test_the_wrong_averages_are_these() -> None:
    wrong = {(c.table, c.row, c.column.split()[-1]) for c, _, agrees in recomputed() if not agrees}
    assert wrong == {
        ("imagenet", "MSP *", "AUROC"),
        ("imagenet", "MDS", "AUROC"),
        ("imagenet", "fDBD *", "FPR95"),
        ("imagenet", "fDBD *", "AUROC"),
        ("react-imagenet", "ORA w/ReAct", "AUROC"),
        ("shaping-extended", "ORA w/ReAct", "AUROC"),
        ("shaping-extended", "ORA w/ASH", "AUROC"),
        ("statistics-cifar10", "Class 6 mean", "FPR95"),
        ("statistics-cifar10", "Class 6 mean", "AUROC"),
        ("statistics-cifar10", "Class 9 mean", "AUROC"),
        ("statistics-imagenet", "Class 500 mean", "AUROC"),
        ("plain-resnet18", "ORA", "FPR95"),
        ("plain-resnet18", "ORA", "AUROC"),
    }


def test_a_wrong_average_is_marked_where_it_is_repeated_without_its_cells() -> None:
    verdicts = defaultdict(list)
    for average, _, agrees in recomputed():
        verdicts[experiment(average), average.printed].append(agrees)
    with_cells = {(c.table, c.row, c.column) for c, _, _ in recomputed()}
    for found in all_cells():
        if (found.table, found.row, found.column) not in with_cells:
            seen = verdicts.get((experiment(found), found.printed), [])
            wrong = bool(seen) and not any(seen)
            assert has(found, "average") == wrong, (found.table, found.row, found.column)


def test_bold_is_the_best_except_where_a_caveat_says_so() -> None:
    exceptions = set()
    for name in list_tables():
        table = load_table(name)
        cells = list(table.cells())
        better = {column.name: column.better for column in table.columns}
        for found in cells:
            if not found.bold or better[found.column] is None:
                continue
            # The table over backbones compares along the row, all others down the column.
            along = "row" if name == "imagenet-backbones" else "column"
            rivals = [Decimal(c.printed) for c in cells if getattr(c, along) == getattr(found, along)]
            best = min(rivals) if better[found.column] == "lower" else max(rivals)
            is_best = Decimal(found.printed) == best
            assert has(found, "bold") != is_best, (name, found.row, found.column)
            if not is_best:
                exceptions.add((name, found.row, found.column, found.printed, str(best)))
        assert all(c.bold for c in cells if has(c, "bold"))
    assert exceptions == {
        ("imagenet-backbones", "ConvNeXt", "ORA", "34.92", "34.52"),
        ("clip", "ORA/zs", "SUN FPR95", "22.97", "22.32"),
        ("clip", "RMh/zs", "Texture AUROC", "93.84", "94.34"),
        ("statistics-cifar10", "ORA", "Avg AUROC", "97.67", "97.69"),
    }


def test_bold_cells_of_the_paper() -> None:
    bold = {(c.table, c.row, c.column) for c in all_cells() if c.bold}
    assert len(bold) == 62  # counted in the paper's source
    assert ("plain-resnet50", "fDBD", "Avg AUROC") in bold
    assert ("plain-resnet50", "ORA", "Avg FPR95") in bold
    assert ("statistics-imagenet", "Class 1000 mean", "Avg FPR95") in bold
    assert ("statistics-imagenet", "ORA", "Avg AUROC") in bold
    assert ("mnist-distances", "MNIST", "Mean") in bold
    assert not any(table == "near-ood" for table, *_ in bold)


def test_tables_that_disagree_name_each_other() -> None:
    same = defaultdict(list)
    for found in all_cells():
        same[experiment(found)].append(found)
    others = {
        (found.table, found.row, found.column): {c.table for c in group if c.printed != found.printed}
        for group in same.values()
        for found in group
    }
    for found in all_cells():
        where = (found.table, found.row, found.column)
        assert has(found, "conflict") == bool(others[where]), (where, others[where])
    for name in list_tables():
        for caveat in load_table(name).caveats:
            if caveat.kind == "conflict":
                assert caveat.row is not None
                named = [others[name, caveat.row, column] for column in caveat.columns]
                assert set.union(*named) == set(caveat.see), (name, caveat)


def test_the_three_values_of_ora_on_the_plain_resnet50() -> None:
    found = lookup(protocol="imagenet", backbone="resnet50", detector="ora", ood="average", metric="fpr95")
    assert {(c.table, c.value) for c in found} == {
        ("ensemble", 44.58),
        ("ensemble-extended", 44.58),
        ("imagenet-backbones", 43.63),
        ("plain-resnet50", 49.32),
    }
    assert all(has(c, "conflict") for c in found)


def test_suspect_cells_are_suspect() -> None:
    def value(row: str, column: str, table: str = "statistics-cifar10") -> Decimal:
        found = cell(table, row, column)
        assert has(found, "suspect")
        return Decimal(found.printed)

    # Putting the three rotated cells of class 6 back makes both of its averages right.
    fpr = (Decimal("5.74"), Decimal("8.50"), value("Class 6 mean", "Places AUROC"), Decimal("12.11"))
    auroc = (
        Decimal("98.82"),
        Decimal("98.26"),
        value("Class 6 mean", "Places FPR95"),
        value("Class 6 mean", "Texture AUROC"),
    )
    assert abs(sum(fpr, Decimal(0)) / 4 - Decimal("11.78")) <= Decimal("0.01")
    assert abs(sum(auroc, Decimal(0)) / 4 - Decimal("97.62")) <= Decimal("0.01")

    exchanged = {"Elementwise max", "Elementwise min", "Elementwise median", "Sum aggregation [element-wise]"}
    for row in load_table("statistics-cifar10").rows:
        places = cell("statistics-cifar10", row.name, "Places FPR95")
        textures = cell("statistics-cifar10", row.name, "Texture FPR95")
        assert (places.value < textures.value) == (row.name in exchanged)
        assert has(textures, "suspect") == (row.name in exchanged)

    twin = {c.column: c.value for c in load_table("clip").cells() if c.row == "Energy/lp"}
    apart = {column: round(float(value("NNG/lp", column, "clip")) - twin[column], 2) for column in twin}
    assert {column: gap for column, gap in apart.items() if gap} == {"SUN AUROC": -0.01}

    assert value("ConvNeXt", "P-Cos", "imagenet-backbones") == value("Swin", "P-Cos", "imagenet-backbones")


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
    def found(options: dict[str, Any] | None) -> list[Cell]:
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


def test_averages_are_marked() -> None:
    table = load_table("imagenet-backbones")
    assert [row.name for row in table.rows if row.average] == ["Average"]
    assert all(column.average for column in table.columns)
    assert [c.name for c in load_table("near-ood").columns if c.average] == ["Average FPR", "Average AUR"]


def test_reads_with_the_standard_library_alone() -> None:
    tree = ast.parse(files(published).joinpath("__init__.py").read_text(encoding="utf-8"))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "." for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in imported} <= sys.stdlib_module_names


def test_the_tables_are_packaged() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    assert "benchmarks/published/*.json" in project["tool"]["setuptools"]["package-data"]["theodolite"]


def test_the_example_of_the_module() -> None:
    assert doctest.testmod(published) == (0, 1)
