"""`hf-text:`: sequence classifiers and pooled encoders of transformers, through its real loaders."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import nn

import text_models
from text_models import LIMIT, NAMES, SPECIAL, WIDTH, WORDS, sentences, write_classifier
from theodolite import Guard
from theodolite.core.errors import CaptureError, InputError, ModelError, UnreadableImageError
from theodolite.data import Sample
from theodolite.data.texts import Texts
from theodolite.features import Capture
from theodolite.features.checked import checked_capture
from theodolite.features.encoder import OUTPUT
from theodolite.features.loading import image_batches
from theodolite.guard.verdicts import Verdicts
from theodolite.models import load_model, weights_present
from theodolite.models.tokens import Tokenizing, Tokens

pytest.importorskip("transformers", reason="pip install 'theodolite[text]'")

RTOL, ATOL = 1e-4, 1e-5


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_classifier(tmp_path_factory.mktemp("text") / "model")


@pytest.fixture(scope="module")
def encoder(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same network without its head, as `AutoModel` saves it."""
    from transformers import AutoModel

    place = tmp_path_factory.mktemp("text") / "encoder"
    AutoModel.from_pretrained(folder).save_pretrained(place)
    text_models.tokenizer().save_pretrained(place)
    return place


def test_a_classifier_with_its_tokenizer(folder: Path) -> None:
    loaded = load_model(f"hf-text:{folder}")
    assert (loaded.takes, loaded.class_names) == ("texts", NAMES)
    assert weights_present(f"hf-text:{folder}")
    assert not weights_present("hf-text:no-such/model")
    capture = checked_capture(loaded)
    assert (capture.layer, capture.head.width, capture.head.classes) == ("classifier", WIDTH, 3)
    texts = sentences(5, 1)
    from transformers import AutoTokenizer

    expected = AutoTokenizer.from_pretrained(folder)(texts, padding=True, return_tensors="pt")
    batch = loaded.batch(texts)
    assert isinstance(batch, dict)
    assert batch.keys() == dict(expected).keys()
    assert all(torch.equal(batch[name], expected[name]) for name in batch)
    features, logits = Capture(loaded.model)(expected)
    torch.testing.assert_close(capture(batch)[0], features)
    torch.testing.assert_close(capture.head.logits(features), logits)


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_pooling_is_its_formula(encoder: Path, pooling: str) -> None:
    """Of each text alone, in float64, without padding."""
    loaded = load_model(f"hf-text:{encoder}?pooling={pooling}")
    texts = sentences(8, 2)
    features, _ = checked_capture(loaded, OUTPUT)(loaded.batch(texts))
    exact = load_model(f"hf-text:{encoder}?pooling={pooling}").model.double()
    for row, text in zip(features, texts, strict=True):
        with torch.no_grad():
            states = exact.encoder(**loaded.batch([text])).last_hidden_state[0]  # type: ignore[operator, arg-type]
        expected = states.mean(dim=0) if pooling == "mean" else states[0]
        torch.testing.assert_close(row.double(), expected, rtol=RTOL, atol=ATOL)


def test_neighbours_in_a_batch_change_nothing(folder: Path) -> None:
    for spec in (f"hf-text:{folder}", f"hf-text:{folder}?padding=max"):
        loaded = load_model(spec)
        capture, texts = checked_capture(loaded), sentences(12, 3)
        whole, _ = capture(loaded.batch(texts))
        for size in (1, 5):
            parts = [capture(loaded.batch(texts[at : at + size]))[0] for at in range(0, 12, size)]
            torch.testing.assert_close(torch.cat(parts), whole, rtol=RTOL, atol=ATOL)


def test_a_model_that_padding_changes_is_refused(folder: Path) -> None:
    """One that looks at tokens which the attention mask leaves out."""
    loaded = load_model(f"hf-text:{folder}")

    class Unmasked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = loaded.model

        def forward(self, input_ids: torch.Tensor, **_: torch.Tensor) -> torch.Tensor:
            return self.inner(input_ids).logits  # type: ignore[no-any-return]

    careless = dataclasses.replace(loaded, model=Unmasked().eval())
    with pytest.raises(CaptureError, match=r"padding changes them\. Remedy.*padding=max"):
        checked_capture(careless)
    fixed = load_model(f"hf-text:{folder}?padding=max")
    checked_capture(dataclasses.replace(fixed, model=Unmasked().eval()))


def test_texts_are_cut_at_the_limit_and_say_so(folder: Path) -> None:
    loaded = load_model(f"hf-text:{folder}")
    at_limit, beyond = "word " * (LIMIT - 2), "word " * (LIMIT - 1)
    for text, cut in ((at_limit, False), (beyond, True), ("word " * 500, True)):
        tokens = loaded.preprocess(text)
        assert isinstance(tokens, Tokens)
        assert (len(tokens["input_ids"]), tokens.cut) == (LIMIT, cut)
        assert tokens["input_ids"][-1] == SPECIAL.index("[SEP]")
    short = load_model(f"hf-text:{folder}?max_length=5").preprocess("book a table")
    assert (len(short["input_ids"]), short.cut) == (5, False)


def test_what_is_no_text(folder: Path) -> None:
    prepare = load_model(f"hf-text:{folder}").preprocess
    with pytest.raises(UnreadableImageError, match="is no text"):
        prepare(" \n")
    with pytest.raises(InputError, match="expected a text"):
        prepare(b"bytes")
    for nothing in ("\u200b\u200b", "\x00", "\ufeff"):
        with pytest.raises(UnreadableImageError, match="the tokenizer leaves nothing of it"):
            prepare(nothing)
    with pytest.raises(UnreadableImageError, match="half of a surrogate pair"):
        prepare("\ud800 book")
    assert len(prepare("日本")["input_ids"]) == 4  # unknown characters are tokens


class Lenient(Texts):
    """A source that does not look at its texts."""

    def __getitem__(self, index: int) -> Sample:
        return Sample(self.texts[index], None, self.ids[index])


def test_an_empty_text_of_any_source_is_left_out_by_its_name(folder: Path) -> None:
    source = Lenient(["first", "second"], ["book", " "], [None, None])
    loaded = load_model(f"hf-text:{folder}")
    with pytest.raises(UnreadableImageError, match="second is no text"):
        list(image_batches(loaded, source, [[1]]))
    (batch,) = image_batches(loaded, source, [[1]], skip_unreadable=True)
    assert [failure.name for failure in batch.failures] == ["second"]


def test_tokenizer_pooling_length_and_weights_are_all_part_of_what_it_is(
    folder: Path, tmp_path: Path
) -> None:
    known = load_model(f"hf-text:{folder}")
    assert load_model(f"hf-text:{folder}").preprocess_id == known.preprocess_id
    known.preprocess("word " * 100)  # what a call asks of the tokenizer is no part of it
    assert f"hf-text {known.preprocess.identity}" == known.preprocess_id  # type: ignore[attr-defined]
    again = load_model(f"hf-text:{write_classifier(tmp_path / 'again')}")
    assert (again.preprocess_id, again.digest) == (known.preprocess_id, known.digest)
    words = (*WORDS[:-2], WORDS[-1], WORDS[-2])
    text_models.tokenizer(words=words).save_pretrained(tmp_path / "again")
    others = [
        load_model(f"hf-text:{tmp_path / 'again'}"),
        load_model(f"hf-text:{folder}?max_length=9"),
        load_model(f"hf-text:{folder}?padding=max"),
        load_model(f"hf-text:{folder}?pooling=mean"),
        load_model(f"hf-text:{folder}?pooling=cls"),
    ]
    assert len({known.preprocess_id, *(one.preprocess_id for one in others)}) == 6
    assert load_model(f"hf-text:{write_classifier(tmp_path / 'other', seed=1)}").digest != known.digest


def test_a_probe_on_an_encoder(encoder: Path, tmp_path: Path) -> None:
    torch.manual_seed(0)
    weight, bias = torch.randn(4, WIDTH), torch.randn(4)
    save_file({"weight": weight, "bias": bias}, tmp_path / "probe.safetensors")
    spec = f"hf-text:{encoder}?pooling=mean&linear={tmp_path / 'probe.safetensors'}"
    loaded, bare = load_model(f"{spec}&classes=a,b,c,d"), load_model(f"hf-text:{encoder}?pooling=mean")
    assert loaded.class_names == ("a", "b", "c", "d")
    features, logits = checked_capture(loaded)(loaded.batch(sentences(6, 4)))
    assert torch.equal(features, checked_capture(bare, OUTPUT)(bare.batch(sentences(6, 4)))[0])
    torch.testing.assert_close(logits, features @ weight.T + bias)
    with pytest.raises(CaptureError, match=r"--no-head"):
        checked_capture(bare)
    save_file({"weight": weight[:, 1:].contiguous(), "bias": bias}, tmp_path / "narrow.safetensors")
    with pytest.raises(ModelError, match=r"width 15.*gives 16"):
        load_model(f"hf-text:{encoder}?pooling=mean&linear={tmp_path / 'narrow.safetensors'}")


def test_weights_of_ones_own_and_random_ones(folder: Path, tmp_path: Path) -> None:
    trained = load_model(f"hf-text:{folder}")
    save_file(trained.model.state_dict(), tmp_path / "mine.safetensors")
    assert load_model(f"hf-text:{folder}", weights=tmp_path / "mine.safetensors").digest == trained.digest
    assert load_model(f"hf-text:{folder}", pretrained=False).digest != trained.digest


def test_an_encoder_is_not_taken_for_a_classifier(encoder: Path) -> None:
    with pytest.raises(ModelError, match=r"encoder without a trained classifier.*pooling=mean or cls"):
        load_model(f"hf-text:{encoder}")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ("pooling=max", "pooling must be mean or cls, got 'max'"),
        ("padding=no", "padding must be longest or max"),
        ("linear=x.safetensors", "linear is of a head on an encoder"),
        ("classes=a,b", "classes is of a head on an encoder"),
        ("pooling=cls&classes=a,b", "give linear=… as well"),
        ("max_length=2", "max_length must be more than 2"),
        (f"max_length={LIMIT + 1}", f"at most {LIMIT}"),
        ("size=224", "option size is of pictures, and it takes texts"),
        ("head=x", "take no option 'head'"),
    ],
)
def test_options_that_are_refused(folder: Path, options: str, match: str) -> None:
    with pytest.raises(InputError, match=match):
        load_model(f"hf-text:{folder}?{options}")


def test_names_that_lead_nowhere() -> None:
    with pytest.raises(ModelError, match="its weights are not on this machine"):
        load_model("hf-text:no-such-owner/no-such-model")


def test_a_tokenizer_without_padding(tmp_path: Path) -> None:
    write_classifier(tmp_path)
    bare = text_models.tokenizer()
    bare.pad_token = None
    bare.save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="no padding token"):
        load_model(f"hf-text:{tmp_path}")


def test_a_model_without_its_tokenizer_is_refused(tmp_path: Path) -> None:
    """transformers makes one that knows no word, with which all texts of a length are one."""
    write_classifier(tmp_path)
    for file in tmp_path.glob("*token*"):
        file.unlink()
    with pytest.raises(ModelError, match=r"knows no word but 5 special tokens.*save_pretrained"):
        load_model(f"hf-text:{tmp_path}")


def test_a_tokenizer_of_another_model_is_refused(tmp_path: Path) -> None:
    write_classifier(tmp_path)
    text_models.tokenizer(words=(*WORDS, "more")).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="has 19 tokens, but the model has embeddings for 18"):
        load_model(f"hf-text:{tmp_path}")


@pytest.fixture(scope="module")
def reads_on(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GPT-2 of random weights as a classifier, with a token to fill up with."""
    from transformers import GPT2Config, GPT2ForSequenceClassification

    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("gpt")
    config = GPT2Config(
        vocab_size=len(SPECIAL) + len(WORDS),
        n_positions=LIMIT,
        n_embd=WIDTH,
        n_layer=1,
        n_head=2,
        num_labels=3,
        pad_token_id=0,
        bos_token_id=2,
        eos_token_id=3,
        initializer_range=0.5,
    )
    GPT2ForSequenceClassification(config).save_pretrained(folder)
    text_models.tokenizer().save_pretrained(folder)
    return folder


def test_a_model_that_reads_from_left_to_right(reads_on: Path) -> None:
    """As a classifier it is refused; its first token knows nothing of a text; its mean does, and padding to
    the right changes nothing, but padding to the left moves every token."""
    with pytest.raises(CaptureError, match="logits are not the output of its last linear layer 'score'"):
        checked_capture(load_model(f"hf-text:{reads_on}"))
    with pytest.raises(CaptureError, match="all its 2 examples the same features"):
        checked_capture(load_model(f"hf-text:{reads_on}?pooling=cls"), OUTPUT)
    loaded = load_model(f"hf-text:{reads_on}?pooling=mean")
    checked_capture(loaded, OUTPUT)
    tokens = loaded.preprocess
    assert isinstance(tokens, Tokenizing)
    tokens.tokenizer.padding_side = "left"
    with pytest.raises(CaptureError, match="padding changes them"):
        checked_capture(loaded, OUTPUT)


def test_a_model_of_several_labels_a_text_is_warned_of(tmp_path: Path) -> None:
    write_classifier(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(
        json.dumps({**config, "problem_type": "multi_label_classification"})
    )
    with pytest.warns(UserWarning, match="several labels at once"):
        load_model(f"hf-text:{tmp_path}")


def test_what_a_text_guard_says_to_other_inputs(folder: Path) -> None:
    loaded = load_model(f"hf-text:{folder}")
    capture = checked_capture(loaded)
    features, held_out = (capture(loaded.batch(sentences(40, seed)))[0] for seed in (1, 3))
    guard = Guard.fit(features, head=capture.head, detector="energy", calibration=held_out)
    with pytest.warns(UserWarning, match="fitted on features"):
        guard.attach(loaded)
    texts = sentences(3, 2)
    assert guard.verdicts(texts).score.tolist() == pytest.approx(
        [float(guard.verdicts([text]).score[0]) for text in texts], rel=1e-4, abs=1e-5
    )
    for inputs, match in (
        (texts[0], r"inputs are a str, expected a list of texts.*\[text\]"),
        (np.array(texts), r"array of dtype <U.*expected a list of texts.*tolist"),
        (torch.rand(2, 3, 8, 8), r"shape \(2, 3, 8, 8\), which the model does not take .*takes texts"),
        ([Image.new("RGB", (8, 8))], r"inputs\[0\]: a Image was given, expected a text"),
        ([texts[0], " "], r"inputs\[1\]: the text is no text"),
        ([], "pass at least one sample"),
    ):
        with pytest.raises(InputError, match=match):
            guard.verdicts(inputs)


def test_the_code_of_the_page_about_texts_runs(folder: Path) -> None:
    """With a tiny classifier and its tokenizer in the places of the page's."""
    page = (Path(__file__).parents[2] / "docs" / "text.md").read_text(encoding="utf-8")
    block = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]
    loaded = load_model(f"hf-text:{folder}")
    tokenizer = text_models.tokenizer()
    batches = [
        [dict(tokenizer(sentences(60, seed + step), padding=True, return_tensors="pt")) for step in range(3)]
        for seed in (10, 20)
    ]
    names: dict[str, object] = {
        "classifier": loaded.model,
        "tokenizer": tokenizer,
        "texts": sentences(9, 30),
        "loader": batches[0],
        "held_out": batches[1],
    }
    exec(block, names)
    verdicts, features, logits = names["verdicts"], names["features"], names["logits"]
    assert isinstance(verdicts, Verdicts)
    assert isinstance(features, torch.Tensor)
    assert isinstance(logits, torch.Tensor)
    assert torch.equal(torch.as_tensor(verdicts.predicted), logits.argmax(dim=1))
    assert features.shape == (9, WIDTH)
