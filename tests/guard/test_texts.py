"""A guard of texts as a function over batches, and beside columns of other things."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from made_guards import fitted
from text_models import sentences, write_classifier, write_jsonl
from theodolite.core.errors import InputError, UnreadableTextError
from theodolite.guard import BatchGuard, Guard, fit_guard
from theodolite.models import load_model

pytest.importorskip("transformers", reason="pip install 'theodolite[text]'")


@pytest.fixture(scope="module")
def guard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    model = f"hf-text:{write_classifier(folder / 'model')}"
    parts = [write_jsonl(folder / f"{seed}.jsonl", sentences(60, seed)) for seed in (1, 2)]
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("THEODOLITE_CACHE", str(folder / "cache"))
        found = fit_guard(parts[0], model, detector="energy", calibration=parts[1])
    found.guard.save(folder / "guard.safetensors")
    return folder / "guard.safetensors"


def test_a_column_of_texts_goes_where_the_function_goes(guard: Path) -> None:
    """Pickled; rows without a text are flagged, and those beside them are judged as if they were alone."""
    texts = sentences(5, 3)
    column = [texts[0], "", texts[1], None, "\u200b", texts[2], texts[3], " \n", texts[4]]
    judge = pickle.loads(pickle.dumps(BatchGuard(guard, column="text", batch_size=2)))
    found = judge({"text": column, "id": list(range(9))})
    known = Guard.load(guard)
    loaded = load_model(known.provenance.model)  # type: ignore[union-attr]
    expected = [known.attach(loaded).verdicts([text]) for text in texts]
    there = [0, 2, 5, 6, 8]
    assert found["unscorable"].tolist() == [place not in there for place in range(9)]
    assert found["is_ood"][found["unscorable"]].all()
    assert found["score"][there] == pytest.approx([float(one.score[0]) for one in expected], rel=1e-4)
    assert found["name"][there].tolist() == [known.class_name(int(one.predicted[0])) for one in expected]
    assert found["id"] == list(range(9))
    again = judge({"text": np.array(texts)})
    assert again["score"] == pytest.approx(found["score"][there], rel=1e-4)


def test_with_an_error_for_rows_without_a_text(guard: Path) -> None:
    judge = BatchGuard(guard, column="text", unscorable="raise")
    with pytest.raises(UnreadableTextError, match=r"row 1 of column 'text' is no text \(it is empty\)"):
        judge({"text": ["book", ""]})
    with pytest.raises(InputError, match=r"row 1 of column 'text': .* leaves nothing of it"):
        judge({"text": ["book", "\u200b"]})
    with pytest.raises(InputError, match="row 1 of column 'text' is a int, expected a text"):
        judge({"text": ["book", 7]})


def test_texts_and_pictures_are_not_taken_for_each_other(guard: Path) -> None:
    with pytest.raises(InputError, match="a Image was given, expected a text"):
        BatchGuard(guard, column="x")({"x": [Image.new("RGB", (8, 8))]})
    pictures = fitted()
    with pytest.warns(UserWarning, match="fitted on features alone"):
        pictures.attach(load_model("python:small_models:Tiny?mean=0&size=8"))
    with pytest.raises(InputError, match=r"column 'x' holds texts, but the model .* takes pictures"):
        BatchGuard(pictures, column="x")({"x": ["a.png"]})


def test_features_of_texts_need_no_model(guard: Path) -> None:
    known = Guard.load(guard)
    features = torch.randn(4, known.width, generator=torch.Generator().manual_seed(0))
    found = BatchGuard(guard, column="f")({"f": features.numpy()})
    assert found["score"] == pytest.approx(known.verdicts(features).score.tolist(), rel=1e-5)
