"""OpenOOD's protocols from features and scores: leaderboards beside them, joined sets, published figures."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from safetensors.torch import save_file

import theodolite as th
from command_server import run
from made_openood import count, result_in
from theodolite.benchmarks import (
    ArraySet,
    Protocol,
    Subject,
    from_folder,
    result_of_scores,
)
from theodolite.benchmarks import run as run_bench
from theodolite.benchmarks.full_spectrum import JoinedSet, with_shifted
from theodolite.benchmarks.protocols import protocol
from theodolite.core.errors import InputError
from theodolite.detectors.spec import parse_specs
from theodolite.published import load_leaderboard, load_set_figures
from theodolite.report.documents import write_files

MODEL = "python:small_models:Tiny?mean=0&size=8"
NEAR, FAR = ("cifar100", "tin"), ("mnist", "svhn", "texture", "places365")
METRICS = ("fpr95", "auroc", "aupr_in", "aupr_out", "fpr95_ood_positive")


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
