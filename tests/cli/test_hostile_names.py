"""Names that are markup, or commands to a terminal: every command prints them as text."""

from __future__ import annotations

import json
import re
import shutil
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.text import Text

from command_server import Outcome, run
from made_folders import make_folder
from theodolite import Guard
from theodolite.cli._console import clean, say, screen
from theodolite.core.compat import import_module
from theodolite.features import FeatureStore

# Red from here on, a new title of the window, back to the beginning of the line, and leftwards; the folder
# and the file together make a closing tag.
FOLDER, FILE = "hostile\x1b[31m\x1b]0;owned\x07[", "b]\r\u202e\nerror: x\x9b2J[red]"
MODEL = ("--model", "python:small_models:Tiny?mean=0&size=8")


def hostile(folder: Path, suffix: str = "") -> Path:
    (folder / FOLDER).mkdir(exist_ok=True)
    return folder / FOLDER / (FILE + suffix)


def assert_harmless(outcome: Outcome, *, code: int = 0, shows: bool = True) -> None:
    """No control of a terminal but the newline, no line that a name made up, no traceback."""
    shown = outcome.out + outcome.err
    assert outcome.code == code, shown
    assert "Traceback" not in shown
    assert "MarkupError" not in shown
    found = {char for char in shown if unicodedata.category(char) in ("Cc", "Cf", "Zl") and char != "\n"}
    assert not found, repr(shown)
    assert not re.search(r"^error: x", shown, re.M)
    assert not shows or "owned" in shown.replace("\n", "")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures in class folders, all with hostile names, their store, and a guard with hostile classes."""
    folder = tmp_path_factory.mktemp("small")
    rng = np.random.default_rng(0)
    for index in range(90):
        place = hostile(folder) / f"{'abc'[index % 3]}[/b]".replace("/", "") / FOLDER
        place.mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 256, (8, 8), dtype=np.uint8)
        Image.fromarray(pixels).save(place / f"{FILE}{index}.png")
    made = run("extract", *MODEL, "--data", hostile(folder), "-o", hostile(folder, "store"))
    assert_harmless(made)
    names = folder / "names.txt"
    names.write_text("\n".join(f"class {one} \x1b[31m[/b] owned" for one in "abc"))
    guard = hostile(folder, "guard.safetensors")
    fit = ("fit", "--data", hostile(folder, "store"), "--class-names", names, "-o", guard)
    assert_harmless(run(*fit, "--calibration-share", "0.5", "--force"))
    return folder


def test_extract_and_its_progress_bar(folder: Path, tmp_path: Path) -> None:
    """On a terminal the bar has a title, which says what is extracted."""
    command = ("extract", *MODEL, "--data", hostile(folder), "-o", hostile(tmp_path))
    shown = run(*command, env={"FORCE_COLOR": "1", "COLUMNS": "300", "TERM": "xterm-256color"})
    assert shown.code == 0, shown.err
    assert "\x1b" in shown.out, "it is a terminal"
    for sequence in ("\x1b[31m\x1b]0", "\x1b]0;", "\x07", "\x9b", "\u202e"):
        assert sequence not in shown.out + shown.err
    assert "b]" in shown.out


def test_fit_on_pictures_keeps_them_in_the_cache(folder: Path, tmp_path: Path) -> None:
    cache = {"THEODOLITE_CACHE": str(hostile(tmp_path))}
    out = hostile(tmp_path, "guard.safetensors")
    more = ("--calibration-share", "0.5", "--force")
    assert_harmless(run("fit", *MODEL, "--data", hostile(folder), "-o", out, *more, env=cache))


def test_score_pictures_and_stores(folder: Path, tmp_path: Path) -> None:
    guard = hostile(folder, "guard.safetensors")
    broken = hostile(tmp_path, "broken.png")
    broken.write_bytes(b"no picture")
    paths = (hostile(folder), hostile(folder, "store"), broken)
    command = ("score", *MODEL, guard, *paths, "-o", hostile(tmp_path, ".csv"))
    assert_harmless(run(*command, "--skip-unreadable", env={"COLUMNS": "400"}))
    assert_harmless(run(*command), code=2)


def test_inspect(folder: Path, tmp_path: Path) -> None:
    assert_harmless(run("inspect", hostile(folder, "store"), "--verify", env={"COLUMNS": "400"}))
    assert_harmless(run("inspect", hostile(folder, "guard.safetensors"), env={"COLUMNS": "400"}))
    Guard.load(hostile(folder, "guard.safetensors")).detector.save(tmp_path / "detector.safetensors")
    assert_harmless(run("inspect", tmp_path / "detector.safetensors"), shows=False)
    # A store whose description says what no path could.
    place = tmp_path / "store"
    shutil.copytree(hostile(folder, "store"), place)
    assert FeatureStore(place).manifest.source == str(hostile(folder))
    (place / "shard-00000.safetensors").unlink()
    assert_harmless(run("inspect", place, "--verify"), code=2, shows=False)


def test_probe(folder: Path, tmp_path: Path) -> None:
    out = hostile(tmp_path, "probe.safetensors")
    store = hostile(folder, "store")
    assert_harmless(run("probe", store, "-o", out, "--epochs", "2"))


def test_bench_on_pictures_and_features(folder: Path, tmp_path: Path) -> None:
    cache, out = ("--cache", hostile(tmp_path, "cache")), ("-o", hostile(tmp_path, "results"))
    data = []
    for option, count in (("--id", 40), ("--fit", 60), ("--ood", 30)):
        place = tmp_path / f"{FOLDER}{option}"
        place.mkdir()
        pixels = np.random.default_rng(0).integers(0, 256, (count, 8, 8), dtype=np.uint8)
        np.savez(place / f"{FILE}.npz", images=pixels)
        name = "" if option != "--ood" else "owned[red]\x1b[31m="
        data += [option, f"{name}{place / FILE}.npz"]
    wide = {"COLUMNS": "300"}
    assert_harmless(run("bench", *MODEL, *data, *cache, *out, "--detector", "msp", env=wide))
    features = make_folder(hostile(tmp_path, "features"))
    about = {"name": "owned [/b]\x1b[31m", "protocol": None, "backbone": None}
    (features / "about.json").write_text(json.dumps(about))
    assert_harmless(run("bench", f"features:{features}", *cache, *out, "--detector", "msp", env=wide))
    assert folder.is_dir()


def test_data_and_reproduce(tmp_path: Path) -> None:
    root = hostile(tmp_path)
    root.mkdir()
    assert_harmless(run("data", "--root", root))
    assert_harmless(run("reproduce", "--root", root), shows=False)
    assert_harmless(
        run("reproduce", "tab:cifar", "--root", root, "-o", hostile(tmp_path, "out")), shows=False, code=2
    )
    assert_harmless(run("reproduce", f"owned{FILE}", "--root", root), code=2)


def test_lists_with_names_of_somebody_elses(tmp_path: Path) -> None:
    text = (
        "from theodolite import Detector, register\n"
        "from theodolite.models import source\n"
        f"@source({f'owned{FILE}'!r})\ndef load(request): ...\n"
        f"@register('gap', title='Gap', paper={f'owned {FILE}'!r}, year=2026, formula={f'a[/b]{FILE}'!r})\n"
        "class Gap(Detector):\n    def _score(self, features, logits): return logits[:, 0]\n"
    )
    (tmp_path / "theirs.py").write_text(text)
    for command in ("models", "detectors"):
        assert_harmless(run("--import", "theirs", command, folder=tmp_path, env={"COLUMNS": "300"}))


@pytest.mark.parametrize(
    "arguments",
    [
        ("score", f"owned{FOLDER}{FILE}", "x.png"),
        ("inspect", f"owned{FOLDER}{FILE}"),
        ("extract", "--model", f"owned{FOLDER}{FILE}", "--data", ".", "-o", "x"),
        ("extract", *MODEL, "--data", f"owned{FOLDER}{FILE}", "-o", "x"),
        ("extract", "--model", f"timm:owned{FILE}", "--data", "pictures", "-o", "x"),
        ("fit", *MODEL, "--data", f"owned{FOLDER}{FILE}", "-o", "x"),
        ("fit", *MODEL, "--data", ".", "--detector", f"owned{FILE}", "-o", "x"),
        ("probe", f"owned{FOLDER}{FILE}", "-o", "x"),
        ("bench", f"owned{FILE}", *MODEL),
        ("bench", f"features:owned{FILE}"),
        ("--import", f"owned{FILE}", "models"),
        ("score", f"--owned{FILE}", "x"),
    ],
)
def test_errors(arguments: tuple[str, ...], tmp_path: Path) -> None:
    if any(word.startswith("timm:") for word in arguments):
        try:
            import_module("timm")  # the way in where torchvision and torch are not of one build
        except ImportError:
            pytest.skip("pip install 'theodolite[vision]'")
    (tmp_path / "pictures").mkdir()
    Image.new("L", (8, 8)).save(tmp_path / "pictures" / "one.png")
    shown = run(*(word.replace("pictures", str(tmp_path / "pictures")) for word in arguments))
    assert_harmless(shown, code=2)
    assert shown.err.startswith("error: ")
    assert shown.err.count("\n") == 1


# ---------------------------------------------------------------------- the helper


def test_clean_keeps_what_is_text() -> None:
    assert clean("Größe µ 汉字 🎉 [b]x[/b] :smile: a\\") == "Größe µ 汉字 🎉 [b]x[/b] :smile: a\\"
    assert clean("a\x1b[31mb\nc\td\x7f\x85\u202e") == "a\ufffd[31mb\ufffdc\ufffdd\ufffd\ufffd\ufffd"


def test_everything_on_the_screen_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.table import Table

    console = screen()
    table = Table(title="[/b]\x1b[31mtitle", caption="[/b]caption\x07")
    table.add_column("[/b]\x1b[2Jhead")
    table.add_row("[red]cell[/red]\x9b31m")
    console.print(table)
    console.print("[/b] plain \x1b]0;owned\x07", Text("styled \x1b[31m", style="bold"))
    say(console, "a\nb [/b]\x1b[31m", title="note: ", style="yellow")
    shown = capsys.readouterr().out
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", shown)
    for text in (
        "[/b][31mtitle",
        "[/b]caption",
        "[red]cell[/red]31m",
        "[/b] plain ]0;owned",
        "note: a\ufffdb [/b]",
    ):
        assert text in shown
