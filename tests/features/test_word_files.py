"""Files of embedded words: what they say of themselves, and for which features they are refused."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch

import theodolite as th
from theodolite.core.errors import FormatError, InputError, TheodoliteWarning
from theodolite.core.files import sha256
from theodolite.core.plain import JsonValue
from theodolite.features.head_files import read_head
from theodolite.features.linear_probe import save_probe
from theodolite.features.word_files import require_words_of

MODEL = "openclip:ViT-B-32/openai"
USUAL = "a photo of a {class}."
WORDS = th.Head.cosine(torch.eye(3))


def written(folder: Path, model: str = MODEL, **more: JsonValue) -> Path:
    save_probe(WORDS, folder / "words.safetensors", model=model, more=more)
    return folder / "words.safetensors"


def test_words_of_the_same_model_are_taken(tmp_path: Path) -> None:
    words = written(tmp_path, weights=None, templates=[USUAL])
    require_words_of(words, MODEL)
    require_words_of(words, f"{MODEL}?classes=cat,dog")
    assert read_head(words).equals(WORDS)


def test_words_with_another_checkpoint_are_refused(tmp_path: Path) -> None:
    one, two = tmp_path / "one.pt", tmp_path / "two.pt"
    one.write_bytes(b"one")
    two.write_bytes(b"two")
    own = written(tmp_path, weights=None)
    with pytest.raises(
        InputError, match=r"embeds them with its own weights than those of the features, .*one"
    ):
        require_words_of(own, MODEL, one)
    trained = written(tmp_path, weights=sha256(one))
    require_words_of(trained, MODEL, one)
    require_words_of(trained, MODEL, tmp_path / "gone.pt")
    for weights in (two, None):
        with pytest.raises(InputError, match="with other weights than those of the features"):
            require_words_of(trained, MODEL, weights)
    require_words_of(written(tmp_path), MODEL, one)  # of a version that did not say it


def test_words_in_other_templates_are_told(tmp_path: Path) -> None:
    words = written(tmp_path, weights=None, templates=[USUAL])
    templates = tmp_path / "templates.txt"
    templates.write_text(f"{USUAL}\nart of a {{}}\n")
    with pytest.warns(TheodoliteWarning, match=r"in other templates \('a photo of a \{class\}\.'\) than"):
        require_words_of(words, f"{MODEL}?prompt=art of a {{}}")
    with pytest.warns(TheodoliteWarning, match=r"\('a photo of a \{class\}\.', and 1 more\)"):
        require_words_of(words, f"{MODEL}?templates={templates}")
    both = written(tmp_path, weights=None, templates=["a photo of a {}.", "art of a {class}"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        require_words_of(both, f"{MODEL}?templates={templates}")
        templates.unlink()
        require_words_of(words, f"{MODEL}?templates={templates}")


def test_a_folder_is_the_same_from_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model").mkdir()
    words = written(tmp_path, f"openclip:{tmp_path / 'model'}")
    monkeypatch.chdir(tmp_path)
    require_words_of(words, "openclip:model?classes=cat,dog")
    with pytest.raises(InputError, match="holds words as openclip:/"):
        require_words_of(words, "openclip:other?classes=cat,dog")


def test_files_that_are_no_words_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is no file of embedded words"):
        require_words_of(tmp_path / "none.safetensors", MODEL)
    (tmp_path / "words.txt").write_text("cat\ndog\n")
    with pytest.raises(FormatError, match=r"words\.txt"):
        require_words_of(tmp_path / "words.txt", MODEL)
