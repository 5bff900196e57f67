"""Words that another model embedded: refused by every way from features to scores, and never kept for new."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch

import theodolite as th
from theodolite.benchmarks import RunResult, Subject, run, tune
from theodolite.benchmarks.feature_sets import StoreSet
from theodolite.core.errors import InputError
from theodolite.detectors.spec import parse_specs
from theodolite.features.linear_probe import save_probe

MODEL = "python:small_models:Named?mean=0&size=8"
OWN, OTHERS = "python:small_models:Named", "openclip:another"
REFUSED = "holds words as openclip:another embeds them, and the features are of python:small_models:Named"


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Pictures without labels: of answers nothing is compared."""
    folder, rng = tmp_path_factory.mktemp("stores"), np.random.default_rng(0)
    places = {}
    for name, count in (("fit", 80), ("test", 60), ("ood", 60)):
        pixels = rng.integers(0, 128 if name == "ood" else 256, (count, 8, 8), dtype=np.uint8)
        np.savez(folder / f"{name}.npz", images=pixels)
        places[name] = th.extract(folder / f"{name}.npz", MODEL, output=folder / name).path
    return places


@pytest.fixture
def subject(stores: Mapping[str, Path]) -> Subject:
    fit, test, ood = (StoreSet(stores[name]) for name in ("fit", "test", "ood"))
    assert fit.store.head is not None
    return Subject("named", fit.store.head, fit, test, {"dark": ood})


def words(path: Path, model: str | None, seed: int = 0) -> Path:
    drawn = torch.randn(30, 16, generator=torch.Generator().manual_seed(seed))
    save_probe(th.Head.cosine(drawn), path, model=model)
    return path


def benched(subject: Subject, *texts: str, cache: Path | None = None) -> RunResult:
    return run([subject], parse_specs(texts), title="", command="", cache=cache)


def test_a_bench_says_why_and_goes_on_without(subject: Subject, tmp_path: Path) -> None:
    own, others = (words(tmp_path / f"{name[:4]}.safetensors", name) for name in (OWN, OTHERS))
    asked = [f"neglabel?negatives={path}" for path in (own, others)]
    result = benched(subject, *asked, "mcm")
    assert list(result.refused) == ["named"]
    assert list(result.refused["named"]) == [f"NegLabel negatives={others}"]
    assert REFUSED in result.refused["named"][f"NegLabel negatives={others}"]
    assert {cell.detector for cell in result.cells} == {f"NegLabel negatives={own}", "MCM"}
    with pytest.raises(InputError, match=f"no score could be computed: .*{REFUSED}"):
        benched(subject, asked[1])
    with pytest.raises(InputError, match=REFUSED):
        tune(subject, [f"neglabel?negatives={others}&temperature={{0.01,0.1}}"])


def test_scores_of_other_words_in_the_same_file_are_not_reused(subject: Subject, tmp_path: Path) -> None:
    file, cache = tmp_path / "words.safetensors", tmp_path / "cache"
    text = f"neglabel?negatives={file}"
    figures = []
    for seed in (0, 1):
        words(file, OWN, seed)
        figures.append(benched(subject, text, cache=cache).cells)
        assert figures[-1] == benched(subject, text).cells, "without a cache"
    assert figures[0] != figures[1]
    assert len(list(cache.glob("*.safetensors"))) == 4
    benched(subject, text, cache=cache)
    assert len(list(cache.glob("*.safetensors"))) == 4


def test_parts_are_held_to_it_too(stores: Mapping[str, Path], tmp_path: Path) -> None:
    own, others = (words(tmp_path / f"{name[:4]}.safetensors", name) for name in (OWN, OTHERS))
    with pytest.raises(InputError, match=REFUSED):
        th.collect(stores["fit"], detectors=[f"neglabel?negatives={others}"])
    part = th.collect(stores["fit"], detectors=[f"neglabel?negatives={own}"])
    with pytest.raises(InputError, match=REFUSED):
        th.fit_parts([part], detector=f"neglabel?negatives={others}")
    guard = th.fit_parts([part]).guard
    whole = th.fit_guard(stores["fit"], detector=f"neglabel?negatives={own}").guard
    np.testing.assert_array_equal(guard.calibration.scores, whole.calibration.scores)
    words(own, OTHERS)  # another file under the name that the part knows
    with pytest.raises(InputError, match=REFUSED):
        th.fit_parts([part])
    elsewhere = tmp_path / "elsewhere.safetensors"
    assert th.collect(stores["fit"], detectors=[f"neglabel?negatives={elsewhere}"]).fitted_on > 0
