"""What a factory reaches: edits that matter change the digest, edits elsewhere in the file do not."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from theodolite.core.reach import reached_digest

FILES = {
    "zoo/__init__.py": '"""A package."""\nfrom .nets import Small\n',
    "zoo/nets.py": '''
"""Networks."""
from __future__ import annotations
import math, os
from . import layers
from .layers import Norm, Unused
import zoo.tables as tables

WIDTH = 8
OTHER = 9

class Base:
    """Documented."""
    width = WIDTH

class Small(Base):
    def forward(self, x):
        """Documented, too."""
        return layers.block(Norm()(x)) * tables.SCALE

class Big(Base):
    def forward(self, x):
        return Unused()(x)

def make():
    return Small()

def lazily():
    from .late import build
    return build()

def dynamically():
    return globals()["Small"]()

def train():
    loader = os.listdir(".")
    return Big(), math.pi, loader

if __name__ == "__main__":
    train()
''',
    "zoo/layers.py": """
import helpers

def block(x):
    return helpers.double(x)

def unused(x):
    return -x

class Norm:
    def __call__(self, x):
        return x

class Unused:
    pass
""",
    "zoo/tables.py": "SCALE = 2\nOTHER = 3\n",
    "zoo/late.py": "def build():\n    return 1\n\ndef other():\n    return 2\n",
    "helpers.py": "def double(x):\n    return 2 * x\n\ndef triple(x):\n    return 3 * x\n",
}
Edit = Callable[[str, str, str], None]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name.split(".")[0] in ("zoo", "helpers")]:
        del sys.modules[name]


def after(folder: Path, file: str, old: str, new: str, start: str = "make") -> bool:
    """Whether an edit changes what is reached; the file is put back."""
    before = reached_digest("zoo.nets", start)
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new))
    now = reached_digest("zoo.nets", start)
    (folder / file).write_text(text)
    assert before is not None
    assert now is not None
    assert reached_digest("zoo.nets", start) == before
    return now != before


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("zoo/nets.py", "return Small()", "return Big()"),
        ("zoo/nets.py", "width = WIDTH", "width = 2 * WIDTH"),  # a base class
        ("zoo/nets.py", "WIDTH = 8", "WIDTH = 16"),  # a constant
        ("zoo/nets.py", "layers.block(Norm()(x))", "layers.block(x)"),
        ("zoo/nets.py", "from .layers import Norm", "from .layers import Unused as Norm"),
        ("zoo/nets.py", "OTHER = 9", "Base.width = 3"),  # changed from outside
        ("zoo/nets.py", "OTHER = 9", "os.environ.clear()"),  # runs on import
        ("zoo/nets.py", "OTHER = 9", "OTHER = setattr(Small, 'forward', None)"),
        ("zoo/layers.py", "return helpers.double(x)", "return x"),  # as an attribute of a module
        ("zoo/layers.py", "    def __call__(self, x):\n        return x", "    pass"),  # by its name
        ("zoo/tables.py", "SCALE = 2", "SCALE = 3"),  # by another name
        ("helpers.py", "return 2 * x", "return 4 * x"),  # another module beside the package
        ("zoo/__init__.py", "from .nets import Small", "from .nets import Small\nSmall.forward = None"),
        ("zoo/__init__.py", "from .nets import Small", "print('runs on import')"),
    ],
)
def test_what_is_used_is_reached(folder: Path, file: str, old: str, new: str) -> None:
    assert after(folder, file, old, new)


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("zoo/nets.py", "OTHER = 9", "OTHER = 10\n# and a comment\nMORE = make"),
        ("zoo/nets.py", "return Unused()(x)", "return x"),
        ("zoo/nets.py", "loader = os.listdir('.')".replace("'", '"'), "loader = layers.unused(3)"),
        ("zoo/nets.py", "Documented, too.", "Documented in other words."),
        ("zoo/nets.py", "import math, os", "import math, os, sys, json"),
        ("zoo/nets.py", "import Norm, Unused", "import Norm"),
        ("zoo/nets.py", "def train():", "def more():\n    return tables.OTHER\n\ndef train():"),
        ("zoo/nets.py", "    train()\n", "    train()\n    make()\n"),
        ("zoo/layers.py", "return -x", "return x"),
        ("zoo/tables.py", "OTHER = 3", "OTHER = 4"),
        ("zoo/late.py", "return 1", "return 3"),
        ("helpers.py", "return 3 * x", "return 5 * x"),
        ("helpers.py", "def triple", "def quadruple"),
    ],
)
def test_what_is_not_used_is_not(folder: Path, file: str, old: str, new: str) -> None:
    assert not after(folder, file, old, new)


def test_imports_within_functions(folder: Path) -> None:
    assert after(folder, "zoo/late.py", "return 1", "return 3", start="lazily")
    assert not after(folder, "zoo/late.py", "return 2", "return 3", start="lazily")


def test_what_cannot_be_followed_is_taken_whole(folder: Path) -> None:
    assert after(folder, "zoo/nets.py", "return Unused()(x)", "return x", start="dynamically")
    assert not after(folder, "zoo/nets.py", "    train()\n", "    make()\n", start="dynamically")
    handed_on = "import sys\n" + FILES["zoo/nets.py"].replace("return Small()", "return getattr(layers, 'x')")
    (folder / "zoo/nets.py").write_text(handed_on)
    assert after(folder, "zoo/layers.py", "return -x", "return x")
    starred = FILES["zoo/nets.py"].replace("import math, os", "import math, os\nfrom .late import *")
    (folder / "zoo/nets.py").write_text(starred)
    assert after(folder, "zoo/late.py", "return 2", "return 3")


def test_a_name_that_a_package_hands_on(folder: Path) -> None:
    first = reached_digest("zoo", "Small")
    (folder / "zoo/layers.py").write_text(
        FILES["zoo/layers.py"].replace("return helpers.double(x)", "return x")
    )
    assert reached_digest("zoo", "Small") not in (None, first)


def test_a_name_made_at_run_time_is_its_whole_module(folder: Path) -> None:
    (folder / "zoo/nets.py").write_text(
        FILES["zoo/nets.py"] + "\nfor name in 'ab':\n    globals()[name] = make\n"
    )
    assert after(folder, "zoo/nets.py", "return Unused()(x)", "return x", start="a")


def test_modules_that_import_each_other(folder: Path) -> None:
    (folder / "zoo/layers.py").write_text("from . import nets\n" + FILES["zoo/layers.py"])
    assert after(folder, "helpers.py", "return 2 * x", "return 4 * x")
    assert not after(folder, "helpers.py", "return 3 * x", "return 5 * x")


def test_the_same_when_it_has_been_imported(folder: Path) -> None:
    before = reached_digest("zoo.nets", "make")
    __import__("zoo.nets")
    assert reached_digest("zoo.nets", "make") == before
    assert folder.is_dir()


def test_without_a_source_there_is_no_digest(folder: Path) -> None:
    assert reached_digest("math", "pi") is None
    assert reached_digest("zoo.nowhere", "make") is None
    (folder / "zoo/nets.py").write_text("def make(:\n")
    assert reached_digest("zoo.nets", "make") is None


def test_installed_packages_are_not_followed(folder: Path) -> None:
    """They are known by their version, and their code is not the user's."""
    from theodolite.core.reach import _Reach

    (folder / "zoo/nets.py").write_text("import torch\n" + FILES["zoo/nets.py"])
    found = _Reach("zoo")
    assert found.start("zoo.nets", "make")
    assert set(found.modules) == {"zoo", "zoo.nets", "zoo.layers", "zoo.tables", "helpers"}
