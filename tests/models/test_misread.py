"""What is given in place of weights, a model or features: the message says what it is and what to do."""

from __future__ import annotations

import collections
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from theodolite import Energy, Guard, Head
from theodolite.core.errors import InputError, ModelError
from theodolite.data import open_source
from theodolite.models import load_model
from theodolite.models.checkpoint import read_state_dict


class Net(nn.Module):
    """A network that can be pickled whole."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.fc(images)
        return logits


class Settings:
    """Something that a training script keeps beside the weights."""


def script(path: Path) -> None:
    torch.jit.save(torch.jit.script(Net()), path)


def traced(path: Path) -> None:
    torch.jit.save(torch.jit.trace(Net(), torch.zeros(1, 4)), path)  # type: ignore[no-untyped-call]


def exported(path: Path) -> None:
    torch.export.save(torch.export.export(Net(), (torch.zeros(1, 4),)), path)


def whole(path: Path) -> None:
    torch.save(Net(), path)


def whole_in_the_old_format(path: Path) -> None:
    torch.save(Net(), path, _use_new_zipfile_serialization=False)


def with_settings(path: Path) -> None:
    torch.save({"state_dict": Net().state_dict(), "settings": Settings()}, path)


def dynamically_quantised(path: Path) -> None:
    plain = nn.Sequential(nn.Linear(4, 3))
    model = torch.ao.quantization.quantize_dynamic(plain, {nn.Linear})  # type: ignore[no-untyped-call]
    torch.save(model.state_dict(), path)


def statically_quantised(path: Path) -> None:
    weight = torch.quantize_per_tensor(torch.randn(3, 4), 0.1, 0, torch.qint8)
    torch.save({"state_dict": {"fc.weight": weight, "fc.scale": torch.tensor(0.1)}}, path)


def packed_by_others(path: Path) -> None:
    torch.save({"fc.weight": torch.zeros(3, 4, dtype=torch.int8), "fc.SCB": torch.ones(3)}, path)


def text(content: bytes) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.write_bytes(content)

    return write


CASES: dict[str, tuple[Callable[[Path], None], str, tuple[str, ...]]] = {
    "script": (script, "w.pt", ("is a TorchScript program", "torch.jit.load('w.pt').state_dict()")),
    "trace": (traced, "w.pt", ("is a TorchScript program",)),
    "export": (exported, "w.pt2", ("is a program of torch.export", "torch.export.load('w.pt2')")),
    "whole": (
        whole,
        "w.pt",
        ("is a whole model, pickled (test_misread.Net)", ".state_dict(), 'weights.pt')"),
    ),
    "whole-old": (whole_in_the_old_format, "w.pt", ("is a whole model, pickled (test_misread.Net)",)),
    "settings": (
        with_settings,
        "w.ckpt",
        ("beside tensors it holds a test_misread.Settings", "If you trust"),
    ),
    "dynamic": (dynamically_quantised, "w.pt", ("holds quantised weights", "from before the quantisation")),
    "static": (statically_quantised, "w.pt", ("holds quantised weights (fc.weight)",)),
    "packed": (packed_by_others, "w.pt", ("holds quantised weights (fc.SCB)",)),
    "pointer": (
        text(b"version https://git-lfs.github.com/spec/v1\n"),
        "w.pt",
        ("pointer of Git LFS", "git lfs pull"),
    ),
    "page": (text(b"<!DOCTYPE html><html>"), "w.safetensors", ("is a web page", "download the file itself")),
    "keras": (text(b"\x89HDF\r\n\x1a\n"), "w.h5", ("is an HDF5 file",)),
    "onnx": (text(b"\x08\x07\x12\x07pytorch"), "w.onnx", ("is an ONNX graph",)),
    "empty": (text(b""), "w.pt", ("is empty",)),
}


@pytest.mark.parametrize("name", CASES)
def test_weights_files(name: str, tmp_path: Path) -> None:
    make, file, words = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make(tmp_path / file)
        with pytest.raises(ModelError) as caught:
            read_state_dict(tmp_path / file)
    message = str(caught.value)
    assert str(tmp_path / file) in message
    assert "\n" not in message
    assert "\x1b" not in message
    for word in words:
        assert word.replace("test_misread", Net.__module__) in message


def test_what_was_taken_out_loads(tmp_path: Path) -> None:
    """The advice works."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        script(tmp_path / "script.pt")
        exported(tmp_path / "export.pt2")
        states = {
            "a": torch.jit.load(tmp_path / "script.pt").state_dict(),  # type: ignore[no-untyped-call]
            "b": torch.export.load(tmp_path / "export.pt2").state_dict,
        }
    for name, state in states.items():
        torch.save(state, tmp_path / name)
        assert set(read_state_dict(tmp_path / name)) == {"fc.weight", "fc.bias"}


def test_state_dicts_are_not_taken_for_anything_else(tmp_path: Path) -> None:
    state = Net().state_dict()
    kinds = (state, dict(state), collections.OrderedDict(state), {"state_dict": state, "epoch": 3})
    for new in (True, False):
        for number, content in enumerate(kinds):
            path = tmp_path / f"{number}{new}.pt"
            torch.save(content, path, _use_new_zipfile_serialization=new)
            assert set(read_state_dict(path)) == {"fc.weight", "fc.bias"}


def test_an_archive_of_something_else(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "w.pt", "w") as archive:
        archive.writestr("notes/readme.txt", "nothing")
    with pytest.raises(ModelError, match="cannot be read"):
        read_state_dict(tmp_path / "w.pt")


def test_places_that_are_no_file(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="is a folder: name the file of weights in it"):
        read_state_dict(tmp_path)
    for address in ("https://example.org/w.pt", Path("https://example.org/w.pt"), "s3://bucket/w.pt"):
        with pytest.raises(ModelError, match="is a web address, and nothing is fetched from it"):
            load_model("timm:resnet10t", weights=address)


# ---------------------------------------------------------------------- models


def test_an_address_or_a_file_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is a web address.*--model timm:NAME --weights FILE"):
        load_model("https://example.org/resnet.pt?download=true")
    (tmp_path / "mine.pt").touch()
    with pytest.raises(InputError, match=r"is a file: name the architecture.*--weights .*mine\.pt"):
        load_model(str(tmp_path / "mine.pt"))


# ---------------------------------------------------------------------- tables


def test_tables_are_no_features() -> None:
    pandas = pytest.importorskip("pandas")
    numbers = np.random.default_rng(0).standard_normal((300, 4)).astype("float32")
    table, head = pandas.DataFrame(numbers), Head(torch.randn(3, 4))
    guard = Guard.fit(numbers[:200], head=head, detector=Energy(), calibration=numbers[200:])
    with pytest.raises(InputError, match=r"features is a DataFrame of pandas: .*features\.to_numpy\(\)"):
        Guard.fit(table, head=head)
    with pytest.raises(InputError, match="inputs is a DataFrame of pandas"):
        guard.verdicts(table)
    with pytest.raises(InputError, match=r"labels is a Series of pandas.*labels\.to_numpy\(\)"):
        Guard.fit(numbers, pandas.Series(np.arange(300) % 3), head=head)
    with pytest.raises(InputError, match="data is a DataFrame of pandas"):
        open_source(table)


# ---------------------------------------------------------------------- data


def test_an_address_is_no_data() -> None:
    for address in ("https://example.org/pictures.zip", "s3://bucket/pictures"):
        with pytest.raises(InputError, match="is a web address, and nothing is fetched from it"):
            open_source(address)
