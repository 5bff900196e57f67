"""Ensembles in a benchmark: every rule against its formula, and samples that are not the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import theodolite as th
from made_folders import make_folder
from theodolite.benchmarks import RunResult
from theodolite.benchmarks import bench as run_bench
from theodolite.benchmarks.feature_folder import from_folder
from theodolite.benchmarks.runner import run
from theodolite.benchmarks.scoring import Scorer
from theodolite.core.errors import InputError
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
    known = [Scorer(subject, specs).known(["Energy"])["Energy"] for subject in subjects]
    expected = (
        members[0] + members[1],
        sum((scores - seen.mean()) / seen.std() for scores, seen in zip(members, known, strict=True)) / 2,
        sum(Calibration(seen).p_values(scores) for scores, seen in zip(members, known, strict=True)) / 2,
    )
    for name, scores in zip(names, expected, strict=True):
        np.testing.assert_allclose(made.evaluations[name].ood_scores["Energy"]["svhn"], scores, rtol=1e-12)
    assert RunResult.from_json(made.to_json()).notes == made.notes


def test_scales_come_from_rows_that_were_fitted_on(tmp_path: Path) -> None:
    """Not from the rows that are judged: other held-out rows leave them as they are."""
    folder = make_folder(tmp_path / "a")
    scorer = Scorer(from_folder(folder), parse_specs(["energy"]))
    fit = load_file(folder / "id_fit.safetensors")
    detector = th.Energy().fit(head=scorer.subject.head)
    expected = np.sort(detector.score(fit["features"].float()).double().numpy())
    np.testing.assert_allclose(np.sort(scorer.known(["Energy"])["Energy"]), expected, rtol=1e-6)


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
