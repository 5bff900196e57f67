"""A cosine head stays one: in files of ours and of others, in feature folders, as a probe of a model."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from made_folders import CLASSES, WIDTH, make_folder
from theodolite import Head
from theodolite.benchmarks.feature_folder import from_folder
from theodolite.core.errors import FormatError, ModelError, TheodoliteWarning
from theodolite.features.head_files import read_head
from theodolite.features.linear_probe import save_probe
from theodolite.models import load_model
from theodolite.models.checkpoint import probe_head

COSINE = Head.cosine(torch.randn(CLASSES, WIDTH, generator=torch.Generator().manual_seed(0)))
PLAIN = {"weight": COSINE.weight, "bias": COSINE.bias}


def test_a_probe_of_either_kind_comes_back(tmp_path: Path) -> None:
    linear = Head(2 * COSINE.weight, torch.ones(CLASSES))
    for head in (COSINE, linear):
        save_probe(head, tmp_path / "head.safetensors")
        assert read_head(tmp_path / "head.safetensors").equals(head)
        assert probe_head(tmp_path / "head.safetensors").equals(head)


@pytest.mark.parametrize("word", ["true", "True", "1"])
def test_files_of_others_say_it_in_their_metadata_or_as_an_entry(tmp_path: Path, word: str) -> None:
    path = tmp_path / "head.safetensors"
    save_file(PLAIN, path, metadata={"unit_features": word})
    assert read_head(path).equals(COSINE)
    assert probe_head(path).equals(COSINE)
    save_file({**PLAIN, "unit_features": torch.tensor(True)}, path)
    assert read_head(path).equals(COSINE)
    assert probe_head(path).equals(COSINE)
    save_file(PLAIN, path, metadata={"unit_features": "false"})
    assert not read_head(path).unit_features


def test_a_folder_keeps_its_cosine_head(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "f")
    save_probe(COSINE, folder / "head.safetensors")
    assert from_folder(folder).head.equals(COSINE)


def test_what_looks_like_one_and_does_not_say_so_is_warned_of(tmp_path: Path) -> None:
    path = tmp_path / "head.safetensors"
    save_file(PLAIN, path)
    with pytest.warns(TheodoliteWarning, match="as the cosine head of a zero-shot model"):
        assert not read_head(path).unit_features


@pytest.mark.parametrize(
    ("tensors", "metadata", "told"),
    [
        (PLAIN, {"unit_features": "perhaps"}, "expected true or false"),
        ({**PLAIN, "unit_features": torch.ones(3)}, {}, "must be one number"),
        ({**PLAIN, "unit_features": torch.tensor(0)}, {"unit_features": "true"}, "says two things"),
    ],
)
def test_what_cannot_be_read_is_refused(
    tmp_path: Path, tensors: dict[str, torch.Tensor], metadata: dict[str, str], told: str
) -> None:
    save_file(tensors, tmp_path / "head.safetensors", metadata=metadata)
    with pytest.raises(FormatError, match=told):
        read_head(tmp_path / "head.safetensors")


def test_a_network_with_a_linear_layer_takes_no_cosine_head(tmp_path: Path) -> None:
    encoder = load_model("scl:resnet18", pretrained=False)
    save_file(
        {key: value for key, value in encoder.model.state_dict().items() if not key.startswith("fc.")},
        tmp_path / "encoder.safetensors",
    )
    save_probe(Head.cosine(torch.eye(10, 512)), tmp_path / "cosine.safetensors")
    with pytest.raises(ModelError, match="is a cosine head"):
        load_model(
            "scl:resnet18", weights=tmp_path / "encoder.safetensors", linear=tmp_path / "cosine.safetensors"
        )
