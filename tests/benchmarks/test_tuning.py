"""Settings are chosen on validation data alone, and a benchmark refuses to judge them on it."""

from __future__ import annotations

import json
import re
import shutil
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import theodolite as th
from made_folders import make_folder
from theodolite.benchmarks.feature_sets import Batch
from theodolite.benchmarks.ranking import HELD_OUT, HELD_SHARE, LEAVE_CLASS_OUT, VALIDATION
from theodolite.benchmarks.tuning import candidates
from theodolite.core.errors import FormatError, InputError, TheodoliteWarning
from theodolite.detectors.spec import parse_spec
from theodolite.guard.choice import choose_detector

GRID = ["ora+react:{70,90}", "knn?k={10,50}"]
pytestmark = pytest.mark.filterwarnings("ignore:the candidates are of 2 scores")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "mine")


@pytest.fixture
def strangers(tmp_path: Path) -> Path:
    """Features of an OOD set that is none of the folder's."""
    path = tmp_path / "strangers.safetensors"
    save_file({"features": 1.5 * torch.randn(200, 12, generator=torch.Generator().manual_seed(9))}, path)
    return path


def poison(folder: Path) -> None:
    """Nothing of a test set can be read any more."""
    for path in folder.glob("*.safetensors"):
        if path.stem not in ("id_fit", "head"):
            path.write_bytes(b"\x00 this would be an error if it were opened")


def both_ways(folder: Path | str, strangers: Path) -> list[th.Ranking]:
    """The choice on ID classes, and that on a validation set."""
    return [
        th.tune(folder, GRID, command="x", validation_ood=given) for given in ({}, {"strangers": strangers})
    ]


def test_no_test_set_is_opened(folder: Path, strangers: Path) -> None:
    """The same choice from a folder whose test and OOD sets are unreadable, and from one without them."""
    whole = both_ways(folder, strangers)
    poison(folder)
    with pytest.raises(FormatError):
        th.bench(f"features:{folder}")
    poisoned = both_ways(f"features:{folder}", strangers)
    for path in folder.glob("*.safetensors"):
        if path.stem not in ("id_fit", "head"):
            path.unlink()
    assert whole == poisoned == both_ways(folder, strangers)
    assert [ranking.method for ranking in whole] == [LEAVE_CLASS_OUT, VALIDATION]
    assert [ranking.folds for ranking in whole] == [4, 5]


class Untouchable:
    """A set that may not be read."""

    width, labelled, class_names, digest, samples = 12, True, None, "", ""

    def __len__(self) -> int:
        raise AssertionError("a test set was counted")

    def __iter__(self) -> Iterator[Batch]:
        raise AssertionError("a test set was read")


def test_of_a_subject_test_and_ood_rows_are_left_alone(folder: Path) -> None:
    tensors = load_file(folder / "id_fit.safetensors")
    head = load_file(folder / "head.safetensors")
    subject = th.Subject(
        "mine",
        th.Head(head["weight"], head["bias"]),
        th.ArraySet(tensors["features"], tensors["labels"].long()),
        Untouchable(),
        {"far": Untouchable()},
    )
    from_folder = th.tune(folder, GRID, command="x")
    assert th.tune(subject, GRID, command="x") == from_folder


def test_the_record_says_what_it_was_chosen_on(folder: Path, strangers: Path, tmp_path: Path) -> None:
    by_classes = th.tune(folder, GRID, folds=4, seed=3)
    assert sorted(label for fold in by_classes.left_out for label in fold) == [0, 1, 2, 3]
    assert "ID classes that played OOD" in by_classes.statement
    assert by_classes.statement.startswith("chosen for mine among 4 candidates")
    assert "no OOD data and no test set was read" in by_classes.statement
    assert list(by_classes.decided_by) == [HELD_SHARE]
    assert by_classes.fitted_on + by_classes.decided_by[HELD_SHARE].rows == 1500
    validated = th.tune(folder, GRID, validation_ood={"strangers": strangers})
    assert list(validated.decided_by) == [HELD_SHARE, "strangers"]
    assert validated.decided_by["strangers"].rows == 200
    assert "strangers (200 rows)" in validated.statement
    assert "no test set was read" not in validated.statement, "that only a benchmark can tell"
    assert validated.left_out == ()
    for ranking in (by_classes, validated):
        assert {row.spec for row in ranking.ranked} == {
            "ora+react:70",
            "ora+react:90",
            "knn?k=10",
            "knn?k=50",
        }
        assert all(len(row.fpr95) == ranking.folds for row in ranking.ranked)
        assert ranking.chosen == ranking.ranked[0].spec
        choose_detector(ranking.chosen)
        parse_spec(ranking.chosen)
        ranking.save(tmp_path / "ranking.json")
        assert th.Ranking.load(tmp_path / "ranking.json") == ranking


def test_the_figures_of_validation_are_those_of_a_fit_by_hand(folder: Path, strangers: Path) -> None:
    from theodolite.guard.holdout import in_share
    from theodolite.reference.bank import sample_keys

    ranking = th.tune(folder, ["ora", "mds"], validation_ood={"v": strangers}, folds=3, seed=5)
    rows, head = load_file(folder / "id_fit.safetensors"), load_file(folder / "head.safetensors")
    features, labels, places = rows["features"].float(), rows["labels"].long(), torch.arange(1500)
    apart = in_share(places, 0.2)
    parts = sample_keys(places[apart], 5) % 3
    strange = load_file(strangers)["features"]
    for row in ranking.ranked:
        detector = parse_spec(row.spec).build()
        detector.fit(features[~apart], labels[~apart], head=th.Head(head["weight"], head["bias"]))
        known, outliers = detector.score(features[apart]), detector.score(strange)
        for fold in range(3):
            rate = 100 * th.fpr_at_tpr(known[parts == fold], outliers)
            assert row.fpr95[fold] == pytest.approx(rate, abs=1e-5)


def test_unlabelled_rows_are_tuned_on_a_validation_set_only(folder: Path, strangers: Path) -> None:
    tensors = load_file(folder / "id_fit.safetensors")
    save_file({"features": tensors["features"]}, folder / "id_fit.safetensors")
    ranking = th.tune(folder, ["energy", "ora", "mds"], validation_ood={"v": strangers})
    assert {row.spec for row in ranking.ranked} == {"energy", "ora"}
    assert "no labels" in ranking.refused["MDS"]
    with pytest.raises(InputError, match="the rows to fit on have no labels"):
        th.tune(folder, ["energy", "ora"])


def test_held_out_rows_of_ones_own(folder: Path, tmp_path: Path) -> None:
    other = make_folder(tmp_path / "other", seed=4)
    ranking = th.tune(folder, ["ora", "energy"], held_out=other / "id_test.safetensors", folds=4)
    assert ranking.fitted_on == 1500
    assert ranking.decided_by[HELD_OUT].rows == 300
    shutil.copy(folder / "id_fit.safetensors", tmp_path / "copy.safetensors")
    with pytest.raises(InputError, match="held-out ID rows and the rows to fit on share rows"):
        th.tune(folder, ["ora", "energy"], held_out=tmp_path / "copy.safetensors", folds=4)


def test_features_in_other_files_and_stores_validate(folder: Path, strangers: Path, tmp_path: Path) -> None:
    rows = load_file(strangers)["features"].numpy()
    np.save(tmp_path / "v.npy", rows)
    by_file, by_array = (
        th.tune(folder, ["ora", "energy"], command="x", validation_ood={"v": path})
        for path in (strangers, tmp_path / "v.npy")
    )
    assert by_file == by_array


def test_a_folders_own_validation_sets_are_taken_and_named(folder: Path, strangers: Path) -> None:
    """They are there to choose on, and no benchmark judges them."""
    weight, labels = load_file(folder / "head.safetensors")["weight"], torch.arange(120) % 4
    rows = 2 * weight[labels] + torch.randn(120, 12, generator=torch.Generator().manual_seed(6))
    save_file({"features": rows, "labels": labels}, folder / "id_val.safetensors")
    shutil.copy(strangers, folder / "ood_val.safetensors")
    own = th.tune(folder, ["ora", "energy"], command="x")
    assert (own.method, list(own.decided_by)) == (VALIDATION, ["id_val", "ood_val"])
    assert "judged on id_val (120 rows), ood_val (200 rows), fitted on 1,500" in own.statement
    named = th.tune(
        folder,
        ["ora", "energy"],
        validation_ood={"v": folder / "ood_val.safetensors"},
        held_out=folder / "id_val.safetensors",
    )
    assert named.ranked == own.ranked
    poison(folder)
    assert list(th.tune(folder, ["ora", "energy"], validation_ood={}).decided_by) == [HELD_SHARE]
    with pytest.raises(InputError, match="tune on id_val, ood_val, which it never judges"):
        th.tune(folder, GRID, validation_ood={"v": folder / "svhn.safetensors"})


def test_a_foreign_head_is_refused_unless_forced(folder: Path, strangers: Path) -> None:
    head = load_file(folder / "head.safetensors")
    other = torch.randn(4, 12, generator=torch.Generator().manual_seed(99))
    save_file({**head, "weight": other}, folder / "head.safetensors")
    with pytest.raises(InputError, match=r"mine, id_fit: .*--force"):
        th.tune(folder, GRID, validation_ood={"v": strangers})
    forced = th.tune(folder, ["ora", "energy"], validation_ood={"v": strangers}, force=True)
    assert "measured by force: mine, id_fit" in forced.statement
    assert th.Ranking.from_json(json.loads(json.dumps(forced.to_json()))) == forced


def test_the_head_of_stored_logits_is_the_head(folder: Path, strangers: Path) -> None:
    given = {"v": strangers}
    known = th.tune(folder, ["ora", "energy"], validation_ood=given, command="x")
    rows, head = load_file(folder / "id_fit.safetensors"), load_file(folder / "head.safetensors")
    logits = rows["features"].float() @ head["weight"].T + head["bias"]
    save_file({**rows, "logits": logits}, folder / "id_fit.safetensors")
    (folder / "head.safetensors").unlink()
    found = th.tune(folder, ["ora", "energy"], validation_ood=given, command="x")
    for row, other in zip(found.ranked, known.ranked, strict=True):
        assert row.spec == other.spec
        assert row.fpr95 == pytest.approx(other.fpr95, abs=1)
    save_file(rows, folder / "id_fit.safetensors")
    with pytest.raises(InputError, match="or logits beside the features of id_fit"):
        th.tune(folder, ["ora", "energy"], validation_ood=given)


# ---------------------------------------------------------------------- what bench does with it


def test_bench_judges_what_was_chosen_and_says_on_what(folder: Path, strangers: Path, tmp_path: Path) -> None:
    ranking = th.tune(folder, GRID, validation_ood={"strangers": strangers})
    settings = th.BenchSettings(cache=tmp_path / "cache")
    result = th.bench(f"features:{folder}", detectors=["ora"], rankings=[ranking], settings=settings)
    (label,) = set(result.detectors) - {"ORA"}
    assert result.detectors[label].text == ranking.chosen
    assert result.detectors[label].chosen_on == ranking.statement
    assert result.detectors["ORA"].chosen_on is None
    assert th.RunResult.from_json(json.loads(json.dumps(result.to_json()))) == result
    th.write_files(result, tmp_path / "out")
    assert ranking.statement in (tmp_path / "out" / "results.md").read_text(encoding="utf-8")
    only = th.bench(f"features:{folder}", rankings=[ranking], settings=settings)
    assert list(only.detectors) == [label]


@pytest.mark.parametrize("form", ["file", "float32", "half of it", "among others"])
def test_bench_refuses_the_set_that_decided(folder: Path, tmp_path: Path, form: str) -> None:
    """By its rows, under another name, in another precision, in part, or among other rows."""
    rows = load_file(folder / "svhn.safetensors")["features"]
    copy = tmp_path / "innocent.safetensors"
    more = 2 * torch.randn(600, 12, generator=torch.Generator().manual_seed(3)).half()
    forms = {
        "file": rows,
        "float32": rows.float(),
        "half of it": rows[:120],
        "among others": torch.cat([more, rows]),
    }
    save_file({"features": forms[form].flip(0).contiguous()}, copy)
    ranking = th.tune(folder, GRID, validation_ood={"innocent": copy})
    settings = th.BenchSettings(cache=tmp_path / "cache")
    with pytest.raises(InputError, match=r"mine, svhn holds rows of innocent, on which .* was chosen"):
        th.bench(f"features:{folder}", rankings=[ranking], settings=settings)


def test_bench_refuses_id_rows_that_decided(folder: Path, tmp_path: Path) -> None:
    shutil.copy(folder / "id_test.safetensors", tmp_path / "copy.safetensors")
    ranking = th.tune(folder, GRID, held_out=tmp_path / "copy.safetensors", folds=4)
    settings = th.BenchSettings(cache=tmp_path / "cache")
    with pytest.raises(InputError, match="id_test holds rows of held-out ID rows"):
        th.bench(f"features:{folder}", rankings=[ranking], settings=settings)


# ---------------------------------------------------------------------- mistakes


def test_sets_of_the_folder_are_no_validation_sets(folder: Path) -> None:
    with pytest.raises(InputError, match="on which `theodolite bench` judges"):
        th.tune(folder, GRID, validation_ood={"v": folder / "svhn.safetensors"})
    with pytest.raises(InputError, match="on which `theodolite bench` judges"):
        th.tune(folder, GRID, held_out=folder / "id_test.safetensors")


def test_id_rows_are_no_ood_rows(folder: Path, tmp_path: Path) -> None:
    shutil.copy(folder / "id_fit.safetensors", tmp_path / "v.safetensors")
    with pytest.raises(InputError, match="v and the rows to fit on share rows"):
        th.tune(folder, GRID, validation_ood={"v": tmp_path / "v.safetensors"})


@pytest.mark.parametrize(
    ("texts", "why"),
    [
        ([], "0 candidates are named"),
        (["ora"], "1 candidates are named"),
        (["knn?k={5,50}", "knn?store=bank"], "a bank in a store of its own"),
        (["knn?k={5,abc}"], "k"),
        (["orra", "ora"], "did you mean 'ora'"),
    ],
)
def test_candidates_that_cannot_be_chosen_from(folder: Path, texts: list[str], why: str) -> None:
    with pytest.raises(InputError, match=why):
        th.tune(folder, texts)


def test_other_mistakes_are_named(folder: Path, strangers: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is no feature folder"):
        th.tune(tmp_path, GRID)
    with pytest.raises(InputError, match="does not exist"):
        th.tune(folder, GRID, validation_ood={"v": tmp_path / "nowhere"})
    with pytest.raises(InputError, match="'id_test', which has a meaning of its own"):
        th.tune(folder, GRID, validation_ood={"id_test": strangers})
    with pytest.raises(InputError, match="folds must be between 2"):
        th.tune(folder, GRID, folds=5)
    with pytest.raises(InputError, match="do not make 40 folds"):
        th.tune(folder, GRID, validation_ood={"v": strangers}, folds=40)
    with pytest.raises(InputError, match="v has 7 rows, expected at least 20"):
        th.tune(folder, GRID, validation_ood={"v": th.ArraySet(torch.randn(7, 12))})
    with pytest.raises(InputError, match="features have width 5"):
        th.tune(folder, GRID, validation_ood={"v": th.ArraySet(torch.randn(70, 5))})
    with pytest.raises(InputError, match="held-out ID rows: features have width 5"):
        th.tune(folder, GRID, held_out=th.ArraySet(torch.randn(70, 5)))


def test_settings_of_a_protocol_are_spelt_out() -> None:
    """KNN has another k on ImageNet: the text that is chosen says so wherever it is used."""
    assert [spec.text for spec in candidates(["knn", "ora"], "imagenet")] == ["knn?k=1000", "ora"]
    assert [spec.text for spec in candidates(["knn", "ora"])] == ["knn", "ora"]


def test_a_record_that_was_edited_is_refused(folder: Path) -> None:
    ranking = th.tune(folder, GRID, folds=4)
    content = json.loads(json.dumps(ranking.to_json()))
    assert th.Ranking.from_json(content) == ranking
    turned = {**content, "ranked": content["ranked"][::-1]}
    blank = {**content, "decided_by": {}}
    other = {**content, "chosen": content["ranked"][-1]["spec"]}
    keys = json.loads(json.dumps(content).replace('"keys": "', '"keys": "zz '))
    for wrong in (turned, blank, other, keys, {**content, "format": "theodolite-results/1"}):
        with pytest.raises(FormatError):
            th.Ranking.from_json(wrong)


def test_candidates_that_are_not_clearly_behind_are_named(folder: Path) -> None:
    ranking = th.tune(folder, GRID, folds=4)
    first, second, third, _ = ranking.ranked
    rows = (
        replace(first, fpr95=(10.0, 20.0, 30.0, 40.0)),
        replace(second, fpr95=(12.0, 19.0, 31.0, 39.5)),
        replace(third, fpr95=(20.0, 30.0, 40.0, 50.0)),
    )
    assert replace(ranking, ranked=rows).close == (second.spec,)


def test_a_choice_between_scores_on_id_classes_is_warned_of(folder: Path, strangers: Path) -> None:
    with pytest.warns(
        TheodoliteWarning, match=r"of 2 scores \(ORA, KNN\), and ID classes that play OOD do not tell"
    ):
        th.tune(folder, ["ora", "knn?k={5,9}"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        th.tune(folder, ["knn?k={5,9}"])
        th.tune(folder, ["ora", "knn"], validation_ood={"v": strangers})


def test_the_code_of_the_page_runs(folder: Path, strangers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs" / "which-score.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    folder.rename(folder.parent / "FOLDER")
    monkeypatch.chdir(folder.parent)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder.parent / "cache"))
    names: dict[str, object] = {"fog": strangers}
    exec(block, names)
    ranking, result = names["ranking"], names["result"]
    assert isinstance(ranking, th.Ranking)
    assert isinstance(result, th.RunResult)
    assert [facts.text for facts in result.detectors.values()] == [ranking.chosen]
    assert th.Ranking.load("ranking.json") == ranking
