"""Capture on whatever a model takes: tuples and mappings, audio for one; what needs one tensor refuses."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from theodolite import Guard, create
from theodolite.core.errors import CaptureError, InputError
from theodolite.features import Capture
from theodolite.features.encoder import OutputCapture


class Recogniser(nn.Module):
    """Waveforms (N, T) of so many samples each: the mean of frames that count, then a linear head."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.frames = nn.Conv1d(1, 8, 5, padding=2)
        self.head = nn.Linear(8, 3)

    def forward(self, waveform: Tensor, lengths: Tensor) -> Tensor:
        frames = torch.relu(self.frames(waveform[:, None]))
        counts = torch.arange(waveform.shape[1])[None] < lengths[:, None]
        logits: Tensor = self.head((frames * counts[:, None]).sum(dim=2) / lengths[:, None])
        return logits


class ByMapping(nn.Module):
    """The same, for a batch that is one argument, a mapping with a tuple in it."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Recogniser()

    def forward(self, batch: dict[str, tuple[Tensor, Tensor]]) -> dict[str, Tensor]:
        return {"logits": self.inner(*batch["audio"])}


def tones(count: int, seed: int, frequency: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    """Waveforms of three pitches, filled up with noise that must not count; their lengths and classes."""
    rng = np.random.default_rng(seed)
    labels, lengths = rng.integers(0, 3, count), rng.integers(40, 65, count)
    time = np.arange(64)
    waves = np.sin(frequency * (labels[:, None] + 1) * time / 6 + rng.uniform(0, 6, (count, 1)))
    waves += 0.1 * rng.standard_normal(waves.shape)
    return torch.tensor(waves, dtype=torch.float32), torch.tensor(lengths), torch.tensor(labels)


def test_a_tuple_and_a_mapping_are_the_arguments_of_the_model() -> None:
    model, (waves, lengths, _) = Recogniser(), tones(6, 0)
    expected = model(waves, lengths)
    for inputs in ((waves, lengths), [waves, lengths], {"lengths": lengths, "waveform": waves}):
        capture = Capture(model)
        features, logits = capture(inputs)
        assert torch.equal(logits, expected)
        torch.testing.assert_close(capture.head.logits(features), expected)
        assert capture.layer == "head"
    nested, capture = ({"audio": (waves, lengths)},), Capture(ByMapping().eval())
    capture.model.inner.load_state_dict(model.state_dict())  # type: ignore[union-attr]
    assert torch.equal(capture(nested)[1], expected)


def test_the_output_of_an_encoder_is_the_feature_whatever_it_takes() -> None:
    model, (waves, lengths, _) = Recogniser(), tones(6, 0)
    model.head = nn.Identity()  # type: ignore[assignment]
    features, _ = OutputCapture(model)({"waveform": waves, "lengths": lengths})
    assert torch.equal(features, model(waves, lengths))


class Loader:
    """Batches by name, with labels, as loaders of Hugging Face data sets give them."""

    def __init__(self, count: int, seed: int, frequency: float = 1.0) -> None:
        self.parts = tones(count, seed, frequency)

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        for start in range(0, len(self.parts[0]), 50):
            waves, lengths, labels = (part[start : start + 50] for part in self.parts)
            yield {"waveform": waves, "lengths": lengths, "labels": labels}


def test_a_guard_for_audio_by_mappings() -> None:
    """Trained on tones of three pitches, a guard flags what sounds otherwise, and few tones."""
    model, (waves, lengths, labels) = Recogniser(), tones(400, 1)
    optimiser = torch.optim.Adam(model.parameters(), 0.02)
    for _ in range(150):
        loss = nn.functional.cross_entropy(model(waves, lengths), labels)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    capture = Capture(model)
    guard = Guard.fit(
        capture.over(Loader(400, 1)),
        head=capture.head,
        detector=create("rmds"),
        calibration=capture.over(Loader(400, 2)),
    ).attach(model)
    known, strange = tones(300, 3), tones(300, 4, frequency=5.0)
    flagged = [
        float(guard.verdicts({"waveform": one[0], "lengths": one[1]}).is_ood.float().mean())  # type: ignore[union-attr]
        for one in (known, strange)
    ]
    assert flagged[0] < 0.12
    assert flagged[1] > 0.5
    by_order = guard.verdicts((known[0], known[1]))
    assert torch.equal(
        torch.as_tensor(by_order.score),
        torch.as_tensor(guard.verdicts({"waveform": known[0], "lengths": known[1]}).score),
    )


def test_pairs_of_a_data_loader_are_inputs_and_labels() -> None:
    waves, lengths, labels = tones(10, 5)
    pairs = [((wave, length), label) for wave, length, label in zip(waves, lengths, labels, strict=True)]
    capture = Capture(Recogniser())
    batches = list(capture.over(DataLoader(pairs, batch_size=4)))  # type: ignore[arg-type]
    assert [len(features) for features, _ in batches] == [4, 4, 2]
    assert torch.equal(torch.cat([torch.as_tensor(found) for _, found in batches]), labels)


def test_scores_that_change_images_refuse_what_is_no_tensor() -> None:
    waves, lengths, _ = tones(4, 0)
    with pytest.raises(
        CaptureError, match=r"works on inputs that are one tensor.*a mapping of waveform \(4, 64\)"
    ):
        Capture(Recogniser(), score=create("odin"))({"waveform": waves, "lengths": lengths})
    with pytest.raises(CaptureError, match=r"averaged over all positions.*padding"):
        Capture(Recogniser(), ["frames", "head"])((waves, lengths))


def test_inputs_that_are_no_batch() -> None:
    for empty in ({}, (), {"waveform": "x"}):
        with pytest.raises(InputError, match="expected a batch"):
            Capture(Recogniser())(empty)
