"""Arrays that are something else than they are taken for: refused, or taken for what they are."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from command_server import run
from theodolite.core.errors import InputError
from theodolite.data import open_source
from theodolite.features import ExtractionSettings, extract
from theodolite.features.arrays import open_array
from theodolite.features.folders import holds_features
from theodolite.guard import fit_guard

MODEL = "python:small_models:Tiny?mean=0&size=8"
RNG = np.random.default_rng(0)
PICTURES = RNG.integers(0, 256, (40, 8, 8), dtype=np.uint8)
FEATURES = RNG.standard_normal((40, 16)).astype(np.float32)
LABELS = np.arange(40) % 3


def test_pictures_are_not_taken_for_features(tmp_path: Path) -> None:
    np.save(tmp_path / "pictures.npy", PICTURES)
    np.savez(tmp_path / "pictures.npz", images=PICTURES, labels=LABELS)
    np.save(tmp_path / "flat.npy", PICTURES.reshape(40, 64))
    for name in ("pictures.npy", "pictures.npz"):
        assert not holds_features(tmp_path / name)
        with pytest.raises(InputError, match=r"is not a feature store: --model says which"):
            fit_guard(tmp_path / name, detector="knn")
        with pytest.raises(InputError, match=r"expected features of shape \(N, D\)|name its arrays features"):
            fit_guard(tmp_path / name, detector="knn", settings=ExtractionSettings(kind="features"))
    for model in (MODEL, None):
        with pytest.raises(InputError, match=r"uint8 numbers .* neither: features are"):
            fit_guard(tmp_path / "flat.npy", model, detector="knn")


@pytest.mark.parametrize("values", [FEATURES, FEATURES.clip(0, 1)], ids=["signed", "as pictures are"])
def test_features_are_not_taken_for_pictures(tmp_path: Path, values: np.ndarray) -> None:
    np.save(tmp_path / "features.npy", values)
    np.savez(tmp_path / "features.npz", features=values)
    np.savez(tmp_path / "x.npz", x=values)
    for name in ("features.npy", "features.npz"):
        assert holds_features(tmp_path / name)
        with pytest.raises(InputError, match="holds features, which no model is to look at"):
            extract(tmp_path / name, MODEL)
        with pytest.raises(InputError, match=r"--model is for images, but .* holds features"):
            fit_guard(tmp_path / name, MODEL)
        with pytest.raises(InputError, match=r"images have shape \(40, 16\)|but no pictures"):
            extract(tmp_path / name, MODEL, settings=ExtractionSettings(kind="pictures"))
    with pytest.raises(InputError, match=r"images have shape \(40, 16\)"):
        extract(tmp_path / "x.npz", MODEL)
    np.save(tmp_path / "tokens.npy", RNG.standard_normal((40, 7, 16)).astype(np.float32))
    with pytest.raises(InputError, match="expected 0 to 1: give the pictures before they are normalised"):
        extract(tmp_path / "tokens.npy", MODEL)


def test_of_several_arrays_none_is_chosen_by_chance(tmp_path: Path) -> None:
    def saved(name: str, *unnamed: np.ndarray, **named: np.ndarray) -> Path:
        np.savez(tmp_path / name, *unnamed, **named)  # type: ignore[arg-type]
        return tmp_path / name

    for path in (
        saved("keras.npz", x_train=PICTURES, y_train=LABELS, x_test=PICTURES, y_test=LABELS),
        saved("two.npz", PICTURES, PICTURES),
        saved("both.npz", images=PICTURES, data=PICTURES),
    ):
        with pytest.raises(InputError, match=r"holds \w+ and \w+, each of which may be the pictures"):
            open_source(path)
    for path in (
        saved("halves.npz", FEATURES, FEATURES),
        saved("names.npz", features=FEATURES, embeddings=FEATURES),
    ):
        with pytest.raises(InputError, match=r"holds \w+ and \w+, each of which may be the features"):
            open_array(path)
    with pytest.raises(InputError, match="holds labels and label, each of which may be the labels"):
        open_array(saved("labels.npz", features=FEATURES, labels=LABELS, label=LABELS))


def test_labels_are_those_of_the_pictures_that_are_taken(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x_train=PICTURES, y_test=LABELS + 1, y_train=LABELS)
    source = open_source(tmp_path / "a.npz")
    assert [source[index].label for index in range(40)] == LABELS.tolist()
    np.savez(tmp_path / "b.npz", x_test=PICTURES, y_train=LABELS)
    assert open_source(tmp_path / "b.npz")[0].label is None
    np.savez(tmp_path / "c.npz", PICTURES, LABELS)
    assert len(open_source(tmp_path / "c.npz")) == 40
    np.savez(tmp_path / "d.npz", images=PICTURES, features=FEATURES)
    assert holds_features(tmp_path / "d.npz")
    assert len(open_source(tmp_path / "d.npz")) == len(open_array(tmp_path / "d.npz")) == 40


@pytest.mark.parametrize("values", [PICTURES, FEATURES], ids=["pictures", "features"])
def test_a_file_with_the_suffix_of_the_other_kind_says_so(tmp_path: Path, values: np.ndarray) -> None:
    np.save(tmp_path / "one.npy", values)
    np.savez(tmp_path / "many.npz", values)
    shutil.copy(tmp_path / "one.npy", tmp_path / "one.npz")
    shutil.copy(tmp_path / "many.npz", tmp_path / "many.npy")
    for name, message in (
        ("one.npz", "call it .npy"),
        ("many.npy", "call it .npz"),
    ):
        for opened in (open_source, open_array, holds_features, lambda path: extract(path, MODEL)):
            with pytest.raises(InputError, match=re.escape(message)):
                opened(tmp_path / name)
    if values is PICTURES:
        assert len(open_source(tmp_path / "one.npz", kind="npy")) == 40
        assert len(open_source(tmp_path / "many.npy", kind="npz")) == 40


def test_the_command_says_it_in_a_paragraph(tmp_path: Path) -> None:
    np.savez(tmp_path / "keras.npz", x_train=PICTURES, x_test=PICTURES)
    np.save(tmp_path / "features.npy", FEATURES)
    shutil.copy(tmp_path / "features.npy", tmp_path / "features.npz")
    out = ("-o", tmp_path / "out")
    for words, message in (
        (("--model", MODEL, "--data", tmp_path / "keras.npz"), "x_test and x_train, each of which"),
        (("--data", tmp_path / "features.npz", "--head", "h"), "is one array, not an archive"),
        (("--model", MODEL, "--data", tmp_path / "features.npy"), "which no model is to look at"),
    ):
        outcome = run("extract", *words, *out)
        assert outcome.code == 2
        assert message in outcome.err
        assert outcome.err.strip().count("\n") == 0
    assert not (tmp_path / "out").exists()
