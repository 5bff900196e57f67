"""One score on every layer, combined: against each layer by itself, and the formulas in float64."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import theodolite as th
from synthetic import make_problem
from theodolite.core.errors import InputError, NotFittedError
from theodolite.detectors.layered import in_scale
from theodolite.reference import Head, Reference

PROBLEM = make_problem(width=18, classes=4, rows=400, seed=3)
LAYERS, COLUMNS = "first:5,second:6,fc:7", (slice(0, 5), slice(5, 11), slice(11, 18))
DOCS = Path(__file__).parents[2] / "docs" / "model-scores.md"


def is_taken(name: str) -> bool:
    try:
        th.Layered(detector=name)
    except InputError:
        return False
    return True


HEADLESS = [name for name in th.list_detectors() if is_taken(name)]
IDS = torch.arange(1000, 1400)


def fitted(detector: str, combine: str = "standardised", dtype: torch.dtype = torch.float64) -> th.Layered:
    layered = th.Layered(detector=detector, layers=LAYERS, combine=combine)
    return layered.fit(PROBLEM.train.to(dtype), PROBLEM.labels, head=PROBLEM.head, ids=IDS)


def by_layer(detector: str, rows: Tensor, *, every: bool) -> list[np.ndarray]:
    """Scores of every layer by itself, fitted on all rows or on those that the scale is not taken from."""
    keep = torch.ones(len(IDS), dtype=torch.bool) if every else ~in_scale(IDS)
    train, labels = PROBLEM.train[keep].double(), PROBLEM.labels[keep]
    found = []
    for columns in COLUMNS:
        alone = th.detectors.spec.parse_spec(detector).build()
        alone.fit(train[:, columns], labels, ids=IDS[keep])
        found.append(alone.score(rows[:, columns].double()).numpy())
    return found


@pytest.mark.parametrize("detector", HEADLESS)
def test_standardised_is_the_mean_of_scores_in_units_of_their_deviation(detector: str) -> None:
    held_out = by_layer(detector, PROBLEM.train[in_scale(IDS)], every=False)
    new = by_layer(detector, PROBLEM.test, every=False)
    parts = [(s - k.mean()) / k.std(ddof=1) for s, k in zip(new, held_out, strict=True)]
    found = fitted(detector).score(PROBLEM.test.double()).numpy()
    np.testing.assert_allclose(found, np.mean(parts, axis=0), rtol=1e-9, atol=1e-9)


def test_the_page_names_the_scores_that_layers_can_have() -> None:
    """And a score with options is one of them: those of a layer by itself."""
    (said,) = re.findall(r"only scores that need none can look at them: (.*?)\.", DOCS.read_text(), re.DOTALL)
    assert re.findall(r"`(.*?)`", said) == HEADLESS
    found = fitted("knn?k=7", "sum").score(PROBLEM.test.double()).numpy()
    np.testing.assert_allclose(found, sum(by_layer("knn?k=7", PROBLEM.test, every=True)), rtol=1e-9)


def test_p_values_are_averaged_and_a_sum_is_a_sum() -> None:
    held_out = by_layer("mds", PROBLEM.train[in_scale(IDS)], every=False)
    new = by_layer("mds", PROBLEM.test, every=False)
    parts = [
        (1 + (k[None] <= s[:, None]).sum(axis=1)) / (len(k) + 1) for s, k in zip(new, held_out, strict=True)
    ]
    found = fitted("mds", "p-values").score(PROBLEM.test.double()).numpy()
    np.testing.assert_allclose(found, np.mean(parts, axis=0), rtol=1e-12)
    summed = fitted("mds", "sum").score(PROBLEM.test.double()).numpy()
    np.testing.assert_allclose(summed, np.sum(by_layer("mds", PROBLEM.test, every=True), axis=0), rtol=1e-9)


def test_a_fifth_of_the_samples_sets_the_scale_whatever_their_order() -> None:
    chosen = in_scale(torch.arange(10_000))
    assert 0.18 < float(chosen.float().mean()) < 0.22
    order = torch.randperm(400, generator=torch.Generator().manual_seed(0))
    other = th.Layered(detector="mds", layers=LAYERS)
    batches = [
        (PROBLEM.train[part].double(), PROBLEM.labels[part], IDS[part]) for part in torch.split(order, 90)
    ]
    other.fit(batches, head=PROBLEM.head)
    one, two = (detector.score(PROBLEM.test.double()) for detector in (fitted("mds"), other))
    torch.testing.assert_close(one, two, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("detector", ["knn", "mds"])
@pytest.mark.parametrize("combine", ["standardised", "p-values", "sum"])
def test_the_contract_of_every_detector(detector: str, combine: str, tmp_path: Path) -> None:
    layered = fitted(detector, combine, torch.float32)
    rows = torch.cat([PROBLEM.test, PROBLEM.ood])
    scores = layered.score(rows)
    assert scores.dtype == torch.float32
    assert float(scores[: len(PROBLEM.test)].mean()) > float(scores[len(PROBLEM.test) :].mean())
    split = torch.cat([layered.score(part) for part in torch.split(rows, 17)])
    torch.testing.assert_close(split, scores, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(layered.score(rows.numpy()), scores.numpy())
    (together,) = th.score_many([layered], rows)
    assert torch.equal(together, scores)
    layered.save(tmp_path / "layered.safetensors")
    again = th.load(tmp_path / "layered.safetensors")
    assert again.options() == layered.options()
    assert torch.equal(again.score(rows), scores)
    exact = fitted(detector, combine).score(rows.double())
    torch.testing.assert_close(
        scores.double(), exact, rtol=1e-3, atol=2e-2 if combine == "p-values" else 1e-3
    )
    with pytest.raises(InputError, match="row 1"):
        layered.score(torch.stack([rows[0], torch.full((18,), torch.nan)]))
    with pytest.raises(InputError, match="width 17"):
        layered.score(rows[:, :17])


def test_it_is_fitted_among_others_and_refuses_alone() -> None:
    layered, energy = th.Layered(detector="mds", layers=LAYERS), th.Energy()
    th.fit_many([layered, energy], PROBLEM.train, PROBLEM.labels, head=PROBLEM.head)
    assert torch.isfinite(layered.score(PROBLEM.test)).all()
    refused: list[str] = []
    th.fit_many(
        [th.Layered(detector="mds", layers=LAYERS), energy],
        PROBLEM.train,
        head=PROBLEM.head,
        on_refusal=lambda _, error: refused.append(str(error)),
    )
    assert len(refused) == 1
    assert "labels are missing" in refused[0]


@pytest.mark.parametrize(
    ("detector", "words"),
    [
        ("ora", "ORA needs a head, which only the last layer has. Scores without: cop, csi, knn"),
        ("energy", "Energy needs a head"),
        ("mcm", "MCM needs a head"),
        ("odin", "ODIN changes the model's inputs"),
        ("knn+react:90", "is shaped"),
        ("layered", "scores several layers by itself"),
        ("corp?components=64", "CoRP maps features to 64 numbers"),
    ],
)
def test_scores_that_a_layer_cannot_have_are_refused_by_name(detector: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        th.Layered(detector=detector)


def test_what_cannot_be_fitted_is_refused() -> None:
    train, labels, head = PROBLEM.train, PROBLEM.labels, PROBLEM.head
    with pytest.raises(InputError, match="does not know whose columns"):
        th.Layered().fit(train, labels, head=head)
    with pytest.raises(InputError, match="have 4 together"):
        th.Layered(layers="a:2,b:2").fit(train, labels)
    with pytest.raises(InputError, match="the head expects 18"):
        th.Layered(layers="a:2,b:2").fit(train, labels, head=head)
    with pytest.raises(InputError, match="not an iterator, a part or a reference"):
        th.Layered(layers=LAYERS).fit(iter([train]), head=head)
    with pytest.raises(InputError, match="not an iterator, a part or a reference"):
        th.Layered(layers=LAYERS).fit(Reference.collect(train, needs=th.Needs(mean=True)), head=head)
    with pytest.raises(InputError, match="not an iterator, a part or a reference"):
        th.Layered(layers=LAYERS).collect(train)
    with pytest.raises(InputError, match="too few: pass more data"):
        th.Layered(layers=LAYERS).fit(train[:20], labels[:20], head=head)
    with pytest.raises(InputError, match="labels hold one class only"):
        th.Layered(detector="mds", layers=LAYERS).fit(train, torch.zeros(400, dtype=torch.int64), head=head)
    flat = train.clone()
    flat[:, :5] = 1.0
    with pytest.raises(InputError, match="on layer 'first' are all equal"):
        th.Layered(detector="pcos", layers=LAYERS).fit(flat, labels, head=head)
    with pytest.raises(InputError, match="combine must be one of"):
        th.Layered(combine="median")
    with pytest.raises(InputError, match="expected names with their widths"):
        th.Layered(layers="fc")
    with pytest.raises(NotFittedError):
        th.Layered(layers=LAYERS).score(train)


def test_a_fit_that_is_refused_leaves_it_as_it_was() -> None:
    layered = fitted("mds")
    before = layered.score(PROBLEM.test.double())
    with pytest.raises(InputError, match="too few"):
        layered.fit(PROBLEM.train[:20], PROBLEM.labels[:20], head=PROBLEM.head)
    assert torch.equal(layered.score(PROBLEM.test.double()), before)


def test_scores_of_layers_are_listed_apart() -> None:
    assert "layered" not in th.list_detectors()
    assert "layered" in th.list_detectors(of_layers=True)
    assert isinstance(th.create("layered", detector="knn"), th.MultiLayer)
    assert isinstance(PROBLEM.head, Head)


class Spread(th.MultiLayer):
    """−Σ_l ‖z_l − μ_l‖, and the largest logit, which shows that the head is the last layer's."""

    layer_needs = th.Needs(mean=True)

    def _fit_layers(self, references: Mapping[str, Reference]) -> None:
        for place, reference in enumerate(references.values()):
            assert (reference.head is not None) == (place == len(references) - 1)
            self.register_buffer(f"mean_{place}", reference.statistics.moments.mean)

    def _score_layers(self, layers: Mapping[str, Tensor], logits: Tensor) -> Tensor:
        means = [self.get_buffer(f"mean_{place}") for place in range(len(layers))]
        pairs = zip(layers.values(), means, strict=True)
        far = torch.stack([(rows - mean.to(rows)).norm(dim=1) for rows, mean in pairs])
        return logits.amax(dim=1) - far.sum(dim=0)


def test_a_score_of_layers_of_ones_own_gets_them_by_name() -> None:
    last = Head(PROBLEM.head.weight[:, 11:], PROBLEM.head.bias)
    score = Spread(layers=LAYERS)
    assert score.layer_rows is not None
    over = score.layer_rows.head_over(last)
    scores = score.fit(PROBLEM.train, PROBLEM.labels, head=over).score(PROBLEM.test).numpy()
    train, test = PROBLEM.train.double().numpy(), PROBLEM.test.double().numpy()
    far = sum(np.linalg.norm(test[:, part] - train[:, part].mean(axis=0), axis=1) for part in COLUMNS)
    logits = test[:, 11:] @ last.weight.double().numpy().T + last.bias.double().numpy()
    np.testing.assert_allclose(scores, logits.max(axis=1) - far, rtol=1e-4, atol=1e-4)
    with pytest.raises(InputError, match="needs a head"):
        Spread(layers=LAYERS).fit(PROBLEM.train)
