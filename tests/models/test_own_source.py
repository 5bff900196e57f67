"""A source of models that somebody else wrote: in a file of theirs, nothing of ours is touched."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from command_server import run
from model_checks import assert_works
from theodolite.core.errors import InputError
from theodolite.features.store import FeatureStore
from theodolite.models import (
    LoadedModel,
    ModelCard,
    Request,
    list_sources,
    load_model,
    registry,
    source,
    weights_present,
)

SOURCE = '''
"""`mine:NAME`: a linear classifier of 8×8 pictures, its weights in NAME.safetensors."""

from pathlib import Path

from torch import nn

from theodolite.models import LoadedModel, Request, source
from theodolite.models.preprocess import Pixels


def file_of(name: str) -> Path:
    return Path(f"{name}.safetensors")


@source("mine", options=("num_classes",), present=lambda name: file_of(name).is_file())
def load(request: Request) -> LoadedModel:
    pixels = Pixels(size=8)
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, request.num_classes or 4))
    if request.fetch:
        Request(request.spec, request.name, weights=file_of(request.name)).fill(model)
    request.fill(model)
    return LoadedModel(request.spec, model, pixels, repr(pixels), pixels.input_shape)
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory with a source in a module, imported as a user would, and weights for one model."""
    (tmp_path / "my_source.py").write_text(SOURCE, encoding="utf-8")
    weights = {"1.weight": torch.linspace(-1, 1, 4 * 192).reshape(4, 192), "1.bias": torch.arange(4.0)}
    save_file(weights, tmp_path / "small.safetensors")
    monkeypatch.setattr(registry, "_sources", dict(registry._sources))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    __import__("my_source")
    yield tmp_path
    del sys.modules["my_source"]


@pytest.mark.usefixtures("folder")
def test_its_models_load() -> None:
    assert "mine" in list_sources()
    loaded = load_model("mine:small")
    assert loaded.spec == "mine:small"
    assert loaded.model.state_dict()["1.bias"].tolist() == [0, 1, 2, 3]
    assert_works(loaded, 4)
    assert_works(load_model("mine:other?num_classes=7", pretrained=False), 7)


@pytest.mark.usefixtures("folder")
def test_it_says_which_weights_are_here() -> None:
    cards = [ModelCard(name, f"mine:{name}", 192, 8) for name in ("small", "absent")]
    assert [weights_present(card.spec) for card in cards] == [True, False]


@pytest.mark.usefixtures("folder")
def test_its_options_are_checked_like_all_others() -> None:
    with pytest.raises(InputError, match="mine models take no option 'colour'; options: num_classes"):
        load_model("mine:small?colour=red")


def test_the_command_takes_its_models(folder: Path) -> None:
    (folder / "pictures").mkdir()
    for level in (0, 90, 250):
        Image.new("RGB", (8, 8), (level, 30, 60)).save(folder / "pictures" / f"{level}.png")
    arguments = ("extract", "--model", "mine:small", "--data", "pictures", "-o", "store", "--workers", "0")
    done = run("--import", "my_source", *arguments, folder=folder)
    assert done.code == 0, done.err
    store = FeatureStore(folder / "store")
    assert (len(store), store.manifest.recipe.model) == (3, "mine:small")
    unknown = run(*arguments, folder=folder, env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert unknown.code == 2
    assert "model 'mine:small' is neither an alias" in unknown.err


@pytest.mark.usefixtures("folder")
def test_a_prefix_belongs_to_one_module() -> None:
    def load(_: Request) -> LoadedModel:
        raise NotImplementedError

    with pytest.raises(InputError, match=r"'timm' is taken by theodolite\.models\.sources\.timm"):
        source("timm")(load)
    source("ours")(load)
    source("ours")(load)  # as when a cell of a notebook runs again
    assert not weights_present("ours:anything")
