"""What a driver tells its workers, and what they must see as it does: without Ray."""

from __future__ import annotations

import importlib
import pickle
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from theodolite.cli._importing import import_own
from theodolite.core.errors import InputError
from theodolite.data import open_source
from theodolite.features.ray_source import SentSource
from theodolite.features.ray_told import Driver, Folders


def test_a_worker_imports_what_the_driver_was_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scores and formats of one's own are known by name only where their module was imported."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "kit").mkdir()
    (tmp_path / "kit" / "__init__.py").touch()
    (tmp_path / "kit" / "told_to_workers.py").touch()
    import_own(str(tmp_path / "kit" / "told_to_workers.py"))
    driver = pickle.loads(pickle.dumps(Driver.here()))
    for name in ("kit", "kit.told_to_workers"):
        monkeypatch.delitem(sys.modules, name)
    sys.path.remove(str(tmp_path))
    driver.joined()
    assert "kit.told_to_workers" in sys.modules
    gone = replace(driver, imports=(driver.imports[-1]._replace(module="kit.not_there"),))
    with pytest.raises(InputError, match=r"a worker cannot import kit\.not_there"):
        gone.joined()


def test_a_worker_finds_modules_where_the_driver_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it reads what needs them: a model whose class is in a file of one's own."""
    (tmp_path / "own_to_the_driver.py").write_text("class Model:\n    pass\n", encoding="utf-8")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    model = importlib.import_module("own_to_the_driver").Model()
    sent = pickle.dumps((Folders.here(), model))
    sys.path.remove(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_to_the_driver")
    _, read = pickle.loads(sent)
    assert type(read).__name__ == "Model"


def test_a_worker_of_another_version_is_refused() -> None:
    with pytest.raises(InputError, match=r"the driver 0\.0\.0: install the same version"):
        replace(Driver.here(), version="0.0.0").joined()


def test_a_worker_that_does_not_see_the_pictures_of_a_table_is_an_error(tmp_path: Path) -> None:
    """Else all of them could be skipped as unreadable."""
    pyarrow = pytest.importorskip("pyarrow", reason="pip install 'theodolite[parquet]'")
    parquet = pytest.importorskip("pyarrow.parquet")
    (tmp_path / "a.png").touch()
    parquet.write_table(pyarrow.table({"uri": [str(tmp_path / "a.png")] * 3}), tmp_path / "t.parquet")
    sent = SentSource.of(open_source(tmp_path / "t.parquet"))
    assert len(sent.run(range(1, 3))) == 2
    (tmp_path / "a.png").unlink()
    with pytest.raises(InputError, match=r"a worker does not see .*a\.png"):
        sent.run(range(1, 3))
    addresses = pyarrow.table({"uri": ["s3://bucket/a.png"]})
    parquet.write_table(addresses, tmp_path / "t.parquet")
    assert SentSource.of(open_source(tmp_path / "t.parquet")).known is None
