"""OpenOOD's leaderboard is the one that was published, digit by digit, and its means are means."""

from __future__ import annotations

import doctest
import hashlib
import re
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from theodolite.core.errors import InputError
from theodolite.published import (
    Figure,
    find_leaderboard,
    leaderboard,
    list_leaderboards,
    list_set_figures,
    load_leaderboard,
    load_set_figures,
)

FILES = files("theodolite.published").joinpath("openood")
# Counted in the files that were published, and their sha256: name there, rows, digest.
BOARDS = {
    "cifar10": ("cifar10", 61, "6b6ea7770c027b090a3baaf383b01b3cf010d933f94de348e23d83db19d017b2"),
    "cifar100": ("cifar100", 57, "034e91add20a1f27e36273863fe1dfcd0bec71b5e0e29b7a1cc9b2972ce70174"),
    "imagenet200": (
        "imagenet200_ood",
        56,
        "3bf340c448a2fb4c72e9e0aeb8c29afd26dbb1b4189649412cacd4dc8f450884",
    ),
    "imagenet200-full-spectrum": (
        "imagenet200_fsood",
        60,
        "543b21f9690301dff35179f9deccd2608dcc490c9c45102cf9cbb71512951257",
    ),
    "imagenet1k": (
        "imagenet1k_ood",
        97,
        "d0a3d698976b52fe88762f13f8bf25e485f72a87f351362e4eb3f4b3d9dddde9",
    ),
    "imagenet1k-full-spectrum": (
        "imagenet1k_fsood",
        83,
        "86f4cd65619ca9710a2aecfadb4445be061c74b56464f3919e046a4d33b19e72",
    ),
}
SCALE = "SCALE_results_{}_scale"
SETS = {
    "cifar10-scale": SCALE.format("cifar10_resnet18_32x32_base_e100_lr0.1_default_ood"),
    "cifar10-i-odin": "iodin_cifar10",
    "cifar100-scale": SCALE.format("cifar100_resnet18_32x32_base_e100_lr0.1_default_ood"),
    "cifar100-i-odin": "iodin_cifar100",
    "imagenet200-scale": SCALE.format("imagenet200_resnet18_224x224_base_e90_lr0.1_default_ood"),
    "imagenet200-i-odin": "iodin_imagenet200",
    "imagenet200-full-spectrum-scale": SCALE.format(
        "imagenet200_resnet18_224x224_base_e90_lr0.1_default_fsood"
    ),
    "imagenet1k-scale": SCALE.format("imagenet_resnet50_tvsv1_base_default_ood"),
    "imagenet1k-ish-scale": SCALE.format("ish_ood"),
    "imagenet1k-i-odin": "iodin_imagenet",
    "imagenet1k-full-spectrum-scale": SCALE.format("imagenet_resnet50_tvsv1_base_default_fsood"),
    "imagenet1k-full-spectrum-ish-scale": SCALE.format("ish_fsood"),
}
# sha256 over the sha256 of each, in that order.
SETS_DIGEST = "c2875606f72e58723ad4366c572fc9ff588c809af86a3feba82dde8db2daede3"

# Read off the tables by eye: board, training, post-processor, architecture, near, far, accuracy.
SPOTS = [
    ("cifar10", "CrossEntropy", "KNN", "ResNet18", "90.64 ± 0.20", "92.96 ± 0.14", "95.06 ± 0.30"),
    ("cifar10", "CIDER", "KNN", "ResNet18", "90.71 ± 0.16", "94.71 ± 0.36", None),
    ("cifar100", "CrossEntropy", "fDBD", "ResNet18", "81.26 ± 0.00", "79.85 ± 0.00", "77.18 ± 0.00"),
    ("imagenet200", "RegMixup", "MSP", "ResNet18", "84.13 ± 0.27", "90.81 ± 0.38", "87.25 ± 0.57"),
    ("imagenet200-full-spectrum", "CIDER", "KNN", "ResNet18", "51.34 ± 1.07", "68.25 ± 2.46", None),
    ("imagenet1k", "CrossEntropy", "MDS++", "Swin-T", "80.54", "94.6", "81.6"),
    ("imagenet1k", "RandAugment", "ASH", "ResNet50", "79.81", "95.01", "76.9"),
    ("imagenet1k", "CrossEntropy", "RMDS", "RegNet_Y_16GF", "84.92", "94.44", "86.11"),
    ("imagenet1k-full-spectrum", "CrossEntropy", "NNGuide", "RegNet_Y_16GF", "71.85", "92.24", "73.28"),
]  # fmt: skip


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def shipped(name: str) -> bytes:
    return FILES.joinpath(*f"{name}.csv".split("/")).read_bytes()


@pytest.fixture
def originals(data_root: Path) -> Path:
    folder = data_root.resolve().parent / "openood"
    if not folder.is_dir():
        pytest.skip("the published files are not beside THEODOLITE_DATA")
    return folder


def test_the_tables_are_the_published_ones() -> None:
    assert list_leaderboards() == list(BOARDS)
    for name, (_, rows, published) in BOARDS.items():
        assert len(load_leaderboard(name).rows) == rows
        assert digest(shipped(name)) == published, name
    assert list_set_figures() == list(SETS)
    digests = " ".join(digest(shipped(f"sets/{name}")) for name in SETS)
    assert digest(digests.encode()) == SETS_DIGEST


def test_the_files_are_those_beside_the_data(originals: Path) -> None:
    for name, (file, *_) in BOARDS.items():
        assert shipped(name) == (originals / f"{file}.csv").read_bytes()
    for name, file in SETS.items():
        assert shipped(f"sets/{name}") == (originals / "published" / f"{file}.csv").read_bytes()


def test_every_row_comes_back_as_it_was_printed() -> None:
    for name in BOARDS:
        lines = shipped(name).decode().splitlines()[1:]
        for line, row in zip(lines, load_leaderboard(name).rows, strict=True):
            accuracy = "/" if row.accuracy is None else row.accuracy.text
            outliers = "Yes" if row.outliers else "No"
            figures = [row.near.text, row.far.text, accuracy]
            again = [row.training, row.postprocessor, *figures, outliers, row.architecture, row.description]
            assert ",".join(again) == line
            assert all(0 < figure.value < 100 for figure in (row.near, row.far))


@pytest.mark.parametrize("spot", SPOTS, ids=lambda spot: " ".join(map(str, spot[:4])))
def test_cells_read_off_the_tables(spot: tuple[str, ...]) -> None:
    board, training, postprocessor, architecture, *figures = spot
    (row,) = (
        row
        for row in load_leaderboard(board).rows
        if (row.training, row.postprocessor, row.architecture) == (training, postprocessor, architecture)
    )
    accuracy = None if row.accuracy is None else row.accuracy.text
    assert [row.near.text, row.far.text, accuracy] == figures


@pytest.mark.parametrize("name", SETS)
def test_near_and_far_are_unweighted_means_of_their_sets(name: str) -> None:
    """A printed figure is within 0.005 of its own, so is a mean of printed ones: together within 0.01."""
    found = load_set_figures(name)
    for group, sets in found.groups.items():
        for metric in ("fpr95_ood_positive", "auroc", "aupr_in", "aupr_out"):
            mean = np.mean([found.sets[part][metric].value for part in sets])
            assert abs(mean - found.means[group][metric].value) <= 0.01 + 1e-9, (group, metric)


@pytest.mark.parametrize("name", SETS)
def test_the_leaderboard_prints_the_means_of_its_rows_own_files(name: str) -> None:
    found = load_set_figures(name)
    wanted = (found.training, found.postprocessor, found.architecture)
    board = load_leaderboard(found.board)
    (row,) = (r for r in board.rows if (r.training, r.postprocessor, r.architecture) == wanted)
    assert (row.near, row.far) == (found.means["near"]["auroc"], found.means["far"]["auroc"])
    accuracies = {figures["accuracy"] for figures in (*found.sets.values(), *found.means.values())}
    if accuracies != {row.accuracy}:
        notes = [caveat.note for caveat in board.caveats if caveat.row == row.postprocessor]
        assert any(figure.text in note for note in notes for figure in accuracies), "a caveat tells of it"


def test_caveats_name_what_is_there() -> None:
    for name in BOARDS:
        board = load_leaderboard(name)
        text = " ".join(caveat.note for caveat in board.caveats)
        assert "OOD validation data" in text
        assert "no FPR95" in text
        assert "ORA is not among the rows" in text
        assert not any(re.search(r"\bORA\b", row.postprocessor) for row in board.rows)
        for caveat in board.caveats:
            assert caveat.kind in ("unstated", "suspect", "conflict")
            assert caveat.row is None or caveat.row in {row.postprocessor for row in board.rows}


def test_near_above_far_is_suspect_only_where_both_are_good() -> None:
    """The rule of the caveat on CombOOD: by 3 points, both above 90 %."""
    for name in BOARDS:
        board = load_leaderboard(name)
        odd = {r.postprocessor for r in board.rows if r.near.value - r.far.value > 3 and r.far.value > 90}
        assert odd == {caveat.row for caveat in board.caveats if caveat.kind == "suspect"}


def test_the_leaderboard_of_a_protocol() -> None:
    assert find_leaderboard("openood-imagenet1k") == "imagenet1k"
    assert find_leaderboard("openood-imagenet1k", full_spectrum=True) == "imagenet1k-full-spectrum"
    assert find_leaderboard("openood-cifar10", full_spectrum=True) is None
    assert find_leaderboard("imagenet") is None
    assert find_leaderboard(None) is None


def test_mistakes_are_told() -> None:
    with pytest.raises(InputError, match=r"no leaderboard is called 'imagenet'.*Known: cifar10, "):
        load_leaderboard("imagenet")
    with pytest.raises(InputError, match="no file of single sets is called 'scale'"):
        load_set_figures("scale")


def test_a_figure_keeps_its_digits() -> None:
    assert Figure.parse("94.60 ± 0.10") == Figure("94.60", "0.10")
    assert (Figure.parse("94.6").text, Figure.parse("94.6").value) == ("94.6", 94.6)


def test_the_example_of_the_module_holds() -> None:
    result = doctest.testmod(leaderboard)
    assert result.attempted
    assert not result.failed
