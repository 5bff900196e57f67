"""The published tables are the paper's, digit by digit."""

import doctest
import json
import re
import tomllib
from importlib.resources import files
from pathlib import Path

import pytest

from published_cells import cell
from theodolite.published import list_tables, load_table, tables

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
    raw = json.loads(files("theodolite.published").joinpath(f"{name}.json").read_text(encoding="utf-8"))
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


def test_averages_are_marked() -> None:
    table = load_table("imagenet-backbones")
    assert [row.name for row in table.rows if row.average] == ["Average"]
    assert all(column.average for column in table.columns)
    assert [c.name for c in load_table("near-ood").columns if c.average] == ["Average FPR", "Average AUR"]


def test_the_tables_are_packaged() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    assert "published/*.json" in project["tool"]["setuptools"]["package-data"]["theodolite"]


def test_the_example_of_the_module() -> None:
    assert doctest.testmod(tables) == (0, 1)
