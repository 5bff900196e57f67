"""Each caveat of the published tables is true, and nothing that needs one goes without."""

from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from published_cells import all_cells, cell, has
from theodolite.published import PublishedCell, PublishedTable, list_tables, load_table, lookup
from theodolite.published.tables import _without_defaults


def half_unit(printed: str) -> Decimal:
    """The most that rounding to the printed digits can hide."""
    decimals = len(printed.partition(".")[2])
    return Decimal(5).scaleb(-decimals - 1)


def summarised(table: PublishedTable, average: PublishedCell) -> list[str]:
    """The printed cells that an average cell stands for; none where the table prints averages only."""
    cells = list(table.cells())
    if average.backbone == "average":
        return [c.printed for c in cells if c.column == average.column and c.backbone != "average"]
    return [
        c.printed
        for c in cells
        if (c.row, c.metric) == (average.row, average.metric) and c.ood not in ("average", None)
    ]


def recomputed() -> Iterator[tuple[PublishedCell, Decimal, bool]]:
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


def experiment(found: PublishedCell) -> tuple[Any, ...]:
    """What two cells share if they report the same measurement."""
    options = _without_defaults(found.options)
    if found.metric == "id-accuracy":  # belongs to the classifier, whatever the scores are tried on
        return (found.backbone, found.metric, options)
    return (found.protocol, found.backbone, found.detector, found.ood, found.metric, options)


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
