"""The runner from end to end on small made data: what it measures, and that it goes on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from made_folders import WIDTH, make_folder
from theodolite.benchmarks import Intervals, RunResult, Subject, compare, score_cache
from theodolite.benchmarks import run as run_bench
from theodolite.benchmarks.ensemble import require_same_samples
from theodolite.benchmarks.feature_folder import from_folder
from theodolite.benchmarks.scoring import Scorer
from theodolite.core.errors import InputError
from theodolite.detectors import create, list_detectors
from theodolite.detectors.spec import parse_specs
from theodolite.evaluation import auroc, fpr_at_tpr, head_accuracy
from theodolite.report.documents import result_document


def measured(subjects: Subject | Sequence[Subject], *texts: str, **options: Any) -> RunResult:
    several = [subjects] if isinstance(subjects, Subject) else subjects
    return run_bench(several, parse_specs(texts), title="", command="", **options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    about = {"name": "resnet18-scl", "protocol": "cifar10", "backbone": "resnet18-scl"}
    return make_folder(tmp_path_factory.mktemp("bench") / "made", about=about)


@pytest.fixture(scope="module", autouse=True)
def made_sets_pass_for_whole_ones() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compare, "_MAY_LACK", 1.0)
        yield


@pytest.fixture(scope="module")
def result(folder: Path) -> RunResult:
    return run_bench(
        [from_folder(folder)],
        parse_specs(["ora", "fdbd", "msp", "knn", "ora?aggregate=mean", "ora+react:80"]),
        title="made data",
        command="theodolite bench",
        intervals=Intervals(50, seed=3),
    )


# ---------------------------------------------------------------------- numbers


def test_every_cell_is_what_the_detector_gives_by_itself(folder: Path, result: RunResult) -> None:
    subject = from_folder(folder)
    parts = {name: load_file(folder / f"{name}.safetensors") for name in ("id_fit", "id_test", "isun")}
    fit = parts["id_fit"]
    detector = create("fdbd").fit(fit["features"].float(), fit["labels"].long(), head=subject.head)
    known, unknown = (detector.score(parts[name]["features"].float()) for name in ("id_test", "isun"))
    fpr95, area = (result.cell("resnet18-scl", "fDBD", "isun", metric) for metric in ("fpr95", "auroc"))
    assert fpr95.value == pytest.approx(100 * fpr_at_tpr(known, unknown), abs=1e-6)
    assert area.value == pytest.approx(100 * auroc(known, unknown), abs=1e-4)
    assert fpr95.samples == 250


def test_averages_are_the_means_of_the_cells(result: RunResult) -> None:
    for label in ("ORA", "MSP"):
        for metric in ("fpr95", "auroc", "aupr_in"):
            sets = [
                result.cell("resnet18-scl", label, ood, metric) for ood in result.ood_names("resnet18-scl")
            ]
            average = result.cell("resnet18-scl", label, "average", metric)
            assert average.value == pytest.approx(np.mean([cell.value for cell in sets]), abs=1e-6)
            assert average.samples is None


def test_intervals_hold_their_value(result: RunResult) -> None:
    for cell in result.cells:
        if cell.metric in ("fpr95", "auroc"):
            assert cell.interval is not None
            assert cell.metric != "auroc" or cell.interval.low <= cell.value <= cell.interval.high
        else:
            assert cell.interval is None


def test_results_say_what_made_them(result: RunResult) -> None:
    assert set(result.versions) == {"theodolite", "torch", "numpy", "python"}
    assert result.seeds == {"bootstrap": 3, "KNN": 0}
    facts = result.subjects["resnet18-scl"]
    assert set(facts.digests) == {"head", "id_fit", "id_test", "svhn", "isun", "places365", "textures"}
    assert facts.samples["id_fit"] == 1500
    assert (result.detectors["KNN"].options or {})["k"] == 50
    assert result.detectors["ORA + react:80"].shaping == "react:80"
    assert result.seconds is not None
    seconds = result.seconds["resnet18-scl"]
    assert set(seconds.score) == set(result.detectors)
    assert min(seconds.score.values()) >= 0
    assert seconds.shared is not None
    assert seconds.shared > 0


@pytest.mark.usefixtures("few_waves")
def test_all_scores_of_the_registry_run_from_features(folder: Path) -> None:
    result = Scorer(from_folder(folder), parse_specs([])).run()
    assert len(result.values) + len(result.refused) == len(list_detectors())
    assert not result.refused


# ---------------------------------------------------------------------- published beside measured


def test_published_values_stand_beside_the_measured_ones(result: RunResult) -> None:
    def printed(label: str, ood: str, metric: str) -> list[str]:
        return [value.printed for value in result.cell("resnet18-scl", label, ood, metric).published]

    assert printed("ORA", "average", "fpr95")[0] == "10.97"
    tables = {value.table for value in result.cell("resnet18-scl", "ORA", "svhn", "fpr95").published}
    assert tables >= {"cifar10"}
    assert printed("ORA aggregate=mean", "average", "auroc")[0] == "97.59"
    shaped = result.cell("resnet18-scl", "ORA + react:80", "places365", "fpr95").published
    assert shaped[0].table == "react-cifar10"
    assert printed("MSP", "svhn", "fpr95") == [], "the paper has no MSP on the contrastive model"
    assert "(10.97)" in result_document(result)


def test_an_average_over_other_sets_is_not_compared(folder: Path, tmp_path: Path) -> None:
    part = make_folder(tmp_path / "part", about=json.loads((folder / "about.json").read_text()))
    (part / "isun.safetensors").unlink()
    made = measured(from_folder(part), "ora")
    assert made.cell("resnet18-scl", "ORA", "svhn", "fpr95").published
    assert not made.cell("resnet18-scl", "ORA", "average", "fpr95").published


def test_an_average_over_a_set_more_is_not_compared(folder: Path, tmp_path: Path) -> None:
    more = make_folder(tmp_path / "more", about=json.loads((folder / "about.json").read_text()))
    shutil.copy(more / "svhn.safetensors", more / "mine.safetensors")
    made = measured(from_folder(more), "ora")
    assert made.cell("resnet18-scl", "ORA", "svhn", "fpr95").published
    assert not made.cell("resnet18-scl", "ORA", "average", "fpr95").published


def test_an_ensembles_average_is_compared_over_the_sets_in_common(tmp_path: Path) -> None:
    folders = []
    for backbone in ("resnet50-scl", "resnet50", "vit-b16"):
        about = {"name": backbone, "protocol": "imagenet", "backbone": backbone}
        folders.append(made := make_folder(tmp_path / backbone, about=about))
        for old, new in (("svhn", "inaturalist"), ("isun", "sun"), ("places365", "places")):
            (made / f"{old}.safetensors").rename(made / f"{new}.safetensors")
    expected = {1: ["22.53", "22.53"], 3: []}
    for members, printed in expected.items():
        for made in folders[:members]:
            shutil.copy(made / "sun.safetensors", made / "mine.safetensors")
        result = measured([from_folder(made) for made in folders], "ora", ensemble=True)
        average = result.cell(result.subject_names[-1], "ORA", "average", "fpr95")
        assert [value.printed for value in average.published] == printed
        assert not result.cell("resnet50-scl", "ORA", "average", "fpr95").published


def test_other_samples_than_the_papers_are_not_compared(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare, "_MAY_LACK", 0.01)
    assert not any(cell.published for cell in measured(from_folder(folder), "ora").cells)


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ({"protocol": "cifr10", "backbone": "resnet18-scl"}, "did you mean 'cifar10'"),
        ({"protocol": "cifar10", "backbone": "resnet18scl"}, "did you mean 'resnet18-scl'"),
        ({"protocol": "openood-cifar1O"}, "did you mean 'openood-cifar10'"),
        ({"backbone": "resnet18-scl"}, "no protocol: name the protocol too"),
    ],
)
def test_a_misspelt_protocol_or_backbone_is_said(tmp_path: Path, about: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        from_folder(make_folder(tmp_path / "made", about=about))


@pytest.mark.parametrize("about", [None, {"protocol": "own"}, {"protocol": "cifar10"}])
def test_validation_sets_are_never_judged(tmp_path: Path, about: dict[str, str] | None) -> None:
    made = make_folder(tmp_path / "made", about=about)
    for name in ("id_val", "ood_val"):
        shutil.copy(made / "svhn.safetensors", made / f"{name}.safetensors")
    assert list(from_folder(made).ood) == ["isun", "places365", "svhn", "textures"]
    for path in (made / f"{name}.safetensors" for name in ("isun", "places365", "svhn", "textures")):
        path.unlink()
    with pytest.raises(InputError, match="holds no OOD set"):
        from_folder(made)


# ---------------------------------------------------------------------- going on


def test_a_run_goes_on_with_the_scores_that_are_missing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject, entries = from_folder(folder), parse_specs(["ora", "msp", "knn"])
    whole = Scorer(subject, entries).run()
    original = Scorer._score_set

    def stops(self: Scorer, name: str, *args: Any) -> None:
        if name == "isun":
            raise KeyboardInterrupt
        original(self, name, *args)

    monkeypatch.setattr(Scorer, "_score_set", stops)
    with pytest.raises(KeyboardInterrupt):
        Scorer(subject, entries, cache=tmp_path).run()
    monkeypatch.undo()
    kept = len(list(tmp_path.glob("*.safetensors")))
    assert 0 < kept < 15
    resumed = Scorer(subject, entries, cache=tmp_path).run()
    assert resumed.reused == kept
    again = Scorer(subject, entries, cache=tmp_path).run()
    assert again.reused == 15
    assert again.fit_seconds == 0
    for label, sets in whole.values.items():
        for name, values in sets.items():
            assert np.array_equal(values, resumed.values[label][name])
            assert np.array_equal(values, again.values[label][name])


def test_scores_of_other_features_options_or_code_are_not_reused(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Scorer(from_folder(folder), parse_specs(["knn"]), cache=tmp_path).run()
    other = make_folder(tmp_path / "other", seed=1)
    assert Scorer(from_folder(other), parse_specs(["knn"]), cache=tmp_path).run().reused == 0
    assert Scorer(from_folder(folder), parse_specs(["knn?k=3"]), cache=tmp_path).run().reused == 0
    assert Scorer(from_folder(folder), parse_specs(["knn"]), cache=tmp_path).run().reused == 5
    monkeypatch.setattr(score_cache, "code_behind", lambda *_: "changed")
    assert Scorer(from_folder(folder), parse_specs(["knn"]), cache=tmp_path).run().reused == 0


def test_damaged_scores_are_computed_again(folder: Path, tmp_path: Path) -> None:
    first = Scorer(from_folder(folder), parse_specs(["msp"]), cache=tmp_path).run()
    damaged = next(tmp_path.glob("*.safetensors"))
    damaged.write_bytes(damaged.read_bytes()[:40])
    second = Scorer(from_folder(folder), parse_specs(["msp"]), cache=tmp_path).run()
    assert second.reused == 4
    assert all(
        np.array_equal(first.values["MSP"][name], second.values["MSP"][name]) for name in first.values["MSP"]
    )


# ---------------------------------------------------------------------- folders


def test_scores_that_need_labels_are_left_out_with_their_reason(tmp_path: Path) -> None:
    """Also those that need no class means: they used to end the whole run."""
    folder = make_folder(tmp_path / "unlabelled")
    rows = load_file(folder / "id_fit.safetensors")["features"]
    save_file({"features": rows}, folder / "id_fit.safetensors")
    weighted = "ora?aggregate=mean&class_weights=variance"
    made = measured(from_folder(folder), "ora", "mds", weighted)
    assert made.detector_names("unlabelled") == ["ORA"]
    assert made.refused["unlabelled"] == {
        "MDS": "it needs class means, scatter, and the ID data has no labels",
        "ORA aggregate=mean class_weights=variance": "it needs mean, class variances, and the ID data has no "
        "labels",
    }
    assert "unlabelled, MDS: it needs class means" in result_document(made)


def test_folders_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        from_folder(tmp_path / "nowhere")
    folder = make_folder(tmp_path / "made")
    (folder / "id_test.safetensors").rename(folder / "other.safetensors")
    with pytest.raises(InputError, match=r"neither id_test\.safetensors"):
        from_folder(folder)
    (folder / "other.safetensors").rename(folder / "id_test.safetensors")
    save_file({"features": torch.zeros(5, 3)}, folder / "svhn.safetensors")
    with pytest.raises(InputError, match="svhn: features have width 3, but the head expects 12"):
        from_folder(folder)


def test_ensembles_add_the_scores_of_the_same_samples(tmp_path: Path) -> None:
    subjects = [from_folder(make_folder(tmp_path / name, seed=seed)) for seed, name in enumerate("ab")]
    made = measured(subjects, "ora", "fdbd", ensemble=True)
    name = "ensemble of 2: a + b"
    summed = made.evaluations[name].ood_scores["ORA"]["svhn"]
    members = [made.evaluations[member].ood_scores["ORA"]["svhn"] for member in "ab"]
    assert np.array_equal(summed, members[0] + members[1])
    assert len([cell for cell in made.cells if cell.subject == name]) == 2 * 5 * 5
    make_folder(tmp_path / "c")
    save_file({"features": torch.zeros(7, WIDTH)}, tmp_path / "c" / "svhn.safetensors")
    short = from_folder(tmp_path / "c")
    with pytest.raises(InputError, match="same samples of svhn"):
        require_same_samples([subjects[0], short])
    with pytest.raises(InputError, match="at least two"):
        require_same_samples(subjects[:1])


def test_accuracy_of_the_head(folder: Path) -> None:
    subject = from_folder(folder)
    right = [(subject.head(rows.float()).argmax(1) == labels).double() for rows, labels, _ in subject.test]
    assert head_accuracy(subject.head, subject.test) == pytest.approx(float(torch.cat(right).mean()))
    assert head_accuracy(subject.head, subject.ood["svhn"]) is None
