"""torchvision comes in through one door, in a fresh process, with and without its compiled part."""

import subprocess
import sys
from importlib.util import find_spec

import pytest

from theodolite.core.compat import import_torchvision
from theodolite.core.errors import MissingExtraError

FRESH = """
from theodolite.core.compat import import_torchvision
first = import_torchvision()
assert import_torchvision() is first
import timm, open_clip
from torchvision import datasets, models, transforms
"""


def test_a_fresh_process_imports_it_without_a_warning() -> None:
    for name in ("torchvision", "timm", "open_clip"):
        if find_spec(name) is None:
            pytest.skip("pip install 'theodolite[clip]'")
    done = subprocess.run([sys.executable, "-W", "error", "-c", FRESH], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_absence_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with pytest.raises(MissingExtraError, match=r"theodolite\[vision\]"):
        import_torchvision()
    with pytest.raises(MissingExtraError, match=r"theodolite\[clip\]"):
        import_torchvision("clip")
