"""The paper's headline, the average over its nine ImageNet models, as `reproduce` prints it."""

from __future__ import annotations

from pathlib import Path

import pytest

from made_folders import make_folder
from theodolite.benchmarks import Subject, compare, from_folder
from theodolite.benchmarks.extraction import Extraction
from theodolite.paper import Context, Item, RunStudy, items, read_study, run_item

TABLE = "imagenet-backbones"
SETS = {"svhn": "inaturalist", "isun": "sun", "places365": "places"}


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made features in the place of the paper's data and checkpoints, which pass for whole."""

    def subject(_: Extraction, alias: str) -> Subject:
        folder = tmp_path / alias
        if not folder.exists():
            about = {"name": alias, "protocol": "imagenet", "backbone": alias}
            make_folder(folder, seed=len(list(tmp_path.iterdir())), about=about)
            for name, wanted in SETS.items():
                (folder / f"{name}.safetensors").rename(folder / f"{wanted}.safetensors")
        return from_folder(folder)

    monkeypatch.setattr(compare, "_MAY_LACK", 1.0)
    monkeypatch.setattr(Extraction, "subject", subject)


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize("present", [9, 2])
def test_reproduce_prints_the_average_over_the_papers_models(
    present: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = items()[TABLE]
    assert len(item.pairs) == 9
    monkeypatch.setattr(Item, "runnable", lambda _item, _root: list(item.pairs)[:present])
    produced = run_item(item, Context(tmp_path, tmp_path / "cache"))
    (study,) = produced.values()
    assert isinstance(study, RunStudy)
    table = study.tables()[0]
    assert table.title == f"FPR95 ↓ in %, {present} models"
    assert table.header[-2:] == (f"average of {present} models", "rank")
    beside = {label: row[-2].published for label, row in table.rows}
    assert len(beside) == 13
    document = study.document()
    if present == 9:
        assert (beside["ORA"], beside["KNN"], beside["R-Mah"]) == ("38.34", "52.43", "49.50")
        assert all(beside.values())
    else:
        assert not any(beside.values())
        assert "38.34" not in document
        assert "The published average of imagenet-backbones is over 9 models and does not stand" in document
    again = read_study(study.to_json())
    assert again.document() == document
