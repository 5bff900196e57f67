"""Rows of several layers: heard in one pass, pooled, kept under their name, with a head over all of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import theodolite as th
from small_models import TinyConv
from theodolite import Capture, Head, extract
from theodolite.core.errors import CaptureError, InputError
from theodolite.features import ExtractionSettings, Running
from theodolite.features.layer_rows import LayerRows, layer_names
from theodolite.features.run_log import RunLog

MODEL = "python:small_models:TinyConv?mean=0&size=8"
IMAGES = torch.rand(9, 1, 8, 8, generator=torch.Generator().manual_seed(0))


def straight(model: TinyConv, images: Tensor) -> Tensor:
    """Stem, block and the features before the head, averaged over all positions."""
    model = model.eval()
    with torch.no_grad():
        stem = model.stem(images)
        block = model.block(stem)
    return torch.cat([stem.mean(dim=(2, 3)), block.mean(dim=(2, 3)), block.mean(dim=(2, 3))], dim=1)


@pytest.mark.parametrize(
    "named", [["stem", "block"], ["stem", "block", "fc"], "stem,block", "stem:6,block:10,fc:10"]
)
def test_rows_are_the_layers_outputs_one_behind_the_other(named: str | list[str]) -> None:
    model = TinyConv().train()
    capture = Capture(model, named)
    features, logits = capture(IMAGES)
    assert model.training
    torch.testing.assert_close(features, straight(TinyConv(), IMAGES))
    assert capture.layer == "stem:6,block:10,fc:10"
    assert capture.name == "fc"
    assert capture.rows is not None
    assert capture.rows.columns == {"stem": slice(0, 6), "block": slice(6, 16), "fc": slice(16, 26)}
    torch.testing.assert_close(capture.head(features), logits)
    assert capture.rows.head_of_last(capture.head).equals(Capture(model, "fc").head)
    assert not any(module._forward_hooks for module in model.modules())


def test_a_single_name_is_the_head_as_ever() -> None:
    capture = Capture(TinyConv(), "fc")
    assert capture.rows is None
    assert capture.layer == "fc"
    with pytest.raises(CaptureError, match="expected a linear layer"):
        Capture(TinyConv(), "stem")


class Shapes(nn.Module):
    """Layers of every shape: tokens, maps with channels first and last, several outputs, one used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last, self.tokens, self.pair, self.twice, self.flat = (
            nn.Identity() for _ in range(6)
        )
        self.fc = nn.Linear(5, 2)

    def forward(self, maps: Tensor) -> Tensor:
        maps = self.first(maps)  # (N, 5, 4, 4)
        self.last(maps.permute(0, 2, 3, 1))
        self.tokens(maps.flatten(2).transpose(1, 2))
        self.twice(self.twice(maps))
        self.flat(maps[:1])
        logits: Tensor = self.fc(maps.mean(dim=(2, 3)))
        return logits


def test_maps_and_tokens_are_averaged_over_all_positions() -> None:
    maps = torch.rand(3, 5, 4, 4, generator=torch.Generator().manual_seed(1))
    features, _ = Capture(Shapes(), ["first", "last", "tokens"])(maps)
    mean = maps.mean(dim=(2, 3))
    torch.testing.assert_close(features, torch.cat([mean] * 4, dim=1))


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["first", "twice"], "called 2 times in a forward pass"),
        (["first", "pair"], "called 0 times"),
        (["first", "flat"], "does not give one row for each input"),
        (["first", "nowhere"], "'nowhere' is no layer of the model"),
        (["first", "first"], "named twice"),
        ("first:5,last:6,fc:5", "the layers are first:5,last:5,fc:5, expected first:5,last:6,fc:5"),
    ],
)
def test_layers_that_give_no_rows_are_refused(names: str | list[str], words: str) -> None:
    with pytest.raises((CaptureError, InputError), match=words):
        Capture(Shapes(), names)(torch.rand(3, 5, 4, 4))


def test_a_cosine_head_has_no_rows_of_several_layers() -> None:
    rows = LayerRows(("a", "fc"), (2, 3))
    with pytest.raises(InputError, match="the head is a cosine"):
        rows.head_over(Head.cosine(torch.rand(4, 3) + 0.1))
    with pytest.raises(InputError, match="ends in 3"):
        rows.head_over(Head(torch.rand(4, 5)))


def test_the_text_of_rows_reads_back() -> None:
    rows = LayerRows(("layer2.0", "fc"), (4, 8))
    assert LayerRows.parse(str(rows)) == rows
    assert rows.width == 12
    assert LayerRows.parse("fc") is LayerRows.parse(None) is None
    assert layer_names(["a", "b"]) == layer_names("a, b") == layer_names("a:3,b:4") == ["a", "b"]
    assert layer_names(None) == layer_names("") == []
    for text in ("a:x,b:2", "a:3", ":3,b:4", "a:0,b:2", "a:1,a:2"):
        with pytest.raises(InputError):
            LayerRows.parse(text)
    with pytest.raises(InputError, match="between the commas is empty"):
        layer_names("a,,b")


def test_a_store_of_layers_is_another_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THEODOLITE_CACHE", str(tmp_path / "cache"))
    images = np.random.default_rng(0).integers(0, 256, (30, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "pictures.npz", images=images)
    log = RunLog()
    settings = ExtractionSettings(layer="stem,block", running=Running(batch_size=7, compile=True, log=log))
    store = extract(tmp_path / "pictures.npz", MODEL, settings=settings)
    assert store.width == 26
    assert store.manifest.recipe.layer == "stem:6,block:10,fc:10"
    assert store.manifest.recipe.rows is not None
    rows = torch.cat([features for features, _, _ in store])
    shown = torch.from_numpy(images)[:, None].float() / 255
    torch.testing.assert_close(rows, straight(TinyConv(), shown))
    assert "not compiled" in log.compiled, "a compiler has not seen the hooks"
    plain = extract(tmp_path / "pictures.npz", MODEL)
    other = extract(tmp_path / "pictures.npz", MODEL, settings=ExtractionSettings(layer="stem,fc"))
    assert len({store.key, plain.key, other.key}) == 3
    assert plain.manifest.recipe.rows is None
    assert torch.equal(torch.cat([features for features, _, _ in plain]), rows[:, 16:])


class Looks(th.MultiLayer):
    """A score that computes from the model; what it gives is said by the test."""

    observes = ("own",)
    gives: object = None

    def observe(self, model: nn.Module, inputs: Tensor) -> Mapping[str, Tensor]:
        assert not model.training
        return self.gives if isinstance(self.gives, dict) else {"own": inputs.flatten(1)[:, :2]}


def test_numbers_of_a_scores_own_stand_before_the_features() -> None:
    capture = Capture(TinyConv().train(), ["stem", "fc"], Looks())
    features, logits = capture(IMAGES)
    assert capture.layer == "stem:6,own:2,fc:10"
    assert torch.equal(features[:, 6:8], IMAGES.flatten(1)[:, :2])
    torch.testing.assert_close(capture.head(features), logits)
    assert str(capture.model_score).startswith("Looks#"), "a digest of code that is not ours"
    again = Capture(TinyConv(), capture.layer, Looks())
    assert torch.equal(again(IMAGES)[0], features)


TYPED = """
class Looks(MultiLayer):
    observes = ("own",)

kinds.append(Looks)
"""


def test_what_a_score_that_was_typed_in_asks_is_never_found_again() -> None:
    """Its code cannot be read, so that no name says whether it has changed."""
    kinds: list[type[th.MultiLayer]] = []
    for _ in range(2):
        exec(TYPED, {"MultiLayer": th.MultiLayer, "__name__": "typed_in", "kinds": kinds})
    first, again, changed = (str(kind().model_score) for kind in (kinds[0], kinds[0], kinds[1]))
    assert first == again
    assert first.startswith("Looks#")
    assert first != changed
    assert str(Looks().model_score) == str(Looks().model_score)


@pytest.mark.parametrize(
    ("gives", "words"),
    [
        ({}, "gives nothing, expected own"),
        ({"other": torch.ones(9, 1)}, "gives other, expected own"),
        ({"own": torch.ones(9)}, r"a row of numbers for each of 9 inputs: \(9, E\)"),
        ({"own": torch.ones(8, 1)}, r"gives shape \(8, 1\) for 'own'"),
        ({"own": 3.0}, "gives float for 'own'"),
    ],
)
def test_numbers_that_are_no_rows_are_refused(gives: object, words: str) -> None:
    score = Looks()
    score.gives = gives
    with pytest.raises(CaptureError, match=words):
        Capture(TinyConv(), score=score)(IMAGES)


def test_a_scores_own_numbers_must_not_be_called_like_a_layer() -> None:
    score = Looks()
    score.observes = ("stem",)
    with pytest.raises(CaptureError, match="calls its own numbers 'stem', which is a layer of the model"):
        Capture(TinyConv(), score=score)
