"""`--import ./file.py`: what lies beside it counts, names that are taken are refused, processes find it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from command_server import run
from made_folders import make_folder
from theodolite.cli._importing import import_own
from theodolite.core.errors import InputError

SCORE = """
from theodolite import Detector, register
{imports}

@register("gap", title="Gap", paper="ours", year=2026, formula="l_1 - l_2")
class Gap(Detector):
    def _score(self, features, logits):
        first, second = logits.topk(2, dim=1).values.unbind(1)
        return factor() * (first - second)
"""
HELPER = "def factor():\n    return 1\n"


def fpr(place: Path, module: str) -> float:
    bench = ("bench", f"features:{place / 'made'}", "--detector", "gap", "-o", place / "out")
    done = run("--import", place / module, *bench, "--cache", place / "cache")
    assert done.code == 0, done.err
    cells = json.loads((place / "out" / "results.json").read_text())["cells"]
    return float(next(cell["auroc"] for cell in cells if cell["ood"] == "svhn"))


@pytest.mark.parametrize(
    ("imports", "module", "score", "helper"),
    [
        ("from gap_helper import factor", "./own/my_score.py", "own/my_score.py", "own/gap_helper.py"),
        ("from .gap_helper import factor", "./own/kit", "own/kit/__init__.py", "own/kit/gap_helper.py"),
    ],
)
def test_a_file_with_what_it_imports_and_no_old_numbers(
    tmp_path: Path, imports: str, module: str, score: str, helper: str
) -> None:
    make_folder(tmp_path / "made")
    (tmp_path / score).parent.mkdir(parents=True)
    if "kit" in score:
        (tmp_path / "own/kit/__init__.py").touch()
    (tmp_path / score).write_text(SCORE.format(imports=imports))
    (tmp_path / helper).write_text(HELPER)
    first = fpr(tmp_path, module)
    kept = {path.name for path in (tmp_path / "cache").rglob("*.safetensors")}
    assert kept, "scores of one's own are kept where their code is known"
    assert fpr(tmp_path, module) == first
    assert {path.name for path in (tmp_path / "cache").rglob("*.safetensors")} == kept
    (tmp_path / helper).write_text(HELPER.replace("1", "-1"))  # the score is turned round
    assert fpr(tmp_path, module) == pytest.approx(100 - first, abs=1e-4)


def test_scores_of_unknown_code_are_not_kept(tmp_path: Path) -> None:
    make_folder(tmp_path / "made")
    imports = "import importlib\nfactor = importlib.import_module('gap_' + 'helper').factor"
    (tmp_path / "my_score.py").write_text(SCORE.format(imports=imports))
    (tmp_path / "gap_helper.py").write_text(HELPER)
    first = fpr(tmp_path, "./my_score.py")
    assert not list((tmp_path / "cache").rglob("*.safetensors"))
    (tmp_path / "gap_helper.py").write_text(HELPER.replace("1", "-1"))
    assert fpr(tmp_path, "./my_score.py") == pytest.approx(100 - first, abs=1e-4)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory; the path and the modules are put back."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("./numpy.py", "a module called 'numpy' is there already"),
        ("./mine.py", "a module called 'typer' is there already"),
        ("./a.b.py", "cannot be the name of a module"),
        ("./absent.py", "is neither a Python file nor a package"),
        ("./", "is neither a Python file nor a package"),
        ("./broken.py", "line 1 is no Python"),
        ("./lacking.py", "No module named 'nowhere_to_be_found'"),
    ],
)
def test_what_cannot_be_imported_is_told(here: Path, path: str, told: str) -> None:
    texts = {"numpy": "", "typer": "", "mine": "import typer", "a.b": "", "broken": "x = ("}
    for name, text in {**texts, "lacking": "import nowhere_to_be_found"}.items():
        (here / f"{name}.py").write_text(text)
    with pytest.raises(InputError, match=re.escape(f"--import {path}: ")) as error:
        import_own(path)
    assert told in str(error.value)


def test_a_module_of_a_package_is_imported_as_part_of_it(here: Path) -> None:
    (here / "own_kit").mkdir()
    (here / "own_kit" / "__init__.py").write_text("")
    (here / "own_kit" / "first.py").write_text("from .second import NUMBER\n")
    (here / "own_kit" / "second.py").write_text("NUMBER = 7\n")
    import_own("own_kit/first.py")
    import_own("./own_kit/first.py")  # twice is once
    assert sys.modules["own_kit.first"].NUMBER == 7


def test_processes_started_later_find_it(tmp_path: Path) -> None:
    """What a file defines is pickled by its name: a fresh process imports it from there."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "my_things.py").write_text("def double(x):\n    return 2 * x\n")
    (tmp_path / "try.py").write_text(
        "import multiprocessing, sys\n"
        "from theodolite.cli._importing import import_own\n"
        "if __name__ == '__main__':\n"
        "    import_own('./own/my_things.py')\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
        "        print(pool.map(sys.modules['my_things'].double, [21]))\n"
    )
    done = subprocess.run([sys.executable, "try.py"], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.strip() == "[42]", done.stderr
