"""Guards with their model: pictures, loaders, threads, and no code but what the caller names."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from made_guards import clusters, fitted, head
from small_models import Tiny
from theodolite import ORA, Energy, Head
from theodolite.core.errors import CaptureError, InputError, TheodoliteWarning
from theodolite.features.capture import Capture
from theodolite.features.checked import checked_capture
from theodolite.guard import Calibration, Guard, Provenance
from theodolite.models import load_model


def test_images_go_through_the_model_to_the_same_verdicts() -> None:
    model = Tiny()
    images = torch.rand(400, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    features = model.body(images).detach()
    guard = Guard.fit(features, detector=ORA(), head=Head.from_linear(model.fc), model=model)
    for one, other in zip(guard.verdicts(images[:50]), guard.verdicts(features[:50]), strict=True):
        torch.testing.assert_close(torch.as_tensor(one), torch.as_tensor(other))
    from_numpy = guard.verdicts(images[:50].numpy())
    assert isinstance(from_numpy.score, np.ndarray)


def test_threads_get_their_own_verdicts() -> None:
    """Many threads, one guard, one picture each: every score is that of its own picture."""
    model = Tiny().eval()
    images = torch.rand(24, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    capture = Capture(model)
    features, _ = capture(images)
    guard = Guard(
        Energy().fit(head=capture.head), Calibration(torch.arange(100.0)), head=capture.head, model=model
    )
    expected = guard.verdicts(features).score

    def score(index: int) -> float:
        return float(guard.verdicts(images[index % 24, None]).score[0])

    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(score, range(240)))
    np.testing.assert_allclose(found, [float(expected[index % 24]) for index in range(240)], rtol=1e-5)
    assert not any(module._forward_hooks for module in model.modules())


@pytest.mark.parametrize("detector", ["relative-energy", "knn?k=5", "ora+react:80", "vim"])
def test_sixteen_threads_get_identical_scores(detector: str) -> None:
    """Features of one guard, judged by sixteen threads at once: to the last bit what one thread says."""
    guard = Guard.fit(*clusters(600, 0), head=head(), detector=detector)
    parts = torch.split(clusters(640, 1)[0], 40)
    expected = [guard.verdicts(part) for part in parts]
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(guard.verdicts, [*parts] * 4))
    for said, wanted in zip(found, expected * 4, strict=True):
        for one, other in zip(said, wanted, strict=True):
            assert torch.equal(torch.as_tensor(one), torch.as_tensor(other))


def test_pictures_of_any_depth_and_models_of_any_precision() -> None:
    loaded = load_model("python:small_models:Tiny?mean=0&size=8")
    head = checked_capture(loaded).head
    guard = Guard(Energy().fit(head=head), Calibration(torch.arange(100.0)), head=head)
    with pytest.warns(TheodoliteWarning, match="cannot know whether this model gave them"):
        guard.attach(loaded)
    grey = np.linspace(0, 255, 64).astype(np.uint8).reshape(8, 8)
    shallow, deep = Image.fromarray(grey), Image.fromarray(grey.astype(np.uint16) * 256)
    first, second = guard.verdicts([shallow, deep]).score
    assert float(first) == pytest.approx(float(second))
    assert float(guard.double().verdicts([shallow]).score[0]) == pytest.approx(float(first), rel=1e-5)
    with pytest.raises(InputError, match="empty list"):
        guard.verdicts([])


def test_opening_a_file_runs_no_code_that_it_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "trap.py").write_text(
        "from pathlib import Path\nfrom small_models import Tiny\nPath('sprung').touch()\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    spec = "python:trap:Tiny?mean=0&size=8"
    loaded = load_model(spec)
    head = checked_capture(loaded).head
    origin = Provenance(loaded.spec, loaded.digest, loaded.preprocess_id, "fc")
    guard = Guard(Energy().fit(head=head), Calibration(torch.arange(100.0)), head=head, provenance=origin)
    guard.save("guard.safetensors", with_head=False)
    sys.modules.pop("trap")
    Path("sprung").unlink()
    with pytest.raises(InputError, match="code that would be run, python:trap:Tiny"):
        Guard.load("guard.safetensors")
    with pytest.raises(InputError, match="fitted on python:trap:Tiny"):
        Guard.load("guard.safetensors", model="python:small_models:Tiny")
    assert not Path("sprung").exists()
    assert Guard.load("guard.safetensors", model=spec).loaded is not None
    assert Path("sprung").exists()


def test_a_model_in_memory_and_a_loader() -> None:
    """The shortest way for somebody with an nn.Module and a DataLoader."""
    images = torch.rand(300, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    data = torch.utils.data.TensorDataset(images, torch.arange(300) % 3)
    loader = torch.utils.data.DataLoader(data, batch_size=64)
    model = Tiny().eval()
    capture = Capture(model)
    guard = Guard.fit(capture.over(loader), head=capture.head).attach(model)
    by_hand = Guard.fit(capture(images)[0], torch.arange(300) % 3, head=capture.head)
    np.testing.assert_allclose(guard.calibration.scores, by_hand.calibration.scores, rtol=1e-5)
    seen, expected = guard.verdicts(images[:20]), by_hand.verdicts(capture(images[:20])[0])
    torch.testing.assert_close(seen.score, expected.score)
    with pytest.raises(CaptureError, match="an iterator, which can be read once"):
        capture.over(iter(loader))
    fitted_elsewhere = fitted(provenance=Provenance("python:a:b", "c" * 64, "plain", "fc"))
    with pytest.raises(InputError, match="attach"):
        fitted_elsewhere.attach(model)
