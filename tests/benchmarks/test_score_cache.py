"""The key of kept scores covers the code that computes them, and no other."""

from __future__ import annotations

import importlib
import importlib.util
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest
import torch

import theodolite
from theodolite.benchmarks import ArraySet, Subject
from theodolite.benchmarks.score_cache import _CODE, ScoreCache
from theodolite.core.code import _read, code_digest, modules_behind
from theodolite.detectors import _registry
from theodolite.detectors.spec import parse_spec


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package where it can be edited."""
    place = tmp_path_factory.mktemp("package")
    shutil.copytree(Path(theodolite.__file__).parent, place / "theodolite")
    return place / "theodolite"


@pytest.fixture(scope="module")
def before(copy: Path) -> str:
    return key(copy)


def key(package: Path) -> str:
    """The key of the scores of a copy of the package, which reads the files that lie beside it."""
    spec = importlib.util.spec_from_file_location("theodolite.core.code", package / "core" / "code.py")
    assert spec is not None
    assert spec.loader is not None
    reader = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reader)
    vars(reader)["_read"] = lambda path: read(path, path.read_text(encoding="utf-8"))
    return str(reader.code_behind(*_CODE))


@cache
def read(path: Path, _: str) -> object:
    """A file that was not edited is not parsed anew for every key."""
    return _read.__wrapped__(path)


@pytest.mark.parametrize(
    ("file", "old", "new", "kept"),
    [
        ("cli/app.py", '"""The', "# a comment\n" + '"""The', True),
        ("cli/app.py", "no_args_is_help=True", "no_args_is_help=False", True),
        ("report/page/write.py", "def render", "unused = 1\n\n\ndef render", True),
        ("models/registry.py", "_sources:", "unused = 1\n_sources:", True),
        ("benchmarks/datasets.py", "50_000", "50_001", True),
        ("detectors/energy.py", "import Tensor\n", "import Tensor  # a comment\n\n", True),
        ("detectors/energy.py", "self.temperature * ", "2 * self.temperature * ", False),
        ("detectors/_base.py", "_MIN_TILE_ROWS = 16", "_MIN_TILE_ROWS = 8", False),
        ("features/store.py", "UNLABELLED = -1", "UNLABELLED = -2", False),
        ("geometry/triangle.py", "_CANCELLED = 1e-8", "_CANCELLED = 1e-7", False),
        ("benchmarks/scoring.py", "batch.float()", "batch.double()", False),
    ],
)
def test_an_edit_changes_the_key_where_scores_depend_on_it(
    copy: Path, before: str, file: str, old: str, new: str, kept: bool
) -> None:
    path = copy / file
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    try:
        assert (key(copy) == before) is kept
    finally:
        path.write_text(text, encoding="utf-8")


def test_the_code_behind_scores_is_the_upstream_half() -> None:
    rooms = {name.split(".")[1] for name in modules_behind("detectors", "benchmarks.scoring")}
    assert rooms == {"_version", "core", "reference", "geometry", "features", "detectors", "benchmarks"}


def test_layout_and_comments_are_no_code() -> None:
    assert code_digest("x = f(1)  # one\n") == code_digest("x = f(\n    1\n)\n")
    assert code_digest("x = f(1)\n") != code_digest("x = f(2)\n")


OWN = """
from theodolite import Detector, Needs, register

@register("near", title="Near", paper="ours", year=2026, formula="x")
class Near(Detector):
    uses_logits = False

    def _score(self, features, logits):
        return -features.norm(dim=1)
"""


def test_the_code_of_a_score_on_every_layer_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of ``layered?detector=MINE`` the class is ours, and the score is not."""
    rows = ArraySet(torch.randn(20, 4))
    subject = Subject("made", theodolite.Head(torch.eye(4), torch.zeros(4)), rows, rows, {"far": rows})
    cache = ScoreCache(tmp_path, subject)
    paths = {cache.path(parse_spec("layered?detector=knn"), "far")}
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for code in (OWN, OWN.replace("-features", "features")):
        (tmp_path / "near_score.py").write_text(code)
        importlib.invalidate_caches()
        with entered_for_a_while(monkeypatch):
            importlib.import_module("near_score")
            spec, cache = parse_spec("layered?detector=near"), ScoreCache(tmp_path, subject)
            assert cache.keeps(spec)
            paths.add(cache.path(spec, "far"))
            del sys.modules["near_score"]
    assert len(paths) == 3
    with entered_for_a_while(monkeypatch):
        exec(OWN, {"__name__": "typed_in"})
        assert not ScoreCache(tmp_path, subject).keeps(parse_spec("layered?detector=near")), "code unknown"


@contextmanager
def entered_for_a_while(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Scores that are registered meanwhile are not, afterwards."""
    with monkeypatch.context() as patch:
        for name in ("_records", "_by_spelling"):
            patch.setattr(_registry, name, dict(getattr(_registry, name)))
        yield
