"""CLIP and SigLIP as classifiers of class names, by both libraries' own loaders and tokenizers.

What the libraries give when they are called by hand, and the papers' formulas in float64, are what our
sources, prompts, heads and scores are held to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from typer.testing import CliRunner

import oracles
import theodolite as th
from theodolite.cli.app import app
from theodolite.core.compat import import_torchvision
from theodolite.core.errors import InputError, ModelError
from theodolite.features.head_files import read_head
from theodolite.features.linear_probe import save_probe
from theodolite.features.word_files import embed_words, read_words, require_words_of
from theodolite.models import load_model
from theodolite.models.texts import load_text, spec_with
from tiny_clip import SIZE, clip_folder, open_clip_folder, open_clip_with_pieces, siglip_folder
from word_oracles import neglabel, zero_shot_ora

import_torchvision()
open_clip = pytest.importorskip("open_clip", reason="pip install 'theodolite[clip]'")
transformers = pytest.importorskip("transformers", reason="pip install 'theodolite[clip]'")

KINDS = ("openclip", "clip", "siglip")
TEMPLATES = ("a photo of a {}.", "art of a {class}", "the nice {class}")
CANDIDATES = ("cat", "dog", "zebra", "sea lion", "tulip", "harp", "red", "green", "cot", "do", "lion", "nice")
WORDS = ("photo of art", "sea", "of", "the", "a red harp", "green tulip", "dog of the sea")


@dataclass(frozen=True)
class Made:
    """A model by its spec, pictures in folders numbered by class, and what the library makes of them."""

    spec: str
    names: tuple[str, ...]
    pictures: Path
    paths: list[Path]
    labels: Tensor
    images: Tensor
    embed: Callable[[Sequence[str]], Tensor]

    @property
    def classes(self) -> str:
        return ",".join(self.names)

    def texts(self, words: Sequence[str]) -> np.ndarray:
        """The ensemble of prompts by hand: unit rows, their mean, unit rows again."""
        places = [template.replace("{class}", "{}") for template in TEMPLATES]
        rows = [self.embed([place.replace("{}", word) for word in words]).double() for place in places]
        mean = sum(oracles.unit(row.numpy()) for row in rows) / len(rows)
        return oracles.unit(np.asarray(mean))


def by_hand(
    kind: str, folder: Path
) -> tuple[Callable[[Image.Image], Tensor], Callable[[Tensor], Tensor], Callable[[Sequence[str]], Tensor]]:
    """Preprocessing, image tower and text tower as the libraries' documentation calls them."""
    if kind == "openclip":
        clip, _, prepare = open_clip.create_model_and_transforms(f"local-dir:{folder}")
        clip.eval()
        tokens = open_clip.get_tokenizer(f"local-dir:{folder}")
        return prepare, clip.encode_image, lambda texts: clip.encode_text(tokens(list(texts)))
    model = transformers.AutoModel.from_pretrained(folder).eval()
    processor = transformers.AutoImageProcessor.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)

    def pooled(output: object) -> Tensor:
        return output if isinstance(output, Tensor) else output.pooler_output  # type: ignore[attr-defined]

    def embed(texts: Sequence[str]) -> Tensor:
        if kind == "siglip":
            told = tokenizer(list(texts), padding="max_length", max_length=32, return_tensors="pt")
            return pooled(model.get_text_features(input_ids=told["input_ids"]))
        return pooled(model.get_text_features(**tokenizer(list(texts), padding=True, return_tensors="pt")))

    return (
        lambda picture: processor(images=picture, return_tensors="pt")["pixel_values"][0],
        lambda images: pooled(model.get_image_features(pixel_values=images)),
        embed,
    )


@pytest.fixture(scope="module", params=KINDS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Of some words those become classes that share the pictures out most evenly."""
    kind, root = str(request.param), tmp_path_factory.mktemp("zero-shot")
    makers = {"openclip": open_clip_folder, "clip": clip_folder, "siglip": siglip_folder}
    folder = makers[kind](root / "model")
    prepare, encode, embed = by_hand(kind, folder)
    rng = np.random.default_rng(0)
    drawn = [Image.fromarray(rng.integers(0, 256, (2, 3, 3), dtype=np.uint8)) for _ in range(120)]
    pictures = [picture.resize((SIZE + 8, SIZE)) for picture in drawn]
    with torch.no_grad():
        images = encode(torch.stack([prepare(picture) for picture in pictures]))
        unnamed = Made(kind, (), root, [], torch.empty(0), images, torch.no_grad()(embed))
    cosines = oracles.unit(images.double().numpy()) @ unnamed.texts(CANDIDATES).T

    def fewest(chosen: tuple[int, ...]) -> int:
        return int(np.bincount(cosines[:, chosen].argmax(axis=1), minlength=3).min())

    best = max(combinations(range(len(CANDIDATES)), 3), key=fewest)
    labels = torch.tensor(cosines[:, best].argmax(axis=1))
    order = torch.argsort(labels, stable=True)
    paths = []
    for index in order.tolist():
        path = root / "pictures" / str(int(labels[index])) / f"{index:03}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        pictures[index].save(path)
        paths.append(path)
    assert int(torch.bincount(labels).min()) >= 5
    (root / "templates.txt").write_text("\n".join(TEMPLATES) + "\n\n", encoding="utf-8")
    names = tuple(CANDIDATES[index] for index in best)
    (root / "names.txt").write_text("\ufeff" + "\n".join(names) + "\n", encoding="utf-8")
    (root / "words.txt").write_text("\n".join([*WORDS, WORDS[0].upper(), ""]), encoding="utf-8")
    prefix = "openclip" if kind == "openclip" else "hf"
    return Made(
        f"{prefix}:{folder}", names, root, paths, labels[order], images[order], torch.no_grad()(embed)
    )


def full_spec(made: Made) -> str:
    templates, names = made.pictures / "templates.txt", made.pictures / "names.txt"
    return spec_with(made.spec, classes=names, templates=templates)


@pytest.fixture(scope="module")
def store(made: Made, tmp_path_factory: pytest.TempPathFactory) -> th.FeatureStore:
    output = tmp_path_factory.mktemp("store") / "store"
    return th.extract(made.pictures / "pictures", full_spec(made), output=output)


# ---------------------------------------------------------------------- the classifier


def test_features_and_cosines_are_the_librarys(made: Made, store: th.FeatureStore) -> None:
    head = store.head
    assert head is not None
    assert head.unit_features
    assert not bool(head.bias.any())
    np.testing.assert_allclose(head.weight.double().numpy(), made.texts(made.names), atol=2e-6)
    features = torch.cat([part[0] for part in store])
    torch.testing.assert_close(features.float(), made.images, rtol=1e-3, atol=1e-4)
    loaded = load_model(full_spec(made))
    assert loaded.class_names == made.names
    assert loaded.input_shape == (3, SIZE, SIZE)
    with torch.no_grad():
        shown = torch.stack([loaded.preprocess(Image.open(path)) for path in made.paths[:8]])
        logits = loaded.model(shown).double().numpy()
    expected = oracles.unit(made.images[:8].double().numpy()) @ made.texts(made.names).T
    np.testing.assert_allclose(logits, expected, atol=1e-5)


def test_one_prompt_and_many(made: Made) -> None:
    one = load_model(made.spec, classes=made.classes, prompt="art of a {}")
    rows = oracles.unit(made.embed([f"art of a {name}" for name in made.names]).double().numpy())
    head = one.model.get_submodule("head")
    assert isinstance(head, th.Head)
    np.testing.assert_allclose(head.weight.double().numpy(), rows, atol=2e-6)
    usual = load_model(made.spec, classes=made.classes)
    assert len({one.digest, usual.digest, load_model(full_spec(made)).digest}) == 3
    assert load_model(full_spec(made)).spec == full_spec(made)


def test_a_probe_sits_on_the_image_embedding(made: Made, tmp_path: Path) -> None:
    probe = th.Head(torch.randn(4, made.images.shape[1], generator=torch.Generator().manual_seed(1)))
    save_probe(probe, tmp_path / "probe.safetensors")
    loaded = load_model(made.spec, linear=tmp_path / "probe.safetensors")
    shown = torch.stack([loaded.preprocess(Image.open(path)) for path in made.paths[:4]])
    features, logits = th.Capture(loaded.model, loaded.layer)(shown)
    torch.testing.assert_close(features, made.images[:4], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(logits, probe(made.images[:4]), rtol=1e-4, atol=1e-4)


# ---------------------------------------------------------------------- the scores


@pytest.mark.parametrize(
    "text", ["ora", "ora?project_to_sphere=true", "fdbd", "pcos", "rmds", "knn?k=5", "mcm", "neglabel"]
)
def test_zero_shot_scores_equal_their_formulas(
    made: Made, store: th.FeatureStore, text: str, tmp_path: Path
) -> None:
    """On the features of the store, which are those of the library (above), in float64."""
    from theodolite.detectors.spec import parse_spec

    rows = torch.cat([part[0] for part in store]).double()
    texts = made.texts(made.names)
    unit = oracles.unit(rows.numpy())
    scores = oracles.Scores(texts, np.zeros(3), unit, made.labels.numpy())
    words = embed_words(made.pictures / "words.txt", full_spec(made), tmp_path / "words.safetensors")
    asked = f"{text}?negatives={words}" if text == "neglabel" else text
    detector = parse_spec(asked).build().fit(rows, made.labels, head=th.Head.cosine(texts))
    mu = unit.mean(axis=0)
    formulas: dict[str, Callable[[oracles.Vector], float]] = {
        "ora": lambda z: zero_shot_ora(z, texts, mu, on_sphere=False),
        "ora?project_to_sphere=true": lambda z: zero_shot_ora(z, texts, mu, on_sphere=True),
        "fdbd": scores.fdbd,
        "pcos": scores.pcos,
        "rmds": scores.rmds,
        "knn?k=5": lambda z: -sorted(float(np.linalg.norm(z - one)) for one in unit)[4],
        "mcm": scores.mcm,
        "neglabel": lambda z: neglabel(z, texts, [made.texts(WORDS)]),
    }
    expected = np.array([formulas[text](z) for z in unit[::10]])
    found = detector.score(rows[::10])
    found = torch.sigmoid(found) if text == "neglabel" else found
    size = np.abs(expected).mean()
    tolerance = 1e-4 if text == "neglabel" else 1e-6  # words are kept in float32, and divided by 0.01
    np.testing.assert_allclose(found.numpy() / size, expected / size, rtol=tolerance, atol=1e-6)


# ---------------------------------------------------------------------- from the shell


def run(*words: str | Path | float) -> str:
    """What a command says; here and not in a process of its own, which would import both libraries anew."""
    done = CliRunner().invoke(app, [str(word) for word in words])
    if done.exception is not None:
        raise done.exception
    return " ".join(done.output.split())


def test_from_class_names_to_verdicts(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """fit and score; the verdicts' scores are the formulas'. One score for each kind of model is enough."""
    score = "neglabel" if made.spec.startswith("openclip") else "ora?project_to_sphere=true"
    monkeypatch.setenv("THEODOLITE_CACHE", str(made.pictures / "cache"))
    monkeypatch.chdir(made.pictures)
    guard, found = tmp_path / "guard.safetensors", tmp_path / "scores.csv"
    mine = ("--detector", score) if score != "neglabel" else ("--negatives", "words.txt")
    said = run(
        *("fit", "--model", made.spec, "--classes", "names.txt", "--templates", "templates.txt"),
        *("--data", "pictures", *mine, "--calibration-share", 0.4, "-o", guard),
    )
    assert "agrees with 100.0 % of the labels" in said
    # From another folder: the guard's model finds its class names.
    monkeypatch.chdir(tmp_path)
    run("score", guard, made.pictures / "pictures", "-o", found)
    rows = [line.split(",") for line in found.read_text().splitlines()]
    column = rows[0].index("score")
    scores = {Path(row[0]).name: float(row[column]) for row in rows[1:]}
    assert len(scores) == len(made.paths)
    texts, unit = made.texts(made.names), oracles.unit(made.images.double().numpy())
    detector = th.Guard.load(guard).detector
    for path, z in list(zip(made.paths, unit, strict=True))[::15]:
        if score == "neglabel":
            odds = neglabel(z, texts, [made.texts(WORDS)])
            assert scores[path.name] == pytest.approx(np.log(odds / (1 - odds)), rel=1e-2, abs=0.05)
        else:
            centre = detector.get_buffer("centres").double().numpy()[0]
            expected = zero_shot_ora(z, texts, centre, on_sphere=True)
            assert scores[path.name] == pytest.approx(expected, abs=2e-4)


def test_words_of_another_model_are_refused(made: Made, store: th.FeatureStore, tmp_path: Path) -> None:
    words = tmp_path / "words.safetensors"
    said = run("embed", made.pictures / "words.txt", "--model", full_spec(made), "-o", words)
    assert f"{len(WORDS)} words as text embeddings of width {made.images.shape[1]}" in said
    np.testing.assert_allclose(read_head(words).weight.double().numpy(), made.texts(WORDS), atol=2e-6)
    require_words_of(words, full_spec(made))
    save_probe(read_head(words), words, model="openclip:another")
    with pytest.raises(InputError, match="holds words as openclip:another embeds them, and the features"):
        th.fit_guard(store.path, detector=f"neglabel?negatives={words}")
    with pytest.raises(InputError, match="--negatives is for NegLabel, and MSP takes no words"):
        th.fit_guard(store.path, detector="msp", negatives=made.pictures / "words.txt")
    with pytest.raises(InputError, match="the detector names its words as well"):
        th.fit_guard(store.path, detector=f"neglabel?negatives={words}", negatives=words)
    with pytest.raises(InputError, match="NegLabel has no words"):
        th.fit_guard(store.path, detector="neglabel")


def test_words_meet_the_checkpoint_of_the_features_only(made: Made, store: th.FeatureStore) -> None:
    """The names of the classes have the text embeddings that the head of the features holds, or words are
    not embedded."""
    head = store.head
    assert head is not None
    turned = th.Head.cosine(head.weight.flip(0))
    with pytest.raises(InputError, match="have other text embeddings now"):
        embed_words(made.pictures / "words.txt", full_spec(made), head=turned)


# ---------------------------------------------------------------------- what is refused


def test_a_prompt_that_would_be_cut_off_is_refused(made: Made) -> None:
    with pytest.raises(InputError, match=r"has \d+ tokens, and the model reads"):
        load_model(made.spec, classes=f"dog,{'cat ' * 90}")


def test_open_clip_with_a_tokenizer_of_transformers(tmp_path: Path) -> None:
    folder = open_clip_with_pieces(tmp_path / "model")
    _, _, embed = by_hand("openclip", folder)
    head = load_model(f"openclip:{folder}?classes=cat,sea lion").model.get_submodule("head")
    assert isinstance(head, th.Head)
    with torch.no_grad():
        rows = embed(["a photo of a cat.", "a photo of a sea lion."]).double().numpy()
    np.testing.assert_allclose(head.weight.double().numpy(), oracles.unit(rows), atol=2e-6)
    with pytest.raises(InputError, match=r"has \d+ tokens, and the model reads 32"):
        load_model(f"openclip:{folder}", classes=f"dog,{'cat ' * 40}")


def test_options_that_speak_of_texts(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--classes is given, and openclip:.* says classes as well"):
        spec_with("openclip:ViT-B-32/openai?classes=cat,dog", classes="a,b")
    with pytest.raises(InputError, match="timm models take no option 'classes'"):
        spec_with("timm:resnet18", classes="a,b")
    with pytest.raises(InputError, match="timm models know no texts"):
        load_text("timm:resnet18")
    guard = tmp_path / "guard.safetensors"
    with pytest.raises(InputError, match="--classes is for a model of pictures and texts"):
        run("fit", "--data", tmp_path, "--classes", "cat,dog", "-o", guard)
    with pytest.raises(InputError, match="--negatives is for data, but parts are given"):
        run("fit", tmp_path / "part.safetensors", "--negatives", "words.txt", "-o", guard)
    (tmp_path / "words.txt").write_text("one\nOne\n")
    with pytest.raises(InputError, match="holds 1 word"):
        read_words(tmp_path / "words.txt")
    with pytest.raises(InputError, match="is no file"):
        read_words(tmp_path / "absent.txt")
    with pytest.raises(InputError, match="no file of embedded words"):
        require_words_of(tmp_path / "absent.safetensors", "openclip:ViT-B-32/openai")


def test_checkpoints_of_transformers_that_cannot_be_asked(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file
    from transformers import CLIPForImageClassification, ConvNextConfig, ConvNextImageProcessor

    folder = clip_folder(tmp_path / "clip")
    with pytest.raises(InputError, match=r"has no classes of its own: name them with \?classes=names\.txt"):
        load_model(f"hf:{folder}")
    weights = load_file(folder / "model.safetensors")
    kept = {name: value for name, value in weights.items() if not name.startswith("text_model")}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"has no weights for text_model.*half of a model"):
        load_model(f"hf:{folder}", classes="cat,dog")
    convnext = tmp_path / "convnext"
    ConvNextConfig(depths=[1, 1, 1, 1], hidden_sizes=[8, 8, 8, 8]).save_pretrained(convnext)
    ConvNextImageProcessor().save_pretrained(convnext)
    with pytest.raises(InputError, match="classes is for models of pictures and texts"):
        load_model(f"hf:{convnext}", classes="cat,dog")
    with pytest.raises(InputError, match="it knows no texts"):
        load_text(f"hf:{convnext}")
    config = clip_folder(tmp_path / "tuned")
    tuned = CLIPForImageClassification.from_pretrained(config)
    tuned.save_pretrained(config)
    assert load_model(f"hf:{config}").class_names == ("LABEL_0", "LABEL_1")
