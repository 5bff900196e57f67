"""Where a benchmark could mislead: other settings, other samples, other names, stale scores."""

from __future__ import annotations

import importlib.util
import io
import json
import linecache
import shutil
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file, save_file

from command_server import run
from made_folders import CLASSES, WIDTH, make_folder
from made_openood import make_openood
from theodolite.benchmarks import BenchSettings, bench, compare, extraction
from theodolite.benchmarks import run as run_bench
from theodolite.benchmarks.extraction import Extraction
from theodolite.benchmarks.feature_folder import from_folder
from theodolite.benchmarks.feature_sets import FileSet
from theodolite.benchmarks.protocols import own_protocol, protocol
from theodolite.benchmarks.scoring import Scorer
from theodolite.cli.bench import command_line
from theodolite.core.errors import FormatError, InputError, TheodoliteWarning
from theodolite.detectors import _registry as registry
from theodolite.detectors.spec import parse_specs
from theodolite.evaluation import head_accuracy
from theodolite.models.nets.lenet import LeNet5
from theodolite.models.training import train
from theodolite.paper.experiments.pictures import digest_of
from theodolite.report import figures
from theodolite.report.documents import result_document
from theodolite.report.tables import csv_text, latex, long_table, metric_tables, terminal

MODEL = "python:small_models:Tiny?mean=0&size=8"


def test_a_feature_folder_takes_the_settings_of_its_protocol(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "f", about={"protocol": "imagenet", "backbone": "vit-b16"})
    done = run("bench", f"features:{folder}", "--detector", "knn", "-o", tmp_path, "--cache", tmp_path / "c")
    assert done.code == 0, done.err
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["entries"]["KNN"]["options"]["k"] == 1000
    # Beside a folder of another protocol it has the settings of neither, and says so.
    other, settings = make_folder(tmp_path / "g", seed=1), BenchSettings(cache=tmp_path / "c")
    joined = bench(f"features:{folder}", [f"features:{other}"], detectors=["knn"], settings=settings)
    assert joined.detectors["KNN"].options == {**(joined.detectors["KNN"].options or {}), "k": 50}
    (note,) = joined.notes
    assert "different protocols (f: imagenet, g: none)" in note
    assert "KNN k=1000 (imagenet)" in note
    named = bench(f"features:{folder}", [f"features:{other}"], detectors=["knn?k=50"], settings=settings)
    assert named.notes == ()


def test_published_numbers_of_another_setting_do_not_stand_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folders of several protocols share options: KNN has k=50 then, and not the 1000 of ImageNet."""
    monkeypatch.setattr(compare, "_MAY_LACK", 1.0)
    folders = {}
    for known, backbone in (("imagenet", "vit-b16"), ("cifar10", "resnet18-scl")):
        about = {"name": known, "protocol": known, "backbone": backbone}
        folders[known] = make_folder(tmp_path / known, about=about)
        for name in ("inaturalist", "sun", "places"):
            shutil.copy(folders[known] / "svhn.safetensors", folders[known] / f"{name}.safetensors")

    def beside(*names: str) -> dict[str, tuple[object, bool]]:
        """The k of KNN, and whether a published number stands beside it, by model."""
        first, *others = (f"features:{folders[name]}" for name in names)
        settings = BenchSettings(cache=tmp_path / "cache")
        made = bench(first, others, detectors=["knn", "ora"], settings=settings)
        options = made.detectors["KNN"].options or {}
        assert all(made.cell(name, "ORA", "textures", "fpr95").published for name in names)
        knn = {name: made.cell(name, "KNN", "textures", "fpr95") for name in names}
        return {name: (options["k"], bool(cell.published)) for name, cell in knn.items()}

    assert beside("imagenet") == {"imagenet": (1000, True)}
    assert beside("cifar10") == {"cifar10": (50, True)}
    assert beside("imagenet", "cifar10") == {"imagenet": (50, False), "cifar10": (50, True)}


def test_a_checkpoint_of_ones_own_is_not_the_papers_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from small_models import Tiny

    save_file(Tiny().state_dict(), tmp_path / "mine.safetensors")
    for name in ("fit", "test", "far"):
        pixels = np.random.default_rng(0).integers(0, 256, (30, 8, 8), dtype=np.uint8)
        np.savez(tmp_path / f"{name}.npz", images=pixels, labels=np.arange(30) % 3)
    paths = {name: str(tmp_path / f"{name}.npz") for name in ("fit", "test", "far")}
    chosen = own_protocol(test=paths["test"], fit=paths["fit"], ood={"far": paths["far"]})
    monkeypatch.setattr(extraction, "backbone_of", lambda _spec: "resnet50")
    made = Extraction(chosen, tmp_path / "cache", None)
    assert made.subject(MODEL).backbone == "resnet50"
    assert made.subject(MODEL, tmp_path / "mine.safetensors").backbone is None


def test_a_set_without_some_of_its_pictures_names_one_that_is_not_there(tmp_path: Path) -> None:
    data = make_openood(tmp_path)
    gone = data / "images_classic" / "test_tin" / "7.png"
    gone.unlink()
    chosen = protocol("openood-cifar10").with_own_lists()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TheodoliteWarning)  # of lists of one's own
        subject = Extraction(chosen, tmp_path / "cache", tmp_path).subject(MODEL)
    assert set(subject.missing) == {"tin"}
    assert f"1 of 25 of its pictures are not: no {gone}" in subject.missing["tin"]
    assert "25 samples" not in subject.missing["tin"]


def test_scores_from_another_bank_are_not_reused(tmp_path: Path) -> None:
    """The entry is the same, the store behind it is not."""
    bench = from_folder(make_folder(tmp_path / "f"))
    pixels = np.random.default_rng(0).integers(0, 256, (60, 8, 8), dtype=np.uint8)
    specs = parse_specs([f"knn?k=5&store={tmp_path / 'bank'}"])
    keys = []
    for images in (pixels, 255 - pixels):
        np.savez(tmp_path / "bank.npz", images=images, labels=np.arange(60) % 3)
        made = run("extract", "--model", MODEL, "--data", tmp_path / "bank.npz", "-o", tmp_path / "bank")
        assert made.code == 0, made.err
        keys.append(Scorer(bench, specs, cache=tmp_path).cache.path(specs[0], "svhn"))
        (tmp_path / "bank").rename(tmp_path / f"bank-{len(keys)}")
    assert keys[0] != keys[1]


def test_an_edited_score_of_ones_own_is_computed_again(tmp_path: Path) -> None:
    bench = from_folder(make_folder(tmp_path / "f"))
    values = []
    for sign in ("", "-"):
        (tmp_path / "edited.py").write_text(
            "from theodolite import Detector\n"
            "from theodolite.detectors import _registry as registry\n"
            "for table in (registry._records, registry._by_spelling):\n"
            "    table.pop('edited', None)\n"
            "@registry.register('edited', title='Edited', paper='ours', year=2026, formula='x')\n"
            "class Edited(Detector):\n"
            f"    def _score(self, features, logits): return {sign}logits.amax(dim=1)\n"
        )
        linecache.clearcache()
        spec = importlib.util.spec_from_file_location("edited", tmp_path / "edited.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["edited"] = module
        spec.loader.exec_module(module)
        scores = Scorer(bench, parse_specs(["edited"]), cache=tmp_path / "cache").run()
        values.append(scores.values["Edited"]["svhn"])
    for table in (registry._records, registry._by_spelling):
        table.pop("edited")
    assert np.array_equal(values[0], -values[1])


def test_what_is_trained_from_is_in_the_name() -> None:
    pictures = torch.zeros(3, 1, 28, 28)
    known = digest_of([pictures], train, LeNet5)
    assert digest_of([pictures.clone()], train, LeNet5) == known
    assert digest_of([pictures + 1], train, LeNet5) != known
    assert digest_of([pictures], train) != known


# ---------------------------------------------------------------------- samples and labels


def test_an_ensemble_of_permuted_samples_is_refused(tmp_path: Path) -> None:
    folders = [make_folder(tmp_path / name) for name in "ab"]
    path = folders[1] / "id_test.safetensors"
    tensors = load_file(path)
    order = torch.randperm(300, generator=torch.Generator().manual_seed(0))
    save_file({name: tensor[order].contiguous() for name, tensor in tensors.items()}, path)
    with pytest.raises(InputError, match="same samples of id_test"):
        run_bench(
            [from_folder(folder) for folder in folders],
            parse_specs(["msp"]),
            title="",
            command="",
            ensemble=True,
        )


def test_rows_without_a_label_are_not_wrong(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "f")
    subject = from_folder(folder)
    tensors = load_file(folder / "id_test.safetensors")
    labels = subject.head(tensors["features"].float()).argmax(dim=1)
    labels[::2] = -1
    save_file({"features": tensors["features"], "labels": labels}, folder / "id_test.safetensors")
    assert head_accuracy(subject.head, FileSet(folder / "id_test.safetensors")) == 1.0


# ---------------------------------------------------------------------- names


NAMES = (r"a\input{x}^2~$", "p|q", "<script>alert(1)<", "fog[a]")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("names") / "f"
    make_folder(folder)
    for old, new in zip(("svhn", "isun", "places365", "textures"), NAMES, strict=True):
        (folder / f"{old}.safetensors").rename(folder / f"{new}.safetensors")
    return folder


def test_names_stay_text_in_every_form(hostile: Path, tmp_path: Path) -> None:
    result = run_bench(
        [from_folder(hostile)], parse_specs(["msp", "ora"]), title="`t` <b>", command="run `x`"
    )
    tex, text = "\n".join(map(latex, metric_tables(result))), result_document(result)
    assert r"a\textbackslash{}input\{x\}\textasciicircum{}2\textasciitilde{}\$" in tex
    assert r"\input" not in tex
    assert "<script>" not in text
    assert r"p\|q" in text
    assert "`` run `x` ``" in text
    header = next(line for line in text.splitlines() if line.startswith("| score"))
    assert header.replace(r"\|", "").count("|") == 2 + len(NAMES) + 1
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(terminal(metric_tables(result)[0]))
    assert "fog[a]" in console.export_text()
    assert all(name in csv_text(long_table(result)) for name in NAMES)
    found = result.evaluations[result.subject_names[0]]
    for made in (figures.score_histograms(found, title="$x"), figures.roc_curves(found, title=NAMES[0])):
        assert figures.save(made, tmp_path / "figure", suffixes=(".png",))[0].is_file()


def test_reserved_names_and_broken_descriptions_are_refused(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "f")
    for text, word in (("{bad", "is not JSON"), ('{"name": 7}', "each a text"), ("[]", "JSON object")):
        (folder / "about.json").write_text(text)
        with pytest.raises(FormatError, match=word):
            from_folder(folder)
    (folder / "about.json").unlink()
    save_file({"features": torch.zeros(3, WIDTH)}, folder / "average.safetensors")
    with pytest.raises(InputError, match="cannot be called 'average'"):
        from_folder(folder)
    assert from_folder(make_folder(tmp_path / "g")).head.classes == CLASSES


@pytest.mark.parametrize(
    ("root", "words", "line"),
    [
        (".", ["bench", "--root", ".", "-o", "out-root.d"], "bench --root $THEODOLITE_DATA -o out-root.d"),
        (
            "/data",
            ["bench", "features:/data/x", "-o", "/database"],
            "bench features:$THEODOLITE_DATA/x -o /database",
        ),
        ("/data", ["bench", "--ood", "fog=/data/fog"], "bench --ood fog=$THEODOLITE_DATA/fog"),
    ],
)
def test_the_command_names_the_root_by_its_variable(
    root: str, words: list[str], line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["theodolite", *words])
    assert command_line(Path(root)) == f"theodolite {line}"
