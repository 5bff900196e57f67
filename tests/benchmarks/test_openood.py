"""OpenOOD's protocols: its lists as they are, near and far, validation sets, full-spectrum."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from safetensors.torch import save_file

import theodolite as th
from command_server import run
from made_openood import LISTS, WRONG, make_openood
from small_models import Tiny
from theodolite.benchmarks import (
    ArraySet,
    Protocol,
    ProtocolSet,
    RunResult,
    Subject,
    from_folder,
    result_of_scores,
)
from theodolite.benchmarks import run as run_bench
from theodolite.benchmarks.datasets import Split, dataset
from theodolite.benchmarks.extraction import Extraction
from theodolite.benchmarks.full_spectrum import JoinedSet, with_shifted
from theodolite.benchmarks.locate import locate
from theodolite.benchmarks.protocols import find_protocol, protocol
from theodolite.core.errors import InputError, ModelError
from theodolite.core.files import sha256
from theodolite.detectors.spec import parse_specs
from theodolite.evaluation import fpr_at_tpr_ood_positive
from theodolite.features.settings import Running
from theodolite.published import load_leaderboard, load_set_figures
from theodolite.report.documents import write_files

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


def count(part: ProtocolSet) -> int | None:
    assert part.dataset is not None
    return dataset(part.dataset).split(part.split).count


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


def result_in(out: Path) -> RunResult:
    return RunResult.from_json(json.loads((out / "results.json").read_text(encoding="utf-8")))


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


# ---------------------------------------------------------------------- feature folders and leaderboards


def make_features(
    folder: Path, counts: Mapping[str, int], about: Mapping[str, str], classes: int = 10
) -> Path:
    """Features of width 4 around class means, OOD sets around the origin."""
    rng = torch.Generator().manual_seed(0)
    folder.mkdir(parents=True)
    weight = torch.randn(classes, 4, generator=rng)
    save_file({"weight": weight, "bias": torch.zeros(classes)}, folder / "head.safetensors")
    for name, size in counts.items():
        labels = torch.arange(size) % classes
        known = name.startswith("id_") or name == "cifar10c"
        noise = torch.randn(size, 4, generator=rng)
        content = {"features": (noise + 2 * weight[labels] * known).half()}
        save_file(content | ({"labels": labels.short()} if known else {}), folder / f"{name}.safetensors")
    (folder / "about.json").write_text(json.dumps(about))
    return folder


def of_protocol(known: Protocol) -> dict[str, int]:
    whole = {part.name: count(part) or 0 for part in (known.test, *known.ood)}
    return {"id_fit": 900, **whole}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A feature folder with as many samples as OpenOOD's CIFAR-10 benchmark."""
    counts = of_protocol(protocol("openood-cifar10")) | {"id_val": 12, "ood_val": 9, "cifar10c": 10_000}
    about = {"name": "my-resnet18", "protocol": "openood-cifar10"}
    return make_features(tmp_path_factory.mktemp("whole") / "folder", counts, about)


def test_measured_rows_stand_among_the_published_ones(whole: Path, tmp_path: Path) -> None:
    done = run("bench", f"features:{whole}", "--detector", "msp", "--detector", "energy",
               "-o", tmp_path, "--cache", tmp_path / "cache", "--force", env={"COLUMNS": "250"})  # fmt: skip
    assert done.code == 0, done.err
    result = result_in(tmp_path)
    assert result.subjects["my-resnet18"].board == "cifar10"
    assert result.ood_names("my-resnet18") == [*NEAR, *FAR], "validation and shifted sets are not judged"
    near, energy = (result.cell("my-resnet18", name, "near", "auroc").value for name in ("MSP", "Energy"))
    others = [row.near.value for row in load_leaderboard("cifar10").rows]
    place, other = (
        1 + sum(value > round(mine, 2) for value in (*others, round(rival, 2)))
        for mine, rival in ((near, energy), (energy, near))
    )
    line = next(line for line in done.out.splitlines() if "MSP (measured)" in line)
    assert line.split()[2:4] == [str(place), f"{near:.2f}"]
    assert place > 15, "it is shown all the same"
    hidden = len(others) + 2 - 15 - sum(found > 15 for found in (place, other))
    assert f"among 63 rows; {hidden} rows are not shown" in " ".join(done.out.split())
    assert "other weights, by its accuracy" in line
    document = (tmp_path / "results.md").read_text(encoding="utf-8")
    assert "OpenOOD v1.5 leaderboard, CIFAR-10, with my-resnet18" in document
    assert f"| MSP (measured) | {place} | {near:.2f} |" in document
    assert document.count("| CrossEntropy | ResNet18 |") == 32
    assert "chosen on the protocol's OOD validation data" in document
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "MSP (measured)" in page
    assert "ORA is not among the rows" in page


def test_figures_that_do_not_compare_are_not_placed(whole: Path, tmp_path: Path) -> None:
    """A set that is short, lists of one's own, other classes, full-spectrum without such a table."""
    counts = of_protocol(protocol("openood-cifar10"))
    for place, (change, about, classes) in enumerate(
        (
            ({"tin": 7_000}, "openood-cifar10", 10),
            ({"id_test": 8_000}, "openood-cifar10", 10),
            ({}, "openood-cifar10-own-lists", 10),
            ({}, "openood-cifar100", 10),
            ({}, "openood-cifar10", 11),
        )
    ):
        folder = make_features(tmp_path / str(place), counts | change, {"protocol": about}, classes)
        result = run_bench([from_folder(folder)], parse_specs(["msp"]), title="t", command="c", force=True)
        assert result.subjects[str(place)].board is None, (change, about)
    subject = from_folder(whole, full_spectrum=True)
    assert len(subject.test) == 19_000
    result = run_bench([subject], parse_specs(["msp"]), title="t", command="c", force=True)
    assert result.subjects["my-resnet18"].board is None, "the leaderboard has no full-spectrum CIFAR-10"


def test_a_folder_of_an_unknown_protocol_cannot_be_full_spectrum(tmp_path: Path) -> None:
    folder = make_features(tmp_path / "made", {"id_fit": 30, "id_test": 20, "far": 10}, {})
    with pytest.raises(InputError, match="names no protocol that says which sets those are"):
        from_folder(folder, full_spectrum=True)


def test_joined_sets_are_one_set() -> None:
    rng = torch.Generator().manual_seed(0)
    rows = {name: torch.randn(5, 3, generator=rng) for name in "abc"}
    first, second = ArraySet(rows["a"], torch.arange(5) % 2), ArraySet(rows["b"], torch.arange(5) % 2)
    joined = JoinedSet({"a": first, "b": second})
    assert torch.equal(torch.cat([batch for batch, *_ in joined]), torch.cat([rows["a"], rows["b"]]))
    assert len(joined) == 10
    assert joined.labelled
    assert joined.digest != JoinedSet({"b": second, "a": first}).digest
    assert joined.samples == JoinedSet({"a": first, "b": second}).samples
    bare = JoinedSet({"a": first, "c": ArraySet(rows["c"])})
    assert not bare.labelled
    assert all(labels is None for _, labels, _ in bare), "accuracy on a part would pass for that on all"
    with pytest.raises(InputError, match="c: features have width 2, but those before it have 3"):
        JoinedSet({"a": first, "c": ArraySet(rows["c"][:, :2])})
    head = th.Head(torch.randn(2, 3, generator=rng), torch.zeros(2))
    subject = Subject("m", head, first, first, {"far": second})
    assert with_shifted(subject, {"b": second}).shifted == {"b": 5}
    with pytest.raises(InputError, match="cannot be called 'near'"):
        Subject("m", head, first, first, {"near": second}, groups={"near": ("near",)})


def test_groups_of_scores_of_ones_own_are_checked() -> None:
    sets = {"id": np.arange(9.0), "a": np.arange(5.0), "b": np.arange(4.0)}
    made = result_of_scores({"mine": sets}, known="id", title="t", groups={"near": ["a"]})
    assert made.cell("model", "mine", "near", "auroc").value == made.cell("model", "mine", "a", "auroc").value
    for groups, word in (
        ({"near": ["a", "c"]}, "expected OOD sets that have scores: a, b"),
        ({"near": []}, "is over no set"),
        ({"a": ["b"]}, "cannot be called 'a'"),
        ({"average": ["b"]}, "cannot be called 'average'"),
    ):
        with pytest.raises(InputError, match=word):
            result_of_scores({"mine": sets}, known="id", title="t", groups=groups)


# ---------------------------------------------------------------------- a published run


def test_scores_of_scale_give_its_published_figures_to_every_digit(data_root: Path, tmp_path: Path) -> None:
    """Scores of three networks on OpenOOD's CIFAR-10 sets: each figure, near and far, mean ± deviation."""
    published = load_set_figures("cifar10-scale")
    runs = []
    for seed in range(3):
        arrays = load_file(data_root / "scale-scores" / f"cifar10_seed{seed}.safetensors")
        sets = {name: arrays[name].astype(np.float64) for name in ("id", *published.sets)}
        groups = protocol("openood-cifar10").groups
        runs.append(result_of_scores({"SCALE": sets}, known="id", title="t", groups=groups))
    assert runs[0].groups("model") == published.groups
    for column, figures in {**published.sets, **published.means}.items():
        for metric in ("fpr95_ood_positive", "auroc", "aupr_in", "aupr_out"):
            values = [result.cell("model", "SCALE", column, metric).value for result in runs]
            assert spread(values) == figures[metric].text, (column, metric)
    write_files(runs[0], tmp_path)
    assert "near is the mean over cifar100, tin" in (tmp_path / "results.md").read_text(encoding="utf-8")
    assert result_in(tmp_path).cells == runs[0].cells


def spread(values: list[float]) -> str:
    return f"{np.mean(values):.2f} ± {np.std(values):.2f}"
