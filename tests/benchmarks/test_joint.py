"""Several models together: what is averaged and what is not, ranks, and the published average beside ours."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import rankdata

import theodolite as th
from made_folders import make_folder
from theodolite.benchmarks import Cell, RunResult, compare, from_folder, join, run
from theodolite.benchmarks.compare import published_value
from theodolite.benchmarks.facts import SubjectFacts
from theodolite.detectors.spec import parse_specs
from theodolite.evaluation import list_metrics, metric
from theodolite.published import load_table
from theodolite.report.tables import joint_table, joint_tables

SCORES = ["ora", "msp", "knn", "energy", "relative-energy"]
SAMPLES = {"id_fit": 9, "id_test": 50, "inaturalist": 10, "sun": 10, "places": 10, "textures": 10}
TABLE = "imagenet-backbones"
NINE = [row.backbone for row in load_table(TABLE).rows if row.backbone != "average"]


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    folder = tmp_path_factory.mktemp("joint")
    first, *others = [make_folder(folder / f"net{seed}", seed=seed) for seed in range(3)]
    models = [f"features:{other}" for other in others]
    settings = th.BenchSettings(cache=folder / "cache")
    return th.bench(f"features:{first}", models, detectors=SCORES, settings=settings)


def test_averages_over_models_are_the_means_of_their_cells(three: RunResult) -> None:
    assert three.joint is not None
    assert three.joint.notes == ()
    (ground,) = three.joint.grounds
    assert ground.models == ("net0", "net1", "net2")
    (average,) = three.joint.averages
    assert average.name == "average of 3 models"
    assert len(average.cells) == len(three.cells) / 3
    for cell in average.cells:
        members = [three.cell(name, cell.detector, cell.ood, cell.metric) for name in ground.models]
        assert cell.value == pytest.approx(np.mean([member.value for member in members]), abs=1e-6)
        assert cell.samples == members[0].samples
        assert cell.published == ()


def test_ranks_are_mean_places_with_ties_shared(three: RunResult) -> None:
    assert three.joint is not None
    labels = three.detector_names("net0")
    assert list(three.joint.ranks) == [known.name for known in list_metrics()]
    for name, places in three.joint.ranks.items():
        sign = 1 if metric(name).lower_is_better else -1
        expected = [
            rankdata([sign * round(three.cell(model, label, "average", name).value, 2) for label in labels])
            for model in three.models
        ]
        assert list(places) == labels
        assert list(places.values()) == pytest.approx(np.mean(expected, axis=0), abs=1e-4)


def test_the_joint_table_prints_these_numbers(three: RunResult) -> None:
    fpr, auroc = joint_tables(three)
    assert fpr.title == "FPR95 ↓ in %, 3 models"
    assert fpr.header == ("score", "net0", "net1", "net2", "average of 3 models", "rank")
    assert three.joint is not None
    for table, name in ((fpr, "fpr95"), (auroc, "auroc")):
        averages = {
            cell.detector: cell
            for cell in three.joint.averages[0].cells
            if (cell.ood, cell.metric) == ("average", name)
        }
        for label, (*models, average, rank) in table.rows:
            for model, cell in zip(three.models, models, strict=True):
                assert cell.text == f"{three.cell(model, label, 'average', name).value:.2f}"
            assert average.text == f"{averages[label].value:.2f}"
            assert rank.text == f"{three.joint.ranks[name][label]:.1f}"
        best = (min if name == "fpr95" else max)(float(row[3].text) for _, row in table.rows)
        assert {row[3].text for _, row in table.rows if row[3].rank == 1} == {f"{best:.2f}"}


def test_a_joined_result_comes_back_from_its_file(three: RunResult, tmp_path: Path) -> None:
    th.write_files(three, tmp_path)
    content = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert RunResult.from_json(content) == three
    old = {key: value for key, value in content.items() if key != "joint"}
    assert RunResult.from_json(old) == replace(three, joint=None)
    lines = (tmp_path / "results.csv").read_text(encoding="utf-8").splitlines()
    assert sum(line.startswith("average of 3 models,") for line in lines) == len(three.cells) / 3


def test_one_model_has_nothing_to_be_joined_with(tmp_path: Path) -> None:
    made = run([from_folder(make_folder(tmp_path / "one"))], parse_specs(["msp"]), title="", command="")
    assert join(made) is made
    assert "joint" not in made.to_json()
    assert joint_tables(made) == []


def test_models_on_different_data_are_not_averaged(tmp_path: Path) -> None:
    folders = [make_folder(tmp_path / name, seed=place) for place, name in enumerate(("a", "b", "other"))]
    (folders[2] / "isun.safetensors").unlink()
    made = join(run([from_folder(one) for one in folders], parse_specs(SCORES), title="", command=""))
    assert made.joint is not None
    assert [ground.models for ground in made.joint.grounds] == [("a", "b"), ("other",)]
    (note,) = made.joint.notes
    assert note.startswith("The models were judged on different data, so there is no average over all of")
    assert "other: 4 classes, id_test 300, places365 250, svhn 250, textures 250." in note
    table = joint_table(made, metric("fpr95"))
    assert table.header == ("score", "a", "b", "other", "average of 2 models", "rank")
    assert "average of 2 models: a, b;" in table.legend
    # Two and two: their names tell them apart.
    fourth = make_folder(tmp_path / "fourth", seed=9)
    (fourth / "isun.safetensors").unlink()
    subjects = [from_folder(one) for one in (*folders, fourth)]
    more = join(run(subjects, parse_specs(["msp"]), title="", command=""))
    assert more.joint is not None
    assert [average.name for average in more.joint.averages] == [
        "average of 2 models on isun, places365, svhn, textures",
        "average of 2 models on places365, svhn, textures",
    ]


def test_a_score_that_one_model_refuses_has_no_average_and_no_rank(three: RunResult) -> None:
    cells = tuple(cell for cell in three.cells if (cell.subject, cell.detector) != ("net1", "KNN"))
    made = join(replace(three, cells=cells))
    assert made.joint is not None
    assert all(cell.detector != "KNN" for cell in made.joint.averages[0].cells)
    assert "KNN" not in made.joint.ranks["fpr95"]
    table = joint_table(made, metric("fpr95"))
    row = dict(table.rows)["KNN"]
    assert [cell.text for cell in row][1:2] + [cell.text for cell in row][3:] == ["–", "–", "–"]
    assert [cell.rank for cell in row][1:2] == [0]
    assert "place among the 4 scores that every model has" in table.legend


# ---------------------------------------------------------------------- the paper's average


def printed_result(backbones: Sequence[str | None], *, missing: tuple[str, str] | None = None) -> RunResult:
    """As if the printed figures of the paper's nine models had been measured, to the digit."""
    cells, subjects = [], {}
    for backbone in backbones:
        name = f"my {backbone}"
        subjects[name] = SubjectFacts(backbone, 1000, 8, None, SAMPLES, {})
        for found in load_table(TABLE).cells():
            if found.backbone == backbone and (backbone, found.detector) != missing:
                value = published_value(found)
                cells.append(Cell(name, found.column, "average", "fpr95", found.value, published=(value,)))
        if backbone not in NINE:
            cells += [
                Cell(name, "ORA", "average", "fpr95", 10.0),
                Cell(name, "MSP", "average", "fpr95", 20.0),
            ]
    return join(RunResult("t", "c", tuple(cells), subjects))


def averages(result: RunResult, place: int = 0) -> dict[str, Cell]:
    assert result.joint is not None
    return {cell.detector: cell for cell in result.joint.averages[place].cells}


def test_the_papers_headline_stands_beside_the_average_over_its_nine_models() -> None:
    assert len(NINE) == 9
    made = printed_result(NINE)
    assert made.joint is not None
    assert made.joint.notes == ()
    assert made.joint.averages[0].name == "average of 9 models"
    found = averages(made)
    assert len(found) == 13
    for label, cell in found.items():
        (published,) = cell.published
        assert (published.table, published.row, published.column) == (TABLE, "Average", label)
        # Rounded cells and a rounded mean: half a digit each.
        assert cell.value == pytest.approx(published.value, abs=0.0101), label
    assert found["ORA"].published[0].printed == "38.34"
    assert found["ORA"].value == pytest.approx(38.344, abs=1e-3)
    row = dict(joint_table(made, metric("fpr95")).rows)["ORA"]
    assert (row[-2].text, row[-2].published, row[-2].rank) == ("38.34", "38.34", 1)
    assert RunResult.from_json(made.to_json()) == made


def test_some_of_the_nine_are_never_shown_beside_the_published_average() -> None:
    made = printed_result(NINE[:3])
    assert made.joint is not None
    assert made.joint.averages[0].name == "average of 3 models"
    assert all(cell.published == () for cell in averages(made).values())
    (note,) = made.joint.notes
    assert note.startswith(f"The published average of {TABLE} is over 9 models and does not stand beside")
    assert note.endswith(f"of {', '.join(map(str, NINE[3:]))}.")
    assert "38.34" not in "".join(cell.extras for _, row in joint_tables(made)[0].rows for cell in row)


def test_a_tenth_model_does_not_hide_the_papers_nine() -> None:
    made = printed_result([*NINE, "vit-b16"])
    assert made.joint is not None
    ten, nine = made.joint.averages
    assert (ten.name, nine.name) == ("average of 10 models", f"average of the 9 models of {TABLE}")
    assert all(cell.published == () for cell in ten.cells)
    assert averages(made, 1)["ORA"].published[0].printed == "38.34"
    assert averages(made, 0)["ORA"].value == pytest.approx((9 * 38.344 + 10) / 10, abs=1e-3)


def test_eight_and_a_checkpoint_of_ones_own_are_not_the_papers_nine() -> None:
    """A checkpoint of one's own has no backbone of the paper; a figure that is missing has no average."""
    made = printed_result([*NINE[:8], None])
    assert made.joint is not None
    assert all(cell.published == () for cell in averages(made).values())
    (note,) = made.joint.notes
    assert note.endswith(f"of {NINE[8]}.")
    without = averages(printed_result(NINE, missing=(str(NINE[0]), "knn")))
    assert "KNN+" not in without
    assert without["ORA"].published[0].printed == "38.34"


def test_the_average_of_nine_comes_out_of_bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders that say what they are; made sets pass for the paper's whole ones."""
    monkeypatch.setattr(compare, "_MAY_LACK", 1.0)
    named = {"svhn": "inaturalist", "isun": "sun", "places365": "places"}
    folders = []
    for place, backbone in enumerate(map(str, NINE)):
        about = {"name": backbone, "protocol": "imagenet", "backbone": backbone}
        folder = make_folder(tmp_path / backbone, seed=place, about=about)
        for made, wanted in named.items():
            (folder / f"{made}.safetensors").rename(folder / f"{wanted}.safetensors")
        folders.append(f"features:{folder}")
    settings = th.BenchSettings(cache=tmp_path / "cache")
    result = th.bench("features", folders, detectors=["ora", "msp"], settings=settings)
    found = {(cell.detector, cell.metric): cell for cell in _over_sets(result)}
    assert [value.printed for value in found["ORA", "fpr95"].published] == ["38.34"]
    assert [value.printed for value in found["MSP", "fpr95"].published] == ["54.78"]
    assert found["ORA", "auroc"].published == (), "the table has no AUROC"
    assert "(38.34)" in (th.write_files(result, tmp_path / "out")[2]).read_text(encoding="utf-8")
    facts = result.subjects["convnext"]
    assert [value.printed for value in facts.published_accuracy] == ["84.84"]
    scl = result.subjects["resnet50-scl"]
    assert [(value.printed, value.table) for value in scl.published_accuracy] == [
        ("77.31", "near-ood"),
        ("77.33", "statistics-imagenet"),
    ]
    text = (tmp_path / "out" / "results.md").read_text(encoding="utf-8")
    assert " % (84.84 published)." in text
    assert " % (77.31 or 77.33† published)." in text
    assert RunResult.from_json(result.to_json()) == result
    eight = th.bench("features", folders[:8], detectors=["ora"], settings=settings)
    assert all(not cell.published for cell in _over_sets(eight))


def test_accuracy_is_compared_on_the_whole_test_set_only(tmp_path: Path) -> None:
    about = {"name": "convnext", "protocol": "near-ood", "backbone": "convnext"}
    subject = from_folder(make_folder(tmp_path / "made", about=about))
    assert compare.published_accuracy(subject) == ()
    assert compare.published_accuracy(replace(subject, backbone=None)) == ()


def _over_sets(result: RunResult) -> list[Cell]:
    assert result.joint is not None
    (average,) = result.joint.averages
    return [cell for cell in average.cells if cell.ood == "average"]
