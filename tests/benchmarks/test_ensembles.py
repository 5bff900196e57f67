"""Ensembles in a benchmark: every rule against its formula, and samples that are not the same."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import theodolite as th
from command_server import run as command
from made_folders import make_folder
from theodolite.benchmarks import RunResult
from theodolite.benchmarks import bench as run_bench
from theodolite.benchmarks.feature_folder import from_folder
from theodolite.benchmarks.feature_sets import ArraySet, FeatureSet
from theodolite.benchmarks.full_spectrum import with_shifted
from theodolite.benchmarks.runner import run
from theodolite.benchmarks.scales import scales_of
from theodolite.benchmarks.scoring import Scorer
from theodolite.core.errors import InputError
from theodolite.data.sampling import sampled_rows
from theodolite.detectors.spec import parse_specs
from theodolite.guard.calibration import Calibration

RULES = ["sum", "standardised", "p-values"]


def summed(folders: list[Path]) -> RunResult:
    subjects = [from_folder(folder) for folder in folders]
    return run(subjects, parse_specs(["msp"]), title="", command="", ensemble=True)


def shuffled(path: Path, seed: int = 0) -> None:
    tensors = load_file(path)
    order = torch.randperm(len(tensors["features"]), generator=torch.Generator().manual_seed(seed))
    save_file({name: tensor[order].contiguous() for name, tensor in tensors.items()}, path)


def test_every_rule_is_its_formula(tmp_path: Path) -> None:
    subjects = [from_folder(make_folder(tmp_path / name, seed=seed)) for seed, name in enumerate("ab")]
    specs = parse_specs(["energy", "ora"])
    made = run(subjects, specs, title="", command="", ensemble=RULES)
    names = ["ensemble of 2: a + b", "ensemble of 2 (standardised): a + b", "ensemble of 2 (p-values): a + b"]
    assert made.subject_names == ["a", "b", *names]
    members = [made.evaluations[member].ood_scores["Energy"]["svhn"] for member in "ab"]
    known = [scales_of(Scorer(subject, specs), ["Energy"]).values["Energy"]["id_fit"] for subject in subjects]
    expected = (
        members[0] + members[1],
        sum((scores - seen.mean()) / seen.std() for scores, seen in zip(members, known, strict=True)) / 2,
        sum(Calibration(seen).p_values(scores) for scores, seen in zip(members, known, strict=True)) / 2,
    )
    for name, scores in zip(names, expected, strict=True):
        np.testing.assert_allclose(made.evaluations[name].ood_scores["Energy"]["svhn"], scores, rtol=1e-12)
    assert RunResult.from_json(made.to_json()).notes == made.notes


def test_a_scale_comes_from_rows_that_are_neither_judged_nor_fitted_on(tmp_path: Path) -> None:
    """Every fifth row to fit on, in the shares of the classes; none of them is its own nearest neighbour."""
    folder = make_folder(tmp_path / "a")
    scorer = Scorer(from_folder(folder), parse_specs(["knn?k=1"]))
    fit = load_file(folder / "id_fit.safetensors")
    held = sampled_rows(fit["labels"].tolist(), 300)
    rows = torch.nn.functional.normalize(fit["features"].double(), dim=1)
    rest = np.setdiff1d(np.arange(len(rows)), held)
    expected = -torch.cdist(rows[held], rows[rest]).min(dim=1).values
    assert torch.bincount(fit["labels"][held].long()).tolist() == [75] * 4
    found = scales_of(scorer, ["KNN k=1"]).values["KNN k=1"]
    assert list(found) == ["id_fit"]
    np.testing.assert_allclose(found["id_fit"], expected, rtol=1e-3)
    assert scorer.detectors == {}


def crowded(folder: Path, *, seed: int) -> Path:
    """With fewer rows to fit on than features: KNN finds itself, and MDS has no distance to what it saw."""
    rng = torch.Generator().manual_seed(seed)
    make_folder(folder, seed=seed)
    weight = torch.randn(4, 200, generator=rng)
    save_file({"weight": weight, "bias": torch.zeros(4)}, folder / "head.safetensors")
    for path in folder.glob("*.safetensors"):
        if path.stem == "head":
            continue
        rows, known = 120 if path.stem == "id_fit" else 100, path.stem.startswith("id_")
        labels = torch.arange(rows) % 4
        features = 2 * weight[labels] * known + torch.randn(rows, 200, generator=rng)
        save_file({"features": features} | ({"labels": labels} if known else {}), path)
    return folder


def test_a_score_that_knows_the_rows_it_was_fitted_on_still_tells_new_ones_apart(tmp_path: Path) -> None:
    subjects = [from_folder(crowded(tmp_path / name, seed=seed)) for seed, name in enumerate("ab")]
    made = run(subjects, parse_specs(["knn?k=1", "mds"]), title="", command="", ensemble=RULES[1:])
    for rule in RULES[1:]:
        found = made.evaluations[f"ensemble of 2 ({rule}): a + b"]
        assert len(np.unique(found.id_scores["KNN k=1"])) > 20
        assert found.metrics["KNN k=1"]["svhn"]["auroc"] > 0.9


def test_a_score_without_a_scale_is_refused_alone(tmp_path: Path) -> None:
    """The rest of the run stands, and so does the other rule."""
    subjects = [from_folder(make_folder(tmp_path / name, seed=seed)) for seed, name in enumerate("ab")]
    flat = replace(subjects[1], head=th.Head(torch.zeros(4, 12)))
    made = run(
        [subjects[0], flat],
        parse_specs(["msp", "knn?k=5"]),
        title="",
        command="",
        ensemble=RULES[1:],
        force=True,
    )
    standardised, by_rank = (f"ensemble of 2 ({rule}): a + b" for rule in RULES[1:])
    assert "member 1 gives all of its 300 ID samples the same score" in made.refused[standardised]["MSP"]
    assert list(made.evaluations[standardised].metrics) == ["KNN k=5"]
    assert set(made.evaluations[by_rank].metrics) == {"MSP", "KNN k=5"}


def test_scores_that_mostly_tie_are_noted(tmp_path: Path) -> None:
    subjects = [from_folder(make_folder(tmp_path / name, seed=seed)) for seed, name in enumerate("ab")]
    flat = [replace(subject, head=th.Head(torch.zeros(4, 12))) for subject in subjects]
    made = run(flat, parse_specs(["msp", "knn?k=5"]), title="", command="", ensemble=["p-values"], force=True)
    told = [note for note in made.notes if "one and the same score" in note]
    assert len(told) == 1
    assert told[0].startswith("ensemble of 2 (p-values): a + b, MSP: 100.0 % of the held-out ID rows")


def test_too_few_rows_for_a_scale_are_said(tmp_path: Path) -> None:
    subjects = [from_folder(make_folder(tmp_path / name, seed=seed)) for seed, name in enumerate("ab")]
    few = [replace(one, fit=ArraySet(next(iter(one.fit))[0][:90])) for one in subjects]
    made = run(few, parse_specs(["energy"]), title="", command="", ensemble=["standardised"])
    name = "ensemble of 2 (standardised): a + b"
    assert "90 rows of id_fit are too few for a scale" in made.refused[name]["Energy"]
    assert name not in made.evaluations


def test_a_rule_that_is_none_is_refused_before_anything_is_scored(tmp_path: Path) -> None:
    folders = [f"features:{make_folder(tmp_path / name)}" for name in "ab"]
    with pytest.raises(InputError, match="combine must be one of sum, standardised, p-values, got 'product'"):
        run_bench(folders[0], folders[1:], ensemble=["product"])


def test_samples_that_differ_are_refused_before_anything_is_scored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [make_folder(tmp_path / name) for name in "ab"]
    shuffled(folders[1] / "id_test.safetensors")

    def scored(_: Scorer) -> None:
        raise AssertionError("it was scored")

    monkeypatch.setattr(Scorer, "run", scored)
    with pytest.raises(InputError, match="same samples of id_test"):
        summed(folders)


def test_a_rule_is_worked_once_and_the_sum_is_kept_beside_others(tmp_path: Path) -> None:
    subjects = [from_folder(make_folder(tmp_path / name)) for name in "ab"]
    rules = ["sum", "standardised", "sum", "standardised"]
    made = run(subjects, parse_specs(["msp"]), title="", command="", ensemble=rules)
    assert made.subject_names[2:] == ["ensemble of 2: a + b", "ensemble of 2 (standardised): a + b"]
    cells = [(cell.subject, cell.detector, cell.ood, cell.metric) for cell in made.cells]
    assert len(set(cells)) == len(cells)


def test_from_the_shell_the_sum_stands_beside_other_rules(tmp_path: Path) -> None:
    one, other = (f"features:{make_folder(tmp_path / name)}" for name in "ab")
    asked = ("bench", one, "--model", other, "--detector", "msp", "--ensemble", "--combine", "standardised")
    made = command(*asked, "-o", tmp_path / "out", "--cache", tmp_path / "cache")
    assert made.code == 0, made.err
    found = RunResult.from_json(json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8")))
    assert found.subject_names[2:] == ["ensemble of 2: a + b", "ensemble of 2 (standardised): a + b"]


def test_what_the_models_do_not_have_in_common_is_noted(tmp_path: Path) -> None:
    subjects = [from_folder(make_folder(tmp_path / name)) for name in "ab"]
    more = replace(subjects[0], ood={**subjects[0].ood, "extra": subjects[0].ood["svhn"]})
    less = replace(
        subjects[1],
        ood={name: rows for name, rows in subjects[1].ood.items() if name != "isun"},
        fit=ArraySet(torch.cat([features for features, _, _ in subjects[1].fit])),
    )
    made = run([more, less], parse_specs(["msp", "mds"]), title="", command="", ensemble=True, force=True)
    assert "ensemble: isun, extra are left out, which not all models have" in made.notes
    assert "ensemble: MDS is left out, which not all models have" in made.notes
    assert not any("left out" in note for note in summed([tmp_path / "a", tmp_path / "b"]).notes)


def test_no_score_in_common_leaves_the_models_alone(tmp_path: Path) -> None:
    subjects = [from_folder(make_folder(tmp_path / name)) for name in "ab"]
    unlabelled = ArraySet(torch.cat([features for features, _, _ in subjects[1].fit]))
    pair = [subjects[0], replace(subjects[1], fit=unlabelled)]
    made = run(pair, parse_specs(["mds"]), title="", command="", ensemble=["sum", "p-values"], force=True)
    assert made.subject_names == ["a"]
    assert "ensemble: MDS is left out, which not all models have" in made.notes


def test_joined_sets_know_their_samples_where_all_parts_do(tmp_path: Path) -> None:
    """ID data and shifted ID data by their names: neither a note nor a doubt about their order."""
    subjects = [from_folder(make_folder(tmp_path / name, seed=seed)) for seed, name in enumerate("ab")]
    for folder in (tmp_path / "a", tmp_path / "b"):
        for path in folder.glob("*.safetensors"):
            tensors = load_file(path)
            if "features" in tensors:
                save_file({**tensors, "ids": torch.arange(len(tensors["features"]))}, path)

    def notes(names: str) -> list[str]:
        shifted = [with_shifted(from_folder(tmp_path / name), {"c": parts[name]}) for name in names]
        return list(run(shifted, parse_specs(["msp"]), title="", command="", ensemble=True).notes)

    parts: dict[str, FeatureSet] = {name: from_folder(tmp_path / name).ood["isun"] for name in "ab"}
    assert notes("ab") == []
    parts = {name: subject.ood["isun"] for name, subject in zip("ab", subjects, strict=True)}
    assert any("id_test have no ids" in note for note in notes("ab"))


def test_sets_without_ids_are_named_and_those_with_ids_compared(tmp_path: Path) -> None:
    folders = [make_folder(tmp_path / name, seed=seed) for seed, name in enumerate("ab")]

    def noted() -> list[str]:
        return list(summed(folders).notes)

    notes = noted()
    assert "ensemble: the samples of svhn have no ids, and are matched by place alone" in notes
    assert "ensemble: the samples of id_test have no ids, and are matched by labels and place" in notes
    for folder in folders:
        path = folder / "svhn.safetensors"
        tensors = load_file(path)
        save_file({**tensors, "ids": torch.arange(len(tensors["features"]))}, path)
    assert not any("svhn" in note for note in noted())
    shuffled(folders[1] / "svhn.safetensors")
    with pytest.raises(InputError, match="same samples of svhn"):
        noted()


def test_a_shuffled_set_without_ids_is_doubted(tmp_path: Path) -> None:
    """Members that are nearly one network agree on most rows, and by chance alone once one is shuffled."""
    folders = [make_folder(tmp_path / name) for name in "ab"]

    def doubts() -> list[str]:
        return [note for note in summed(folders).notes if "by chance" in note]

    assert doubts() == []
    shuffled(folders[1] / "svhn.safetensors")
    assert len(doubts()) == 1
    assert doubts()[0].startswith("ensemble, svhn: a and b agree on the class of")


def test_ids_that_are_no_ids_are_refused(tmp_path: Path) -> None:
    folders = [make_folder(tmp_path / name) for name in "ab"]
    path = folders[0] / "svhn.safetensors"
    save_file({**load_file(path), "ids": torch.arange(3)}, path)
    with pytest.raises(th.TheodoliteError, match=r"ids must be \d+ whole numbers, got \(3,\)"):
        summed(folders)
