"""Guards: verdicts with the promised false-alarm rate, and files that give the same verdicts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import theodolite
from made_guards import CLASSES, WIDTH, clusters, fitted, head
from theodolite import MSP, ORA, Energy, Ensemble, Head
from theodolite.core.errors import FormatError, InputError, NotFittedError
from theodolite.features.store import number_of
from theodolite.guard import Calibration, Guard, Provenance
from theodolite.guard.holdout import in_share, split
from theodolite.models import load_model


def test_false_alarms_keep_the_promise_and_noise_is_caught() -> None:
    guard = fitted()
    fresh = guard.verdicts(clusters(10_000, 1)[0])
    strange = guard.verdicts(torch.randn(2_000, WIDTH, generator=torch.Generator().manual_seed(2)))
    # 5 % promised; three standard errors of 800 calibration and 10,000 test samples.
    slack = 3 * np.sqrt(0.05 * 0.95 * (1 / len(guard.calibration) + 1 / 10_000))
    assert float(torch.as_tensor(fresh.is_ood).double().mean()) <= 0.05 + slack
    assert float(torch.as_tensor(strange.is_ood).double().mean()) > 0.5
    assert torch.equal(torch.as_tensor(fresh.is_ood), torch.as_tensor(fresh.p_value) <= 0.05)


@pytest.mark.parametrize(("shaping", "products"), [(None, 1), ("react:90", 2)])
def test_class_and_score_come_from_one_product_with_the_head(
    shaping: str | None, products: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless the score looks at shaped features, or float32 has no room for the logits."""
    features, labels = clusters(1_000, 0)
    guard = Guard.fit(features, labels, head=head(), detector=ORA(shaping=shaping))
    calls: list[int] = []
    plain = Head.logits

    def counted(self: Head, rows: Tensor) -> Tensor:
        calls.append(len(rows))
        return plain(self, rows)

    monkeypatch.setattr(Head, "logits", counted)
    verdicts = guard.verdicts(features[:50])
    assert calls == [50] * products
    expected = guard.detector.score(features[:50])
    torch.testing.assert_close(torch.as_tensor(verdicts.score), expected, rtol=1e-6, atol=0)
    vast = torch.full((1, WIDTH), 3e38)
    assert torch.isfinite(torch.as_tensor(guard.verdicts(vast).score)).all(), "worked again in float64"


def test_the_false_alarm_rate_can_be_chosen_at_the_verdict() -> None:
    guard = fitted()
    rows = clusters(2_000, 1)[0]
    shares = [
        float(torch.as_tensor(guard.verdicts(rows, false_alarm_rate=rate).is_ood).double().mean())
        for rate in (0.01, 0.1, 0.5)
    ]
    assert shares == sorted(shares)
    assert shares[2] == pytest.approx(0.5, abs=0.08)


def test_numpy_in_numpy_out_and_classes_are_the_heads() -> None:
    guard = fitted(class_names=list("abcde"))
    rows, labels = clusters(300, 4)
    from_torch, from_numpy = guard.verdicts(rows), guard.verdicts(rows.numpy())
    for one, other in zip(from_torch, from_numpy, strict=True):
        assert isinstance(one, Tensor)
        assert isinstance(other, np.ndarray)
        np.testing.assert_array_equal(one.numpy(), other)
    assert isinstance(from_torch.predicted, Tensor)
    assert float((from_torch.predicted == labels).double().mean()) > 0.95
    assert guard.class_name(2) == "c"
    assert fitted().class_name(2) == "2"


def test_the_calibration_share_is_held_out_and_does_not_depend_on_order() -> None:
    features, labels = clusters(2_000, 0)
    ids = torch.tensor([number_of(f"{i}.png") for i in range(2_000)])
    to_fit, held_out = split(features, labels, ids, head(), 0.2)
    fit_ids = torch.cat([batch[2] for batch in to_fit if batch[2] is not None])
    held_ids = torch.cat([batch[2] for batch in held_out if batch[2] is not None])
    assert len(fit_ids) + len(held_ids) == 2_000
    assert set(fit_ids.tolist()).isdisjoint(held_ids.tolist())
    assert len(held_ids) == pytest.approx(400, abs=60)
    order = torch.randperm(2_000)
    assert set(ids[order][in_share(ids[order], 0.2)].tolist()) == set(held_ids.tolist())


def test_calibration_data_of_its_own() -> None:
    features, labels = clusters(1_000, 0)
    apart = clusters(500, 9)[0]
    guard = Guard.fit(features, labels, head=head(), detector=ORA(), calibration=apart)
    expected = ORA().fit(features, labels, head=head()).score(apart)
    np.testing.assert_allclose(guard.calibration.scores, np.sort(expected.double().numpy()))


@pytest.mark.parametrize("detector", [ORA(), ORA(centre="predicted"), MSP(), Energy(temperature=2.0)])
def test_save_and_load_give_the_same_verdicts(tmp_path: Path, detector: theodolite.Detector) -> None:
    features, labels = clusters(1_000, 0)
    provenance = Provenance("python:toy:make", "a" * 64, "plain", "fc")
    guard = Guard.fit(
        features,
        labels,
        head=head(),
        detector=detector,
        class_names=["ä", "b", "c", "d", "e"],
        provenance=provenance,
        false_alarm_rate=0.1,
    )
    guard.save(tmp_path / "guard.safetensors")
    again = Guard.load(tmp_path / "guard.safetensors")
    rows = clusters(300, 4)[0]
    for one, other in zip(guard.verdicts(rows), again.verdicts(rows), strict=True):
        assert torch.equal(torch.as_tensor(one), torch.as_tensor(other))
    assert again.provenance == provenance
    assert again.class_names == ("ä", "b", "c", "d", "e")
    assert again.false_alarm_rate == 0.1
    assert again.detector.options() == detector.options()
    guard.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == (tmp_path / "guard.safetensors").read_bytes()


def test_a_guard_is_a_module() -> None:
    guard = fitted().to("cpu")
    assert isinstance(guard(clusters(3, 1)[0]).score, Tensor)


def test_files_that_are_not_guards(tmp_path: Path) -> None:
    ORA().fit(*clusters(100, 0), head=head()).save(tmp_path / "detector.safetensors")
    with pytest.raises(FormatError, match="expected theodolite-guard/1"):
        Guard.load(tmp_path / "detector.safetensors")
    with pytest.raises(InputError, match=r"no such file.*Ready-made guards: .*imagenet-lite0"):
        Guard.load(tmp_path / "absent.safetensors")
    guard = fitted(200)
    guard.save(tmp_path / "guard.safetensors")
    with pytest.raises(FormatError, match="theodolite-detector"):
        theodolite.load(tmp_path / "guard.safetensors")
    content = (tmp_path / "guard.safetensors").read_bytes()
    for position in (300, -9):
        flipped = bytearray(content)
        flipped[position] ^= 1
        (tmp_path / "flipped.safetensors").write_bytes(flipped)
        with pytest.raises(FormatError):
            Guard.load(tmp_path / "flipped.safetensors")
    (tmp_path / "cut.safetensors").write_bytes(content[: len(content) // 2])
    with pytest.raises(FormatError, match="not a readable safetensors file"):
        Guard.load(tmp_path / "cut.safetensors")


def test_a_guard_that_was_cut_or_changed_is_refused(tmp_path: Path) -> None:
    """A cut at every 1 of 41 bytes and a changed bit in every 1 of 37: header, tensors, description."""
    fitted(200).save(tmp_path / "guard.safetensors")
    whole = (tmp_path / "guard.safetensors").read_bytes()
    damaged = tmp_path / "damaged.safetensors"
    generator = torch.Generator().manual_seed(0)
    for length in range(0, len(whole), 41):
        damaged.write_bytes(whole[:length])
        with pytest.raises(FormatError):
            Guard.load(damaged)
    for place in range(0, len(whole), 37):
        bit = 1 << int(torch.randint(8, (1,), generator=generator))
        damaged.write_bytes(whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :])
        with pytest.raises(FormatError):
            Guard.load(damaged)
    damaged.write_bytes(whole + b"more")
    with pytest.raises(FormatError):
        Guard.load(damaged)


def test_errors_name_what_is_missing(tmp_path: Path) -> None:
    guard = fitted(200)
    with pytest.raises(InputError, match=r"no model to turn images into features"):
        guard.verdicts(torch.rand(2, 3, 8, 8))
    with pytest.raises(InputError, match="cannot prepare pictures"):
        guard.verdicts([])
    with pytest.raises(InputError, match="width 3"):
        guard.verdicts(torch.rand(2, 3))
    with pytest.raises(InputError, match="4 class names for a head of 5"):
        fitted(200, class_names=list("abcd"))
    with pytest.raises(InputError, match="at least 19 are needed"):
        Guard(guard.detector, Calibration(torch.rand(5)))
    with pytest.raises(InputError, match="needs its head in the file"):
        guard.save(tmp_path / "guard.safetensors", with_head=False)
    with pytest.raises(NotFittedError):
        Guard(ORA(), guard.calibration, head=head()).save(tmp_path / "guard.safetensors")
    features, labels = clusters(100, 0)
    with pytest.raises(InputError, match="can be read once"):
        Guard.fit(iter([(features, labels)]), head=head())
    with pytest.raises(InputError, match="calibration share must lie in"):
        Guard.fit(features, labels, head=head(), detector=ORA(), calibration_share=1.5)


def test_names_layers_and_slips() -> None:
    features, labels = clusters(400, 0)
    linear = torch.nn.Linear(WIDTH, CLASSES)
    guard = Guard.fit(features, labels, head=linear, detector="knn", class_names=list("abcde"))
    assert guard.detector.record.name == "knn"
    assert guard.class_name(2) == "c"
    with pytest.raises(InputError, match="no detector is called 'knm'; did you mean 'knn'"):
        Guard.fit(features, labels, head=linear, detector="knm")
    with pytest.raises(InputError, match="must be a Detector"):
        Guard(Ensemble([guard.detector]), Calibration(torch.arange(30.0)), head=head())  # type: ignore[arg-type]
    guard.loaded = load_model("python:small_models:Tiny?mean=0&size=8")
    with pytest.raises(InputError, match="inputs hold a str, expected PIL pictures"):
        guard.verdicts(["a.png"])
    with pytest.raises(InputError, match=r"one image is inputs\[None\]"):
        guard.verdicts(torch.zeros(1, 8, 8))


def test_files_are_as_public_as_any_other(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    fitted().save(tmp_path / "guard.safetensors")
    assert (tmp_path / "guard.safetensors").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_guards_head_is_its_own_and_keeps_its_precision(tmp_path: Path) -> None:
    shared = head()
    features, labels = clusters(400, 0)
    one, two = (Guard.fit(features, labels, head=shared, detector="energy") for _ in range(2))
    before = two.verdicts(features)
    expected = one.verdicts(features).score
    one.half().save(tmp_path / "guard.safetensors")
    torch.testing.assert_close(Guard.load(tmp_path / "guard.safetensors").verdicts(features).score, expected)
    assert shared.weight.dtype == torch.float32
    third = Guard.fit(2 * features, labels, head=Head(shared.weight.flip(0)), detector="energy")
    one.load_state_dict(third.state_dict())
    assert torch.equal(torch.as_tensor(two.verdicts(features).predicted), torch.as_tensor(before.predicted))
    assert torch.equal(shared.weight, head().weight)
