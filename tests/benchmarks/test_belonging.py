"""A head that does not belong to the features: refused, or measured by force and said everywhere."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from command_server import run
from made_folders import CLASSES, WIDTH, make_folder
from theodolite import Head
from theodolite.benchmarks import ArraySet, BenchSettings, Highlight, Intervals, RunResult, Subject, bench
from theodolite.benchmarks import run as run_bench
from theodolite.benchmarks.asked import Asked
from theodolite.benchmarks.belonging import doubt_about
from theodolite.benchmarks.command import command_of
from theodolite.benchmarks.feature_folder import from_folder
from theodolite.benchmarks.protocols import own_protocol
from theodolite.core.errors import InputError
from theodolite.detectors.spec import parse_specs
from theodolite.report.documents import result_document
from theodolite.report.page import write_pages


def with_head(folder: Path, seed: int = 5) -> Path:
    """The folder with the head of some other classifier of the same shape."""
    rng = torch.Generator().manual_seed(seed)
    other = {"weight": torch.randn(CLASSES, WIDTH, generator=rng), "bias": torch.zeros(CLASSES)}
    # Rows of no class: orthogonal to the true ones, so that it is right as often as by chance.
    true = load_file(folder / "head.safetensors")["weight"]
    basis, _ = torch.linalg.qr(true.T)
    other["weight"] -= other["weight"] @ basis @ basis.T
    save_file(other, folder / "head.safetensors")
    return folder


def test_a_foreign_head_is_refused_and_forced(tmp_path: Path) -> None:
    folder = with_head(make_folder(tmp_path / "f"))
    settings = BenchSettings(cache=tmp_path / "cache")
    with pytest.raises(InputError, match="f, id_test: the classifier gives") as told:
        bench(f"features:{folder}", detectors=["msp"], settings=settings)
    assert "hardly more than by chance" in str(told.value)
    assert "the head does not belong to these features" in str(told.value)
    assert "--force (force=True in Python)" in str(told.value)

    forced = bench(f"features:{folder}", detectors=["msp"], settings=replace(settings, force=True))
    assert "hardly more than by chance" in forced.doubts["f"]
    assert RunResult.from_json(json.loads(json.dumps(forced.to_json()))).doubts == forced.doubts
    assert "Measured by force: f, id" in result_document(forced)
    (page,) = write_pages(forced, tmp_path / "pages")
    assert "measured by force: f, id_test" in page.read_text(encoding="utf-8")


def test_the_command_refuses_forces_and_prints_the_accuracy(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "f")
    place = ("--detector", "msp", "-o", tmp_path / "out", "--cache", tmp_path / "cache")
    good = run("bench", f"features:{folder}", *place)
    assert good.code == 0, good.err
    accuracy = json.loads((tmp_path / "out" / "results.json").read_text())["models"]["f"]["accuracy"]
    assert accuracy > 90
    assert f"f: {accuracy:.2f} % of the labels of 300 id_test samples are given by the head" in good.out
    assert "by force" not in good.out
    assert "doubts" not in json.loads((tmp_path / "out" / "results.json").read_text())

    with_head(folder)
    bad = run("bench", f"features:{folder}", *place)
    assert (bad.code, bad.out) == (2, "")
    assert "hardly more than by chance" in bad.err
    forced = run("bench", f"features:{folder}", *place, "--force")
    assert forced.code == 0, forced.err
    assert "measured by force: f, id_test" in " ".join(forced.out.split())


def test_labels_to_fit_on_that_number_other_classes_are_found(tmp_path: Path) -> None:
    """Class means of the wrong classes: the head is right about id_test, and not about id_fit."""
    folder = make_folder(tmp_path / "f")
    fit = load_file(folder / "id_fit.safetensors")
    save_file(
        {"features": fit["features"], "labels": (fit["labels"] + 1) % CLASSES}, folder / "id_fit.safetensors"
    )
    doubt = doubt_about(from_folder(folder))
    assert doubt is not None
    assert doubt.startswith("f, id_fit:")
    assert "Under other numbers its answers would be" in doubt


def test_labels_beyond_the_classes_of_the_head(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "f")
    test = load_file(folder / "id_test.safetensors")
    save_file({"features": test["features"], "labels": test["labels"] + 1}, folder / "id_test.safetensors")
    doubt = doubt_about(from_folder(folder))
    assert doubt is not None
    assert "labels go up to 4, but the head has 4 classes" in doubt


def test_where_nothing_has_labels_nothing_is_known(tmp_path: Path) -> None:
    subject = from_folder(with_head(make_folder(tmp_path / "f")))
    (fit, _, _) = next(iter(subject.fit))
    blind = Subject("blind", subject.head, ArraySet(fit), ArraySet(fit), dict(subject.ood))
    assert doubt_about(blind) is None
    done = run_bench([blind], parse_specs(["msp"]), title="", command="")
    assert done.accuracies == []


def test_a_zero_shot_head_is_held_to_chance_alone() -> None:
    """Its class means may be far better than it is: it was not trained on these labels."""
    rng = torch.Generator().manual_seed(0)
    centres = 3 * torch.randn(CLASSES, WIDTH, generator=rng)
    labels = torch.arange(2000) % CLASSES
    rows = centres[labels] + torch.randn(2000, WIDTH, generator=rng)
    weight = centres + 9 * torch.randn(CLASSES, WIDTH, generator=rng)
    sets = (ArraySet(rows[:1000], labels[:1000]), ArraySet(rows[1000:], labels[1000:]))
    ood = {"noise": ArraySet(torch.randn(50, WIDTH, generator=rng))}
    right = float((Head.cosine(weight)(rows).argmax(dim=1) == labels).float().mean())
    assert 0.4 < right < 0.8
    assert doubt_about(Subject("zero-shot", Head.cosine(weight), *sets, ood)) is None
    linear = doubt_about(Subject("linear", Head(Head.cosine(weight).weight), *sets, ood))
    assert linear is not None
    assert "while the class means of its own features give" in linear


# ---------------------------------------------------------------------- what a result says of its making


def test_the_command_of_a_call_is_whole(tmp_path: Path) -> None:
    """Weights, intervals, own paths and force: typed as it stands, it does the same."""
    own = own_protocol(test="my test", fit="train", ood={"far": "far", "near": "n"}, kind="flat")
    text = command_of(
        own,
        repeated={"--model": ["timm:a"], "--detector": ["msp", "knn?k=5"], "--shaping": []},
        weights={"timm:a": Path("w.pt")},
        flags={"--ensemble": False, "--force": True},
        intervals=Intervals(50, seed=3),
    )
    assert text == (
        "theodolite bench --id 'my test' --fit train --ood far=far --ood near=n --kind flat --model timm:a "
        "--detector msp --detector 'knn?k=5' --weights timm:a=w.pt --intervals --replicates 50 --seed 3 "
        "--force"
    )
    folder = make_folder(tmp_path / "f")
    settings = BenchSettings(cache=tmp_path / "cache")
    made = bench(f"features:{folder}", detectors=["msp"], intervals=Intervals(20, seed=4), settings=settings)
    assert made.command.endswith("--detector msp --intervals --replicates 20 --seed 4")
    tests = Intervals(tests=50, seed=3, metrics=("aupr_in",))
    tested = Asked(["ora", "msp"], (), "ora").command("cifar10", ["a"], {}, {}, {}, tests)
    assert tested.endswith("--against ora --metric aupr_in --replicates 50 --seed 3")


def test_pictures_are_those_of_the_models_that_looked_at_them(tmp_path: Path) -> None:
    """A feature folder that joins a protocol has rows of its own: the protocol's pictures are not theirs."""
    asked: list[str] = []

    def picture(data_set: str, _row: int) -> Image.Image:
        asked.append(data_set)
        return Image.new("L", (2, 2))

    subjects = [from_folder(make_folder(tmp_path / name), name=name) for name in ("looked", "joined")]
    made = run_bench(
        subjects,
        parse_specs(["ora"]),
        title="",
        command="",
        highlight=Highlight("ORA", picture, {"looked"}),
    )
    assert all(sample.picture is not None for sample in made.telling["looked"])
    assert all(sample.picture is None for sample in made.telling["joined"])
    assert len(asked) == len(made.telling["looked"]) == len(made.telling["joined"])
