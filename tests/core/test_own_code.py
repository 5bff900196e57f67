"""The code behind a score of one's own: every module of the same hand counts; what is not known is said."""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from theodolite.core.own_code import own_digest

FILES = {
    "kit/__init__.py": "from .scores import Mine\n",
    "kit/scores.py": '''
"""Scores."""
import math
import torch
import kit.tables as tables
from . import parts
from .parts import weigh
import beside

class Mine:
    def score(self, x):
        from .late import shift
        return shift(weigh(x)) * tables.SCALE + beside.one() + math.pi
''',
    "kit/parts.py": "from .deep.inner import power\n\ndef weigh(x):\n    return power(x)\n",
    "kit/deep/__init__.py": "",
    "kit/deep/inner.py": "def power(x):\n    return x ** 2\n",
    "kit/tables.py": "SCALE = 2\n",
    "kit/late.py": "def shift(x):\n    return x + 1\n",
    "kit/unused.py": "NOTHING = 1\n",
    "beside.py": "def one():\n    return 1\n",
    "plain.py": "from beside import one\n\nclass Plain:\n    def score(self, x):\n        return one()\n",
}
TOPS = {name.split("/")[0].removesuffix(".py") for name in FILES}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    forget()


def forget() -> None:
    for name in [name for name in sys.modules if name.split(".")[0] in TOPS]:
        del sys.modules[name]
    importlib.invalidate_caches()


def digest(module: str = "kit.scores", name: str = "Mine", *, at: float | None = None) -> str | None:
    """As a new process sees it."""
    forget()
    kind = getattr(importlib.import_module(module), name)
    return own_digest([kind], imported=time.time() + 1 if at is None else at)


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("kit/scores.py", "math.pi", "math.e"),
        ("kit/parts.py", "power(x)", "power(2 * x)"),  # by name, relative
        ("kit/deep/inner.py", "x ** 2", "x ** 3"),  # at any depth
        ("kit/deep/__init__.py", "", "import os\n"),  # a package runs first
        ("kit/tables.py", "SCALE = 2", "SCALE = 3"),  # as another name
        ("kit/late.py", "x + 1", "x + 2"),  # within a function
        ("beside.py", "return 1", "return 2"),  # beside the package
    ],
)
def test_an_edit_of_any_module_of_ones_own_changes_it(folder: Path, file: str, old: str, new: str) -> None:
    before = digest()
    text = (folder / file).read_text()
    (folder / file).write_text(text.replace(old, new, 1) if old else new)
    assert digest() not in (None, before)


def test_what_is_not_imported_and_how_it_is_written_do_not_count(folder: Path) -> None:
    before = digest()
    assert before is not None
    (folder / "kit/unused.py").write_text("NOTHING = 2\n")
    (folder / "kit/late.py").write_text("# a comment\ndef shift(x):\n\n    return (x + 1)\n")
    assert digest() == before


@pytest.mark.parametrize(
    "added",
    [
        "from importlib import import_module\nother = import_module('be' + 'side')\n",
        "other = __import__('beside')\n",
        "exec('x = 1')\n",
        "def load():\n    import nowhere_to_be_found\n",  # may be found when it is called
    ],
)
def test_what_no_import_names_is_not_known(folder: Path, added: str) -> None:
    assert digest("plain", "Plain") is not None
    (folder / "plain.py").write_text(added + FILES["plain.py"])
    assert digest("plain", "Plain") is None


def test_an_import_that_failed_brought_nothing_in(folder: Path) -> None:
    optional = "try:\n    import nowhere_to_be_found\nexcept ImportError:\n    pass\n"
    (folder / "plain.py").write_text(optional + FILES["plain.py"])
    assert digest("plain", "Plain") is not None


def test_a_method_called_eval_is_no_evaluation(folder: Path) -> None:
    (folder / "plain.py").write_text("def f(model):\n    return model.eval()\n\n" + FILES["plain.py"])
    assert digest("plain", "Plain") is not None


def test_a_compiled_module_of_ones_own_is_not_known(folder: Path) -> None:
    source = importlib.util.find_spec("_json")
    if source is None or source.origin is None or not Path(source.origin).is_file():
        pytest.skip("this Python has _json built in")
    name = "beside" + "".join(Path(source.origin).suffixes)
    (folder / "beside.py").unlink()
    (folder / name).write_bytes(Path(source.origin).read_bytes())
    (folder / "plain.py").write_text(
        "def score():\n    import beside\n\nclass Plain:\n    def score(self, x):\n        return score()\n"
    )
    assert digest("plain", "Plain") is None


def test_a_file_that_was_edited_after_the_import_is_not_what_runs(folder: Path) -> None:
    """A notebook that goes on with a module it imported before the edit."""
    now = time.time()
    assert digest("plain", "Plain", at=now + 1) is not None
    os.utime(folder / "beside.py", (now + 5, now + 5))
    assert digest("plain", "Plain", at=now + 1) is None


def test_a_class_that_was_typed_in_is_not_known(folder: Path) -> None:
    kind = type("Typed", (), {"__module__": "__main__"})
    assert own_digest([kind], imported=time.time()) is None
    forget()
    plain = importlib.import_module("plain").Plain
    assert folder.is_dir()
    exec("def score(self, x): return 3\nplain.score = score")  # as a cell of a notebook patches it
    assert own_digest([plain], imported=time.time() + 1) is None


SCRIPT = """
import sys, time
from theodolite.core.own_code import own_digest
{imports}

if __name__ == "__main__":
    class Mine:
        def score(self, x):
            return one()
    print(own_digest([Mine], imported=time.time() + 1))
"""


@pytest.mark.parametrize(
    ("words", "file", "imports"),
    [
        (["run.py"], "run.py", "from beside import one"),
        (["-m", "kit.run"], "kit/run.py", "from .late import shift as one"),
    ],
)
def test_a_script_that_is_run(folder: Path, words: list[str], file: str, imports: str) -> None:
    """Its class lies in __main__; what it imports counts as elsewhere."""
    (folder / file).write_text(SCRIPT.format(imports=imports))

    def said() -> str:
        env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(folder), os.environ.get("PYTHONPATH", "")))}
        done = subprocess.run([sys.executable, *words], capture_output=True, text=True, cwd=folder, env=env)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    before = said()
    assert before != "None"
    (folder / "beside.py").write_text("def one():\n    return 2\n")
    (folder / "kit/late.py").write_text("def shift(x):\n    return x + 3\n")
    assert said() not in (before, "None")


def test_a_session_knows_no_file(folder: Path) -> None:
    typed = "import time\nfrom theodolite.core.own_code import own_digest\nclass Mine:\n    pass\n\n"
    done = subprocess.run(
        [sys.executable, "-i", "-q"],
        input=typed + "print('said', own_digest([Mine], imported=time.time()))\n",
        capture_output=True,
        text=True,
        cwd=folder,
    )
    assert "said None" in done.stdout, done.stderr
