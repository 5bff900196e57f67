"""OpenOOD's protocols: its lists as they are, near and far, validation sets, full-spectrum."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import theodolite as th
from command_server import run
from made_openood import LISTS, WRONG, count, make_openood, result_in
from small_models import Tiny
from theodolite.benchmarks import (
    Subject,
    from_folder,
)
from theodolite.benchmarks.datasets import Split, dataset
from theodolite.benchmarks.extraction import Extraction
from theodolite.benchmarks.locate import locate
from theodolite.benchmarks.protocols import find_protocol, protocol
from theodolite.core.errors import InputError, ModelError
from theodolite.core.files import sha256
from theodolite.evaluation import fpr_at_tpr_ood_positive
from theodolite.features.settings import Running

MODEL = "python:small_models:Tiny?mean=0&size=8"
NEAR, FAR = ("cifar100", "tin"), ("mnist", "svhn", "texture", "places365")
METRICS = ("fpr95", "auroc", "aupr_in", "aupr_out", "fpr95_ood_positive")
# The paper's table of the benchmark: ID val, ID test, OOD val, near, far, shifted ID.
COUNTS = {
    "cifar10": (1_000, 9_000, 1_000, (9_000, 7_793), (70_000, 26_032, 5_640, 35_195), (10_000,)),
    "cifar100": (1_000, 9_000, 972, (10_000, 6_526), (70_000, 26_032, 5_640, 33_773), ()),
    "imagenet200": (1_000, 9_000, 1_763, (49_000, 5_879), (10_000, 5_160, 15_869), (2_000, 2_000, 30_000)),
    "imagenet1k": (5_000, 45_000, 1_763, (49_000, 5_879), (10_000, 5_160, 15_869), (10_000, 10_000, 30_000)),
}


# ---------------------------------------------------------------------- the facts


@pytest.mark.parametrize("name", COUNTS)
def test_the_sets_of_a_protocol_have_openoods_samples(name: str) -> None:
    known = protocol(f"openood-{name}")
    assert known.validation is not None
    val, test, ood_val, near, far, shifted = COUNTS[name]
    assert (count(known.validation.known), count(known.test), count(known.validation.ood)) == (
        val,
        test,
        ood_val,
    )
    by_group = {group: tuple(count(p) for p in known.ood if p.group == group) for group in ("near", "far")}
    assert by_group == {"near": near, "far": far}
    assert tuple(count(part) for part in known.shifted) == shifted
    assert list(known.groups) == ["near", "far"]
    judged = {(part.dataset, part.split) for part in (*known.sets, *known.shifted)}
    assert not judged & {(part.dataset, part.split) for part in known.tuning}, "never judged"


def test_counts_and_digests_are_those_of_the_public_lists(data_root: Path) -> None:
    facts = data_root.resolve().parent / "openood" / "imglist_counts.txt"
    if not facts.is_file():
        pytest.skip("the counts of the lists are not beside THEODOLITE_DATA")
    found = re.findall(r"^(\d+) ([0-9a-f]{12}) .*benchmark_imglist/(\S+)$", facts.read_text(), re.M)
    known = {(path, int(lines), digest) for lines, digest, path in found}
    compared = 0
    for name in COUNTS:
        for split in dataset(f"openood-{name}").splits.values():
            if split.digest is not None:
                path = split.places[0].removeprefix("openood/benchmark_imglist/")
                assert (path, split.count, split.digest) in known
                compared += 1
    assert compared == 43


def test_settings_may_be_chosen_on_sets_that_are_exposed() -> None:
    known = protocol("openood-imagenet1k")
    assert [(part.name, part.split) for part in known.tuning] == [
        ("id_val", "val_imagenet"),
        ("ood_val", "val_openimage_o"),
    ]
    assert protocol("cifar10").tuning == ()


# ---------------------------------------------------------------------- lists on disk


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("root")
    make_openood(folder)
    return folder


def lists(root: Path) -> Path:
    return root / "openood" / "benchmark_imglist" / "cifar10"


def test_a_list_is_known_by_its_digest(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    splits = dataset("openood-cifar10").splits
    path = lists(root) / "test_tin.txt"
    real = Split(25, splits["test_tin"].places, "list", images="images_classic", digest=sha256(path)[:12])
    monkeypatch.setitem(splits, "test_tin", real)
    found = locate("openood-cifar10", "test_tin", root, verify=True)
    assert found.detail == "25 samples, list as the original"
    source = found.open()
    assert (len(source), source[3].id, source[3].label) == (25, "test_tin/3.png", None)
    lines = path.read_text().splitlines(keepends=True)
    try:
        path.write_text("".join(reversed(lines)))
        other = locate("openood-cifar10", "test_tin", root)
        assert other.state == "wrong"
        assert (
            f"expected {real.digest}; to use a list of your own on purpose, bench --own-lists" in other.detail
        )
        with pytest.raises(InputError, match="another list than the original"):
            other.open()
        own = locate("openood-cifar10", "test_tin", root, own=True)
        assert own.present
        assert own.own_list
        assert "by a list of one's own" in own.detail
    finally:
        path.write_text("".join(lines))


def test_a_list_that_nobody_has_shown_us_is_said_to_be_so(tmp_path: Path) -> None:
    folder = tmp_path / "openood"
    (folder / "images_largescale").mkdir(parents=True)
    (folder / "images_largescale" / "a.png").touch()
    place = folder / "benchmark_imglist" / "imagenet200"
    place.mkdir(parents=True)
    (place / "train_imagenet200.txt").write_text("a.png 0\n")
    found = locate("openood-imagenet200", "train_imagenet200", tmp_path)
    assert found.present
    assert "was not compared" in found.detail


def test_a_list_without_its_pictures_is_missing_not_present(tmp_path: Path) -> None:
    data = make_openood(tmp_path)
    gone = data / "images_classic" / "test_tin"
    (gone / "7.png").unlink()
    assert locate("openood-cifar10", "test_tin", tmp_path, own=True).present
    found = locate("openood-cifar10", "test_tin", tmp_path, own=True, verify=True)
    assert found.state == "missing"
    assert "1 of 25 of its pictures are not" in found.detail
    gone.rename(tmp_path / "elsewhere")
    found = locate("openood-cifar10", "test_tin", tmp_path, own=True)
    assert found.state == "missing"
    assert "test_tin/0.png" in found.detail


def test_own_lists_are_another_protocol() -> None:
    known = protocol("openood-cifar10")
    own = known.with_own_lists()
    assert own.name == "openood-cifar10-own-lists"
    assert "lists of one's own" in own.title
    assert own.with_own_lists() == own == find_protocol(own.name)
    assert own.groups == known.groups
    assert all(part.own for part in (*own.sets, *own.shifted, *own.tuning))
    with pytest.raises(InputError, match="cifar10 has no lists of pictures"):
        protocol("cifar10").with_own_lists()


# ---------------------------------------------------------------------- bench


def bench(root: Path, out: Path, *more: str) -> tuple[str | Path, ...]:
    given = ("--model", MODEL, "--root", root, "--cache", out / "cache", "-o", out, "--workers", "0")
    return ("bench", "openood-cifar10", *given, "--detector", "msp", "--detector", "ora", *more)


@pytest.fixture(scope="module")
def plain(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of a run on lists of one's own."""
    out = tmp_path_factory.mktemp("plain")
    done = run(*bench(root, out, "--own-lists"), env={"COLUMNS": "200"})
    assert done.code == 0, done.err
    assert done.err.count("by a list of one's own") == 8, "said of every list, once"
    assert "FPR95 (OOD positive) ↓ in %" in done.out
    legend = "near is the mean over cifar100, tin; far is the mean over mnist, svhn, texture, places365"
    assert legend in " ".join(done.out.split())
    assert "leaderboard" not in done.out, "nothing published compares with lists of one's own"
    return out


def test_other_lists_are_refused_unless_on_purpose(root: Path, tmp_path: Path) -> None:
    done = run(*bench(root, tmp_path))
    assert done.code == 2
    assert "holds 90 samples, expected 50,000; to use a list of your own on purpose" in done.err
    shown = run("data", "--root", root, env={"COLUMNS": "400"})
    assert shown.code == 1
    assert "holds 25 samples, expected 7,793" in shown.out
    assert "openood-imagenet1k: needs all of its 7 lists and their pictures" in shown.out


def test_near_and_far_are_means_over_their_sets_in_every_view(plain: Path) -> None:
    result = result_in(plain)
    assert result.groups(MODEL) == {"near": NEAR, "far": FAR}
    assert result.ood_names(MODEL) == [*NEAR, *FAR]
    for detector in ("MSP", "ORA"):
        for metric in METRICS:
            for group, sets in (("near", NEAR), ("far", FAR), ("average", (*NEAR, *FAR))):
                values = [result.cell(MODEL, detector, part, metric).value for part in sets]
                found = result.cell(MODEL, detector, group, metric)
                assert found.value == pytest.approx(np.mean(values), abs=1e-5)
                assert found.over == (sets if group != "average" else ())
    near = f"{result.cell(MODEL, 'MSP', 'near', 'fpr95_ood_positive').value:.2f}"
    for name in ("results.csv", "results.md", "results.tex", "report.html"):
        text = (plain / name).read_text(encoding="utf-8")
        assert "near" in text
        assert near in text, name
    assert json.loads((plain / "results.json").read_text())["protocol"] == "openood-cifar10-own-lists"
    page = (plain / "report.html").read_text(encoding="utf-8")
    assert "far is the mean over mnist, svhn, texture, places365." in page


def test_a_group_that_lacks_a_set_has_no_mean_and_that_is_said(tmp_path: Path) -> None:
    make_openood(tmp_path / "root", leave_out=("test_tin",))
    done = run(*bench(tmp_path / "root", tmp_path, "--own-lists"), env={"COLUMNS": "200"})
    assert done.code == 0, done.err
    assert "tin is missing: not below the data root" in done.out
    reason = "near is missing: it is the mean over cifar100, tin, and tin is not here"
    assert reason in done.out
    result = result_in(tmp_path)
    assert result.groups(MODEL) == {"far": FAR}
    with pytest.raises(InputError, match="no cell for"):
        result.cell(MODEL, "MSP", "near", "auroc")
    for name in ("results.md", "report.html"):
        assert reason in (tmp_path / name).read_text(encoding="utf-8")


@pytest.mark.filterwarnings("ignore:.* by a list of one's own")
def test_stores_of_other_weights_do_not_stand_in_for_pictures(root: Path, tmp_path: Path) -> None:
    weights = {name: value.clone() for name, value in Tiny().state_dict().items()}
    save_file(weights, tmp_path / "one.safetensors")
    save_file({name: -value for name, value in weights.items()}, tmp_path / "two.safetensors")
    known = protocol("openood-cifar10").with_own_lists()
    here, gone = (
        Extraction(known, tmp_path / "cache", place, Running(workers=0)) for place in (root, tmp_path)
    )
    digests = here.subject(MODEL, tmp_path / "one.safetensors").digests
    assert gone.subject(MODEL, tmp_path / "one.safetensors").digests == digests
    with pytest.raises(InputError, match="its store has features of other weights"):
        gone.subject(MODEL, tmp_path / "two.safetensors")
    with pytest.raises(InputError, match=r"of the checkpoint .*one\.safetensors, which is not asked for"):
        gone.subject(MODEL)
    (tmp_path / "one.safetensors").unlink()
    with pytest.raises(ModelError, match=r"one\.safetensors does not exist"):
        gone.subject(MODEL, tmp_path / "one.safetensors")


def test_full_spectrum_counts_shifted_data_as_id(root: Path, plain: Path, tmp_path: Path) -> None:
    done = run(*bench(root, tmp_path, "--own-lists", "--full-spectrum"), env={"COLUMNS": "200"})
    assert done.code == 0, done.err
    result = result_in(tmp_path)
    rows = LISTS["test_cifar10"][0] + LISTS["test_cifar10c"][0]
    facts = result.subjects[MODEL]
    assert facts.samples["id_test"] == rows
    assert facts.shifted == {"cifar10c": LISTS["test_cifar10c"][0]}
    wrong = sum(-(-LISTS[name][0] // WRONG) for name in ("test_cifar10", "test_cifar10c"))
    assert facts.accuracy == pytest.approx(100 * (1 - wrong / rows), abs=1e-5), "labels of both count"
    (folder,) = (tmp_path / "cache" / "bench").glob("openood-cifar10-own-lists/*")
    subject = from_folder(folder)
    assert list(subject.ood) == [*NEAR, *FAR], "shifted data are no OOD set"
    known = np.concatenate([scores(subject, folder, name) for name in ("id_test", "cifar10c")])
    strange = scores(subject, folder, "tin")
    cell = result.cell(MODEL, "MSP", "tin", "fpr95_ood_positive")
    assert cell.value == pytest.approx(100 * fpr_at_tpr_ood_positive(known, strange), abs=1e-4)
    assert cell != result_in(plain).cell(MODEL, "MSP", "tin", "fpr95_ood_positive")
    text = (tmp_path / "results.md").read_text(encoding="utf-8")
    assert "Full-spectrum: id_test counts shifted ID data as ID, namely cifar10c 33" in text
    assert "namely cifar10c 33" in (tmp_path / "report.html").read_text(encoding="utf-8")
    again = run(
        "bench", f"features:{folder}", "--full-spectrum", "--detector", "msp", "--detector", "ora",
        "-o", tmp_path / "again", "--cache", tmp_path / "other",
    )  # fmt: skip
    assert again.code == 0, again.err
    assert result_in(tmp_path / "again").cells == result.cells


def scores(subject: Subject, folder: Path, name: str) -> np.ndarray:
    """MSP of a set, from its own store."""
    features = torch.cat([batch for batch, *_ in th.FeatureStore(folder / name).batches()])
    return torch.softmax(subject.head(features.float()), dim=1).amax(dim=1).double().numpy()


def test_full_spectrum_needs_every_shifted_set(root: Path, tmp_path: Path) -> None:
    make_openood(tmp_path / "root", leave_out=("test_cifar10c",))
    done = run(*bench(tmp_path / "root", tmp_path, "--own-lists", "--full-spectrum"))
    assert done.code == 2
    assert "openood-cifar10-own-lists, full-spectrum: cifar10c is missing" in done.err
    for arguments, word in (
        (("bench", "openood-cifar100", "--model", MODEL, "--full-spectrum"), "has no shifted ID data"),
        (("bench", "features:nowhere", "--own-lists"), "--own-lists is for lists of pictures"),
    ):
        done = run(*arguments, "--root", root)
        assert done.code == 2
        assert word in done.err
