"""An exported guard behind an address: the same answers, from a file that has the model inside."""

from __future__ import annotations

from pathlib import Path

import httpx
import numpy as np
import pytest
from PIL import Image

pytest.importorskip("fastapi", reason="pip install 'theodolite[serve]'")
pytest.importorskip("onnxruntime", reason="pip install 'theodolite[onnx]'")

from live_service import live, npy, png
from made_guards import clusters, fitted
from picture_nets import net_guard, pictures
from theodolite import Guard
from theodolite.core.errors import InputError
from theodolite.serve import Service, judging_of

pytestmark = pytest.mark.usefixtures("operators_once")
NPY = {"Content-Type": "application/x-npy"}


@pytest.fixture(scope="module")
def guard() -> Guard:
    return net_guard()


@pytest.fixture(scope="module")
def outside(guard: Guard, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The graph of prepared images."""
    return guard.export(tmp_path_factory.mktemp("outside") / "guard.onnx").path


@pytest.fixture(scope="module")
def inside(guard: Guard, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The graph that prepares them."""
    return guard.export(tmp_path_factory.mktemp("inside") / "guard.onnx", with_preprocessing=True).path


@pytest.mark.parametrize(("graph", "tolerance"), [("outside", 1e-5), ("inside", 1e-2)])
def test_pictures_through_a_graph(
    guard: Guard, graph: str, tolerance: float, request: pytest.FixtureRequest
) -> None:
    """Prepared before the graph, or in it; of several sizes at once."""
    new = [*pictures(4, seed=1), *pictures(3, seed=2, side=40), Image.new("RGB", (90, 50), (255, 0, 0))]
    expected = guard.verdicts(new)
    with live(Service(judging_of(request.getfixturevalue(graph)))) as address:
        sent = [("pictures", (f"{place}.png", png(one))) for place, one in enumerate(new)]
        found = httpx.post(f"{address}/v1/score?explain=true", files=sent)
        rows = httpx.post(f"{address}/v1/score", content=npy(np.zeros((1, 24), np.float32)), headers=NPY)
        described = httpx.get(f"{address}/openapi.json").json()["paths"]["/v1/score"]["post"]
    assert found.status_code == 200, found.text
    entries = found.json()["results"]
    assert [one["verdict"] == "OOD" for one in entries] == np.asarray(expected.is_ood).tolist()
    assert [one["predicted"] for one in entries] == np.asarray(expected.predicted).tolist()
    scores = np.asarray(expected.score)
    np.testing.assert_allclose([one["score"] for one in entries], scores, rtol=tolerance)
    assert rows.status_code == 415
    assert list(described["requestBody"]["content"]) == ["multipart/form-data"]


@pytest.mark.filterwarnings("error::theodolite.core.errors.TheodoliteWarning")
def test_a_tilted_picture_is_judged_as_stored_and_says_so(
    guard: Guard, outside: Path, tmp_path: Path
) -> None:
    tilted = pictures(1, seed=3)[0]
    expected = float(np.asarray(guard.verdicts([tilted]).score)[0])
    exif = Image.Exif()
    exif[0x0112] = 6
    tilted.save(tmp_path / "tilted.png", exif=exif)
    with live(Service(judging_of(outside))) as address:
        sent = {"pictures": ("tilted.png", (tmp_path / "tilted.png").read_bytes())}
        (entry,) = httpx.post(f"{address}/v1/score", files=sent).json()["results"]
    assert "judged as stored" in entry["note"]
    assert entry["score"] == pytest.approx(expected, rel=1e-5)


def test_features_through_a_graph(tmp_path: Path) -> None:
    guard = fitted(per_class=True)
    guard.export(tmp_path / "guard.onnx", takes="features")
    rows = clusters(50, 5)[0].numpy()
    expected = guard.verdicts(rows, false_alarm_rate=0.2)
    with live(Service(judging_of(tmp_path / "guard.onnx"))) as address:
        said = httpx.post(f"{address}/v1/score?false_alarm_rate=0.2", content=npy(rows), headers=NPY)
        form = httpx.post(f"{address}/v1/score", files={"pictures": ("a.png", b"")})
    assert [one["verdict"] == "OOD" for one in said.json()["results"]] == np.asarray(expected.is_ood).tolist()
    assert form.status_code == 415


def test_what_cannot_be_served_is_refused(outside: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has its model inside"):
        judging_of(outside, model="python:a:b")
    with pytest.raises(InputError, match="PyTorch runs code"):
        judging_of(tmp_path / "guard.pt2")
