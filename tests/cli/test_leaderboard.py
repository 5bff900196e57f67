"""`theodolite leaderboard` as a reader of it would: order, choice, forms, mistakes."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest

from command_server import run
from theodolite.benchmarks import result_of_scores
from theodolite.benchmarks.facts import SubjectFacts
from theodolite.published import load_leaderboard
from theodolite.report.tables import markdown
from theodolite.report.tables.leaderboard import (
    Standing,
    architecture_of,
    leaderboard_of,
    leaderboard_table,
    ranked,
    standings,
)

WIDE = {"COLUMNS": "220"}


def rows_of(*arguments: str) -> list[dict[str, str]]:
    done = run("leaderboard", *arguments, "--format", "csv", env=WIDE)
    assert done.code == 0, done.err
    return list(csv.DictReader(io.StringIO(done.out)))


def test_without_a_name_it_says_what_there_is() -> None:
    done = run("leaderboard", env=WIDE)
    assert done.code == 0
    assert "imagenet1k: 97 rows, ResNet50, Swin-T, ViT-B/16, RegNet_Y_16GF" in done.out
    assert "imagenet200-full-spectrum: 60 rows" in done.out


def test_rows_are_chosen_and_ordered() -> None:
    rows = rows_of("imagenet1k", "--arch", "vit-b/16", "--sort", "far", "--top", "3")
    assert [(row["score"], row["place"], row["far"]) for row in rows] == [
        ("MDS++", "1", "93.65"),
        ("RMDS++", "2", "92.99"),
        ("VIM", "3", "92.84"),
    ]
    every = rows_of("cifar10", "--sort", "accuracy")
    assert len(every) == 61
    assert every[0]["accuracy"] == "95.91 ± 0.25"
    assert every[-1]["accuracy"] == "–", "rows without one are last"
    plain = rows_of("imagenet200", "--training", "crossentropy", "--full-spectrum")
    assert {row["training"] for row in plain} == {"CrossEntropy"}
    assert plain[0] | {"remark": ""} == {
        "score": "Gram", "place": "1", "near": "61.23 ± 0.74", "far": "65.26 ± 0.31", "remark": "",
        "accuracy": "43.92 ± 0.12", "training": "CrossEntropy", "architecture": "ResNet18",
    }  # fmt: skip


def test_caveats_come_with_every_form() -> None:
    for form in ("screen", "md", "tex", "json"):
        done = run("leaderboard", "imagenet1k", "--top", "2", "--format", form, env=WIDE)
        assert done.code == 0, done.err
        text = " ".join(done.out.split())
        assert "OOD validation data" in text, form
        assert "no FPR95" in text
        assert "ORA is not among the rows" in text
        assert "the two may be exchanged" in text
    told = json.loads(done.out)
    assert [row["score"] for row in told["rows"]] == ["CombOOD", "AdaSCALE-A"]
    assert told["rows"][0]["remark"].endswith("suspect, see below")


def test_figures_of_single_sets_are_shown_where_they_are_published() -> None:
    done = run("leaderboard", "cifar100", "--sets", "--top", "1", "--format", "csv", env=WIDE)
    assert "SCALE,79.26 ± 0.10,82.71 ± 0.14," in done.out
    assert "i-ODIN,59.09 ± 0.62," in done.out
    told = json.loads(run("leaderboard", "imagenet1k", "--sets", "--format", "json").out)
    assert {found["postprocessor"] for found in told["sets"]} == {"SCALE", "i-ODIN"}


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("cifar11",), "no leaderboard is called 'cifar11'; did you mean"),
        (("cifar10", "--full-spectrum"), "has no such table of cifar10"),
        (("imagenet1k", "--arch", "ResNet-51"), "did you mean 'ResNet50'"),
        (("imagenet1k", "--training", "magic"), "has no training 'magic'"),
        (("imagenet1k", "--sort", "fpr"), "sort must be one of near, far, accuracy"),
        (("imagenet1k", "--format", "xml"), "--format must be one of"),
    ],
)
def test_mistakes_are_one_paragraph(arguments: tuple[str, ...], word: str) -> None:
    done = run("leaderboard", *arguments)
    assert done.code == 2
    assert word in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("model", "found"),
    [
        ("torchvision:resnet50", "ResNet50"),
        ("timm:resnet50.a1_in1k?size=224", "ResNet50"),
        ("my-resnet50", "ResNet50"),
        ("swin_t", "Swin-T"),
        ("timm:swin_tiny_patch4_window7_224.ms_in1k", "Swin-T"),
        ("torchvision:vit_b_16", "ViT-B/16"),
        ("vit-b16", "ViT-B/16"),
        ("timm:vit_base_patch16_224.augreg_in1k", "ViT-B/16"),
        ("torchvision:regnet_y_16gf", "RegNet_Y_16GF"),
        ("timm:regnety_160.tv2_in1k", "RegNet_Y_16GF"),
        ("torchvision:wide_resnet50_2", None),
        ("timm:seresnet50", None),
        ("resnet500", None),
        ("resnet18", None),
        ("timm:swin_base_patch4", None),
        ("vit-l16", None),
        ("resnet50 and swin_t", None),
    ],
)
def test_an_architecture_is_read_from_a_name(model: str, found: str | None) -> None:
    assert architecture_of(model, load_leaderboard("imagenet1k")) == found


def test_a_measured_row_says_what_sets_it_apart() -> None:
    board = load_leaderboard("imagenet1k")
    facts = SubjectFacts("resnet50", 1000, 4, 76.3, {}, {}, board="imagenet1k")
    for name, accuracy, remark in (
        ("torchvision:resnet50", 76.3, ""),
        ("torchvision:resnet50", 80.9, "other weights, by its accuracy"),
        ("torchvision:resnet50", None, "accuracy not known: perhaps other weights"),
        ("a | b <i> `c`", 88.0, "another architecture than the leaderboard's"),
        ("timm:eva02", 88.0, "another architecture than the leaderboard's"),
    ):
        scores = {"id": np.arange(9.0), "a": np.arange(5.0), "b": np.arange(4.0)}
        groups = {"near": ["a"], "far": ["b"]}
        made = result_of_scores({"ORA": scores}, known="id", title="t", subject=name, groups=groups)
        table = leaderboard_of(replace(made, subjects={name: replace(facts, accuracy=accuracy)}), name)
        assert table is not None
        assert dict(table.rows)["ORA (measured)"][-1].text == remark
        assert {len(line.split("|")) for line in markdown(table)} == {10}, "no name makes another cell"
        assert len(table.rows) == 1 + (len(board.rows) if "another" in remark else 52)
        assert leaderboard_of(made, name) is None, "without facts nothing is known to compare"


def test_equal_rows_share_a_place_and_measured_ones_are_always_shown() -> None:
    board = load_leaderboard("imagenet1k")
    mine = Standing("mine", "78.97", "50.00", None, "my net", "", "", measured=True)
    last = Standing("last", "1.00", "99.99", "50.00", "my net", "", "", measured=True)
    rows = [*standings(board, architecture="Swin-T"), mine, last]
    placed = {row.score: place for place, row in ranked(rows)}
    assert placed["GEN"] == placed["mine"] == 3
    assert placed["RMDS"] == 5
    shown = ranked(rows, top=1)
    assert [(place, row.score) for place, row in shown] == [(1, "RMDS++"), (3, "mine"), (21, "last")]
    table = leaderboard_table(board, rows)
    cells = dict(table.rows)
    assert cells["last (measured)"][2].rank == 1, "best by far"
    assert cells["RMDS++"][1].rank == 1, "best by near"
    assert cells["mine (measured)"][3].text == "–"
