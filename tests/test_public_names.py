"""The names at the top: lazy, complete, and the same for type checkers as at run time."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import theodolite as th

SOURCE = Path(str(th.__file__))
HEAVY = ("torch", "numpy", "PIL", "matplotlib", "safetensors", "torchvision", "timm", "jinja2")
MODULES = """
import json, sys
sys.argv = ["theodolite", *{arguments}]
from theodolite.cli.app import main
try:
    main()
except SystemExit:
    pass
print(json.dumps(sorted(name for name in sys.modules if "." not in name)), file=sys.stderr)
"""


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["bench", "--help"], ["fit", "--help"]])
def test_help_and_version_load_nothing_heavy(arguments: list[str]) -> None:
    program = MODULES.format(arguments=arguments)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = json.loads(done.stderr.splitlines()[-1])
    assert "typer" in loaded
    assert not set(HEAVY) & set(loaded)


def test_importing_loads_nothing_heavy() -> None:
    program = "import json, sys, theodolite; print(json.dumps(list(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {*HEAVY, "rich", "typer"} & set(json.loads(done.stdout))


def public() -> list[str]:
    names: list[str] = th.__all__  # type: ignore[attr-defined]
    return names


def test_every_name_is_there() -> None:
    names = public()
    assert names == sorted(names)
    for name in names:
        assert getattr(th, name) is not None
    assert set(names) <= set(dir(th))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = th.nothing  # type: ignore[attr-defined]


def test_the_names_that_the_commands_are_made_of() -> None:
    """Everything that a command does is reached from here."""
    wanted = {
        "register", "create", "list_detectors", "fit_many", "load", "Detector", "Needs", "Reference", "Head",
        "Guard", "Calibration", "Ensemble", "fit_guard", "PathVerdict", "Capture", "FeatureStore", "extract",
        "train_probe", "load_model", "open_source", "bench", "RunResult", "write_files", "write_pages",
    }  # fmt: skip
    assert wanted <= set(public())


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(SOURCE.read_text(encoding="utf-8"))
    checked, _ = (node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in checked.body if isinstance(node, ast.ImportFrom)]
    seen = {(node.module, alias.name) for node in imports for alias in node.names if alias.name != "*"}
    assert seen == {(home, name) for home, names in th._HOMES.items() for name in names}
    assert [node.module for node in imports if node.names[0].name == "*"] == ["detectors"]


FIRST_LOOKS = """
import os, traceback
import torch  # theodolite itself is fresh in every child
checks = [
    "assert th.detectors.__name__ == 'theodolite.detectors'",
    "assert th.guard.__name__ == 'theodolite.guard'",
    "assert not [name for name in 2 * ('nothing', 'cli', '_private') if hasattr(th, name)]",
]
for check in checks:
    child = os.fork()
    if child == 0:
        try:
            exec("import theodolite as th\\n" + check)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0, check
"""


def test_at_the_first_look_packages_are_there_and_other_names_are_not() -> None:
    done = subprocess.run([sys.executable, "-c", FIRST_LOOKS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
