"""Benchmarks of scores that ask more of a model: their own features, their own rows, and no others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from nudging import odin_straight
from small_models import TinyConv
from theodolite import BenchSettings, Capture, Layered, Ranking, RunResult, bench, own_protocol, tune
from theodolite.benchmarks import ArraySet, Subject
from theodolite.benchmarks.asked import Asked
from theodolite.benchmarks.bench import _telling
from theodolite.benchmarks.feature_folder import from_folder
from theodolite.benchmarks.full_spectrum import with_shifted
from theodolite.benchmarks.ranking import HELD_SHARE
from theodolite.benchmarks.scoring import Scorer
from theodolite.benchmarks.shown import ShownRows
from theodolite.core.errors import CaptureError, InputError
from theodolite.detectors.spec import parse_specs
from theodolite.evaluation import auroc

MODEL = "python:small_models:TinyConv?mean=0&size=8"
SETS = (("fit", 120, 256), ("test", 40, 256), ("dark", 30, 100))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("views")
    rng = np.random.default_rng(0)
    for name, count, top in SETS:
        for index in range(count):
            below = folder / name / "abc"[index % 3]
            below.mkdir(parents=True, exist_ok=True)
            Image.fromarray(rng.integers(0, top, (8, 8), dtype=np.uint8)).save(below / f"{index:03d}.png")
    return folder


def images_of(place: Path, name: str) -> torch.Tensor:
    """In the order of the folder."""
    files = sorted((place / name).rglob("*.png"))
    return torch.stack([torch.from_numpy(np.array(Image.open(file)))[None].float() / 255 for file in files])


def run(place: Path, *detectors: str, layers: tuple[str, ...] = ()) -> RunResult:
    protocol = own_protocol(
        test=str(place / "test"), fit=str(place / "fit"), ood={"dark": str(place / "dark")}
    )
    settings = BenchSettings(cache=place / "cache", layers=layers, force=True)  # never trained
    return bench(protocol, [MODEL], detectors=detectors, settings=settings)


def value(result: RunResult, row: str) -> float:
    (cell,) = (
        cell for cell in result.cells if (cell.detector, cell.ood, cell.metric) == (row, "dark", "auroc")
    )
    return cell.value


def folder_with(place: Path, words: str) -> Path:
    """The feature folder of the cache whose stores say so."""
    stores = (place / "cache").rglob("id_fit/manifest.json")
    return next(path.parent.parent for path in stores if words in path.read_text(encoding="utf-8"))


def test_odin_has_its_own_row_beside_its_form_on_features(place: Path) -> None:
    result = run(place, "odin?temperature=2", "odin?temperature=2&noise=0.1", "energy")
    for row, noise in (("ODIN temperature=2", 0.0014), ("ODIN temperature=2 noise=0.1", 0.1)):
        known, strange = (
            odin_straight(TinyConv(), images_of(place, name), 2.0, noise).numpy() for name in ("test", "dark")
        )
        assert value(result, row) == pytest.approx(100 * auroc(known, strange), abs=0.2)
    known, strange = (
        odin_straight(TinyConv(), images_of(place, name), 2.0, 0.0).numpy() for name in ("test", "dark")
    )
    assert value(result, "ODIN temperature=2 (ε=0)") == pytest.approx(100 * auroc(known, strange), abs=0.1)
    assert value(result, "ODIN temperature=2 noise=0.1") != value(result, "ODIN temperature=2 (ε=0)")
    assert not result.left_out
    again = run(place, "odin?temperature=2", "energy")
    assert value(again, "ODIN temperature=2") == value(result, "ODIN temperature=2")


def test_scores_without_a_head_have_a_row_on_every_layer(place: Path) -> None:
    result = run(place, "knn?k=5", "ora", "corp?components=16", layers=("stem", "block"))
    capture = Capture(TinyConv(), ["stem", "block"])
    rows = {name: capture(images_of(place, name))[0] for name, _, _ in SETS}
    folder = folder_with(place, '"layer": "stem:6')
    subject = from_folder(folder)
    ids = torch.cat([ids for _, _, ids in subject.fit if ids is not None])
    detector = Layered(detector="knn?k=5", layers=str(capture.rows)).fit(rows["fit"], ids=ids)
    known, strange = (detector.score(rows[name]).numpy() for name in ("test", "dark"))
    assert value(result, "KNN k=5 on layers") == pytest.approx(100 * auroc(known, strange), abs=0.2)
    # CoRP needs no head either, but counts features in a width of its own.
    assert list(result.detectors) == ["KNN k=5", "ORA", "CoRP components=16", "KNN k=5 on layers"]
    # A folder of such rows scores layers, and refuses scores of one with the reason.
    settings = BenchSettings(cache=place / "other", force=True)
    both = bench(f"features:{folder}", detectors=["knn?k=5"], settings=settings)
    assert value(both, "KNN k=5 on layers") == value(result, "KNN k=5 on layers")
    assert "features of several layers (stem:6,block:10,fc:10), and it scores one" in both.left_out[0]


def test_a_score_is_never_worked_on_features_of_something_else(place: Path) -> None:
    rng = np.random.default_rng(1)
    capture = Capture(TinyConv(), "fc")
    sets = [ArraySet(rng.normal(size=(40, 10)).astype(np.float32), np.arange(40) % 3) for _ in range(3)]
    subject = Subject("made", capture.head, sets[0], sets[1], {"far": sets[2]})
    specs = parse_specs(["odin", "layered", "energy"], model=True)
    result = Scorer(subject, specs).run()
    assert set(result.values) == {"ODIN (ε=0)", "Energy"}
    assert "it needs features of inputs as odin?noise=0.0014" in result.refused["ODIN"]
    assert "name them with --layer" in result.refused["KNN on layers"]
    run(place, "odin")
    nudged = folder_with(place, "odin?noise=0.0014&temperature=1000.0")
    mixed, settings = from_folder(nudged), BenchSettings(cache=place / "third", force=True)
    with pytest.raises(InputError, match="features of different inputs or layers"):
        Subject("mixed", mixed.head, sets[0], mixed.test, mixed.ood)
    with pytest.raises(InputError, match=r"no score could be computed.*inputs as they are"):
        bench(f"features:{nudged}", detectors=["energy"], settings=settings)


def test_joined_and_chosen_rows_are_of_what_their_sets_are_of(place: Path) -> None:
    """Full-spectrum joins sets, and tune chooses rows of one."""
    run(place, "odin", "knn?k=5", layers=("stem", "block"))
    words = "odin?noise=0.0014&temperature=1000.0", '"layer": "stem:6'
    nudged, layers = (from_folder(folder_with(place, said)) for said in words)
    for subject, scores in ((nudged, ["odin"]), (layers, ["layered?detector=knn"])):
        joined = with_shifted(subject, {"shifted": subject.ood["dark"]})
        assert joined.shown == subject.shown != ShownRows()
        found = Scorer(joined, parse_specs(scores, model=True)).run()
        assert [len(sets["id_test"]) for sets in found.values.values()] == [70]
    rows = torch.cat([features for features, _, _ in nudged.test])
    with pytest.raises(InputError, match=r"shifted: its features are of one layer of inputs as they are"):
        with_shifted(nudged, {"shifted": ArraySet(rows)})
    for subject, why in ((nudged, "these are of inputs as odin"), (layers, "features of several layers")):
        with pytest.raises(InputError, match=f"no candidate could be computed.*{why}"):
            tune(subject, ["knn?k={3,5}"], validation_ood={"v": subject.ood["dark"]}, folds=1, force=True)
    grid = ["layered?detector={knn,pcos}&combine=sum"]
    chosen = tune(layers, grid, validation_ood={"v": layers.ood["dark"]}, folds=1, force=True)
    assert len(chosen.ranked) == 2
    # Other features of the pictures that decided are known by the pictures.
    shifted = with_shifted(nudged, {"shifted": nudged.ood["dark"]})
    for judged, decided in ((nudged.ood["dark"], "v"), (shifted.test, "v"), (nudged.fit, HELD_SHARE)):
        with pytest.raises(InputError, match=f"set holds rows of {decided}"):
            chosen.require_apart("set", judged)
    chosen.require_apart("set", nudged.test)
    assert Ranking.from_json(chosen.to_json()) == chosen


def test_of_the_two_rows_of_odin_the_right_one_is_meant(place: Path) -> None:
    """One text is two rows on a model: held against is the one with the nudge, tuned is the other."""
    specs, reference = Asked(["odin", "energy"], (), "odin").specs({}, model=True, layers=False)
    assert ([spec.label for spec in specs], reference) == (["ODIN", "ODIN (ε=0)", "Energy"], "ODIN")
    assert Asked([], (), "odin").specs({}, model=True, layers=False)[1] == "ODIN (ε=0)"
    result = run(place, "odin", "energy")
    stores = (place / "cache").rglob("id_fit/manifest.json")
    subjects = (from_folder(path.parent.parent) for path in stores)
    subject = next(one for one in subjects if one.shown == ShownRows())
    ranking = tune(
        subject, ["odin", "energy"], validation_ood={"v": subject.ood["dark"]}, folds=1, force=True
    )
    first = next(row for row in ranking.ranked if row.spec == "odin")
    told = _telling(result, [replace(ranking, ranked=(first,))])
    assert list(told.choices) == ["ODIN (ε=0)"]


def test_one_layer_is_not_several(place: Path) -> None:
    with pytest.raises(InputError, match="--layer stem is one layer"):
        run(place, "knn", layers=("stem",))
    settings = BenchSettings(cache=place / "cache", layers=("stem", "block"))
    with pytest.raises(InputError, match="--layer is for models that look at pictures"):
        bench(f"features:{folder_with(place, 'stem:6')}", detectors=["knn"], settings=settings)
    with pytest.raises(CaptureError, match="'steam' is no layer of the model; did you mean 'stem'"):
        run(place, "knn", layers=("steam", "block"))
