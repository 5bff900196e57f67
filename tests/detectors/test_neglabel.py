"""NegLabel: its formula, the words that it takes, and what it shares with every other score."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import theodolite as th
from oracles import unit
from theodolite.core.errors import FittingWarning, InputError, NotFittedError
from theodolite.detectors.spec import parse_spec, parse_specs
from theodolite.evaluation.metrics import auroc
from theodolite.features.linear_probe import save_probe
from word_oracles import likeness, neglabel

WIDTH, CLASSES, WORDS = 24, 5, 60
RNG = torch.Generator().manual_seed(4)
TEXTS = torch.randn(CLASSES, WIDTH, generator=RNG, dtype=torch.float64)
SPARE = torch.randn(WORDS, WIDTH, generator=RNG, dtype=torch.float64)
NEAR = TEXTS[torch.arange(90) % CLASSES] + 0.5 * torch.randn(90, WIDTH, generator=RNG, dtype=torch.float64)
FAR = SPARE[torch.arange(80) % WORDS] + 0.5 * torch.randn(80, WIDTH, generator=RNG, dtype=torch.float64)
HEAD = th.Head.cosine(TEXTS)


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("words") / "words.safetensors"
    save_probe(th.Head.cosine(SPARE), path)
    return path


def fitted(words: Path, **options: object) -> th.Detector:
    return th.create("neglabel", negatives=words, **options).fit(head=HEAD)


def published(scores: torch.Tensor) -> np.ndarray:
    """The score of the paper: ours is its logit."""
    return torch.sigmoid(scores.double()).numpy()


def test_one_group_is_a_softmax_of_names_and_words(words: Path) -> None:
    detector = fitted(words, share=1.0, group_words=1000, temperature=0.1)
    rows = torch.cat([NEAR[:10], FAR[:10]])
    names, others = unit(TEXTS.numpy()), unit(SPARE.numpy())
    expected = [neglabel(z, names, [others], 0.1) for z in rows.numpy()]
    np.testing.assert_allclose(published(detector.score(rows)), expected, rtol=1e-6)
    np.testing.assert_allclose(published(detector.score(rows.float())), expected, rtol=1e-3)


def test_groups_are_averaged_over_and_hold_every_word_once(words: Path) -> None:
    detector = fitted(words, share=1.0, group_words=9, temperature=0.2)
    sizes = [int(size) for size in detector.get_buffer("groups")]
    assert sum(sizes) == WORDS
    assert max(sizes) - min(sizes) <= 1
    assert len(sizes) == 7
    kept = detector.get_buffer("words").double()
    nearest = (kept @ torch.tensor(unit(SPARE.numpy())).T).argmax(dim=1)
    assert sorted(nearest.tolist()) == list(range(WORDS))
    groups = [group.numpy() for group in torch.split(kept, sizes)]
    expected = [neglabel(z, unit(TEXTS.numpy()), groups, 0.2) for z in NEAR.numpy()]
    np.testing.assert_allclose(published(detector.score(NEAR)), expected, rtol=1e-6)
    other = fitted(words, share=1.0, group_words=9, temperature=0.2, seed=1)
    assert not torch.equal(other.get_buffer("words"), detector.get_buffer("words"))


@pytest.mark.parametrize("percentile", [95.0, 50.0])
def test_the_words_least_like_the_classes_are_taken(words: Path, percentile: float) -> None:
    detector = fitted(words, share=0.25, group_words=5, percentile=percentile)
    names, others = unit(TEXTS.numpy()), unit(SPARE.numpy())
    wanted = sorted(range(WORDS), key=lambda word: likeness(others[word], names, percentile))[:15]
    kept = detector.get_buffer("words").double().numpy()
    assert sorted((kept @ others.T).argmax(axis=1).tolist()) == sorted(wanted)
    fewest = fitted(words, share=0.01)
    assert len(fewest.get_buffer("words")) == WORDS  # fewer than a group are all taken


def test_a_certain_answer_keeps_its_digits(words: Path) -> None:
    """At the paper's temperature p is 1 in float32 long before the scores are alike."""
    detector = fitted(words)
    scores = detector.score(TEXTS.float())
    assert float(torch.sigmoid(scores).min()) == 1.0
    assert len(set(scores.tolist())) == CLASSES


def test_separates_and_ignores_labels_features_and_the_split(words: Path) -> None:
    detector = fitted(words)
    near, far = detector.score(NEAR.float()), detector.score(FAR.float())
    assert auroc(near, far) > 0.95
    whole = th.create("neglabel", negatives=words).fit(NEAR, torch.arange(90) % CLASSES, head=HEAD)
    torch.testing.assert_close(whole.score(NEAR), detector.score(NEAR))
    split = torch.cat([detector.score(part) for part in torch.split(NEAR.float(), 7)])
    torch.testing.assert_close(split, near, rtol=1e-5, atol=1e-4)
    assert detector.score(NEAR.float().numpy()).dtype == np.float32
    assert torch.isfinite(detector.score(torch.zeros(2, WIDTH))).all()
    assert detector.score(NEAR.half()).dtype == torch.float32


def test_a_saved_one_needs_no_file_of_words(tmp_path: Path) -> None:
    path = tmp_path / "words.safetensors"
    save_probe(th.Head.cosine(SPARE), path)
    detector = fitted(path)
    detector.save(tmp_path / "detector.safetensors")
    path.unlink()
    again = th.load(tmp_path / "detector.safetensors")
    torch.testing.assert_close(again.score(NEAR), detector.score(NEAR))
    with pytest.raises(InputError, match="no such file"):
        th.create("neglabel", negatives=path).fit(head=HEAD)


def test_a_word_that_is_a_class_is_left_out_and_told(tmp_path: Path) -> None:
    path = tmp_path / "words.safetensors"
    save_probe(th.Head.cosine(torch.cat([SPARE, 3 * TEXTS[2:4]]).half()), path)
    with pytest.warns(FittingWarning, match="2 of the 62 words"):
        detector = fitted(path)
    assert len(detector.get_buffer("words")) == WORDS
    save_probe(th.Head.cosine(TEXTS), path)
    with pytest.warns(FittingWarning), pytest.raises(InputError, match=r"every word of .* is a class"):
        fitted(path)


def test_what_it_refuses(words: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no words to hold against"):
        th.create("neglabel").fit(head=HEAD)
    with pytest.raises(InputError, match="needs a cosine head"):
        th.create("neglabel", negatives=words).fit(head=th.Head(TEXTS))
    with pytest.raises(InputError, match="width 24, expected text embeddings of width 12"):
        th.create("neglabel", negatives=words).fit(head=th.Head.cosine(TEXTS[:, :12]))
    save_probe(th.Head(SPARE), tmp_path / "linear.safetensors")
    with pytest.raises(InputError, match="no text embeddings but a linear head"):
        fitted(tmp_path / "linear.safetensors")
    with pytest.raises(NotFittedError):
        th.create("neglabel", negatives=words).score(NEAR)
    for option, value in (("temperature", 0.0), ("share", 0.0), ("percentile", 101.0), ("group_words", 0)):
        with pytest.raises(InputError, match=option):
            th.create("neglabel", **{option: value})


def test_it_stands_apart_from_the_scores_that_need_no_words(words: Path) -> None:
    assert "neglabel" not in th.list_detectors()
    assert "neglabel" not in [spec.name for spec in parse_specs([])]
    assert th.list_detectors(of_words=True) == ["neglabel"]
    spec = parse_spec(f"NegLabel?negatives={words}&share=1")
    built = spec.build().fit(head=HEAD)
    torch.testing.assert_close(built.score(NEAR), fitted(words, share=1.0).score(NEAR))


def test_shares_of_nought_and_of_one_keep_their_odds(words: Path) -> None:
    """At a temperature of 1e-4 no share is a number between 0 and 1; of one group the score is the odds."""
    detector = fitted(words, share=1.0, group_words=1000, temperature=1e-4)
    rows = torch.cat([NEAR, FAR])
    cosines = torch.nn.functional.normalize(rows) @ torch.nn.functional.normalize(torch.cat([TEXTS, SPARE])).T
    names, others = (part.amax(dim=1) for part in torch.split(cosines / 1e-4, [CLASSES, WORDS], dim=1))
    assert float((names - others).abs().max()) > 1000
    torch.testing.assert_close(detector.score(rows), names - others, rtol=1e-3, atol=1.0)
