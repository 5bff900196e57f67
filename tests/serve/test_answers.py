"""What the service answers is what the guard says: of the right sample, in the right order."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import pytest
import torch

pytest.importorskip("fastapi", reason="the extra serve is not installed")

from live_service import features_of_noise, live, npy, picture, picture_guard, png
from made_guards import WIDTH, clusters, fitted, head
from theodolite import KNN, Guard
from theodolite.guard.explanation import p_value_in_words
from theodolite.serve import Service, judging_of


@pytest.fixture(scope="module")
def guard() -> Guard:
    return picture_guard(class_names=("none", "one", "two"))


@pytest.fixture(scope="module")
def address(guard: Guard) -> Iterator[str]:
    with live(Service(judging_of(guard))) as address:
        yield address


def files(*pictures: bytes) -> list[tuple[str, tuple[str, bytes]]]:
    return [("pictures", (f"p{place}.png", content)) for place, content in enumerate(pictures)]


def score(address: str, query: str = "", **body: Any) -> dict[str, Any]:
    answer = httpx.post(f"{address}/v1/score{query}", **body)
    assert answer.status_code == 200, answer.text
    said: dict[str, Any] = json.loads(answer.content, parse_constant=_no_constant)
    return said


def _no_constant(text: str) -> None:
    raise AssertionError(f"{text} is no JSON")


def agrees(entry: dict[str, Any], guard: Guard, sample: Any, rate: float | None = None) -> None:
    """An entry is the guard's verdict on that sample alone, to the rounding of a batch."""
    alone = guard.verdicts(sample, false_alarm_rate=rate)
    (predicted,), (expected,), (p_value,), (is_ood,) = (np.asarray(column) for column in alone)
    assert entry["predicted"] == predicted
    assert entry["class_name"] == guard.class_name(int(predicted))
    assert entry["score"] == pytest.approx(float(expected), rel=1e-5)
    assert entry["p_value"] == pytest.approx(float(p_value), abs=1.5 / len(guard.calibration))
    assert entry["verdict"] == ("OOD" if is_ood else "ID")


def test_pictures_are_answered_in_order(address: str, guard: Guard) -> None:
    said = score(address, files=files(*(png(picture(seed)) for seed in range(20))))
    assert said["false_alarm_rate"] == 0.05
    assert [entry["index"] for entry in said["results"]] == list(range(20))
    assert [entry["name"] for entry in said["results"]] == [f"p{place}.png" for place in range(20)]
    for seed, entry in enumerate(said["results"]):
        agrees(entry, guard, [picture(seed)])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble, ">f4"])
def test_features_as_npy(address: str, guard: Guard, dtype: Any) -> None:
    rows = features_of_noise()[:30].numpy().astype(dtype)
    said = score(address, content=npy(rows), headers={"content-type": "application/x-npy"})
    for row, entry in zip(rows, said["results"], strict=True):
        agrees(entry, guard, row[None])
    turned = npy(np.asfortranarray(rows))
    octets = score(address, content=turned, headers={"content-type": "application/octet-stream"})
    assert octets == said


def test_features_as_json(address: str, guard: Guard) -> None:
    rows = features_of_noise()[:7].double().numpy()
    said = score(address, json={"features": rows.tolist()})
    for row, entry in zip(rows, said["results"], strict=True):
        agrees(entry, guard, row[None])
        assert entry["name"] is None


@pytest.mark.parametrize("rate", [0.02, 0.3, 0.9])
def test_the_rate_of_a_request_moves_its_threshold(address: str, guard: Guard, rate: float) -> None:
    rows = features_of_noise()
    said = score(address, f"?false_alarm_rate={rate}", content=npy(rows.numpy()), headers=NPY)
    expected = np.asarray(guard.verdicts(rows, false_alarm_rate=rate).is_ood)
    assert said["false_alarm_rate"] == rate
    assert [entry["verdict"] == "OOD" for entry in said["results"]] == expected.tolist()
    assert 0 < expected.sum() < len(rows)


NPY = {"content-type": "application/x-npy"}


def test_a_broken_picture_costs_the_others_nothing(address: str, guard: Guard) -> None:
    whole = png(picture(0))
    said = score(address, files=files(whole, whole[:60], b"", b"%!PS-Adobe-3.0 EPSF-3.0\n", whole))
    verdicts = [entry["verdict"] for entry in said["results"]]
    assert verdicts[1:4] == ["unreadable"] * 3
    for place in (0, 4):
        agrees(said["results"][place], guard, [picture(0)])
    for entry in said["results"][1:4]:
        assert entry["note"]
        assert [entry[key] for key in ("predicted", "class_name", "score", "p_value")] == [None] * 4


def test_rows_without_a_score_are_flagged_and_hold_no_nan(address: str, guard: Guard) -> None:
    rows = features_of_noise()[:4].clone()
    rows[1, 3], rows[2, 0] = math.nan, math.inf
    bodies: list[dict[str, Any]] = [
        {"content": npy(rows.numpy()), "headers": NPY},
        {"content": json.dumps({"features": rows.tolist()}), "headers": {"content-type": "application/json"}},
    ]
    for body in bodies:
        results = score(address, **body)["results"]
        assert [entry["verdict"] for entry in results][1:3] == ["unscorable"] * 2
        assert [results[1][key] for key in ("predicted", "score", "p_value")] == [None] * 3
        agrees(results[3], guard, rows[3:4])


def test_a_model_without_an_answer_is_unscorable() -> None:
    guard = picture_guard("python:small_models:Fragile?mean=0&size=8")
    black = png(picture(0).point(lambda _: 0))
    with live(Service(judging_of(guard))) as address:
        results = score(address, files=files(png(picture(1)), black, png(picture(2))))["results"]
    assert [entry["verdict"] == "unscorable" for entry in results] == [False, True, False]
    agrees(results[2], guard, [picture(2)])


def test_names_come_back_as_they_were(address: str) -> None:
    name = "<b>ü\u202e.png"
    said = score(address, files=[("pictures", (name, png(picture(0))))])
    assert said["results"][0]["name"] == name


def test_pictures_are_turned_as_their_guard_learnt_them(guard: Guard) -> None:
    tilted = picture(3)
    exif = tilted.getexif()
    exif[0x0112] = 6
    content = io_jpeg(tilted, exif.tobytes())
    with live(Service(judging_of(guard))) as address:
        (entry,) = score(address, files=files(content))["results"]
        assert entry["note"] is None
    known = guard.provenance
    assert known is not None
    stored = picture_guard()
    stored.provenance = type(known)(known.model, known.weights, known.preprocess, known.layer)
    with live(Service(judging_of(stored))) as address:
        (other,) = score(address, files=files(content))["results"]
    assert "EXIF" in other["note"]
    assert other["score"] != entry["score"]


def io_jpeg(image: Any, exif: bytes) -> bytes:
    file = io.BytesIO()
    image.save(file, "JPEG", quality=95, exif=exif)
    return file.getvalue()


def test_sixteen_clients_get_their_own_answers(address: str, guard: Guard) -> None:
    """Every client sends other samples, pictures and features in turn; each answer is checked."""
    rows = features_of_noise()

    def client(number: int) -> None:
        with httpx.Client(base_url=address) as http:
            for turn in range(12):
                seed = 100 * number + turn
                if turn % 3 == 0:
                    chosen = rows[(seed % 390) : (seed % 390) + 1 + turn % 4]
                    entries = http.post("/v1/score", content=npy(chosen.numpy()), headers=NPY).json()[
                        "results"
                    ]
                    samples: list[Any] = [row[None] for row in chosen]
                else:
                    count = 1 + turn % 3
                    sent = [picture(seed + place * 5000) for place in range(count)]
                    rate = {"false_alarm_rate": 0.5} if turn % 2 else {}
                    answer = http.post("/v1/score", params=rate, files=files(*map(png, sent)))
                    entries, samples = answer.json()["results"], [[one] for one in sent]
                for entry, sample in zip(entries, samples, strict=True):
                    agrees(entry, guard, sample, 0.5 if turn % 3 and turn % 2 else None)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(client, range(16)))


def test_words_are_about_the_samples_own_class() -> None:
    """Some of these are stranger than all calibration samples of their class, of which there are fewer."""
    guard = fitted(per_class=True)
    rows = np.concatenate([clusters(40, 7)[0].numpy(), np.random.default_rng(0).normal(0, 4, (80, WIDTH))])
    with pytest.warns(UserWarning, match="knows no model"), live(Service(judging_of(guard))) as address:
        said = score(address, content=npy(rows), headers=NPY)["results"]
    counts = [len(guard.calibration.peers(one["predicted"])) for one in said]
    assert max(counts) < len(guard.calibration)
    for one, count in zip(said, counts, strict=True):
        assert one["in_words"] == p_value_in_words(one["p_value"], count)
    assert any(one["in_words"].startswith("stranger than all") for one in said)


def test_the_triangle_is_that_of_ora() -> None:
    guard = fitted()
    rows, _ = clusters(20, 1)
    seen = guard.detector.sight(rows)  # type: ignore[operator]
    with pytest.warns(UserWarning, match="knows no model"):
        judging = judging_of(guard)
    with live(Service(judging)) as address:
        said = score(address, "?explain=true", content=npy(rows.numpy()), headers=NPY)
        plain = score(address, content=npy(rows.numpy()), headers=NPY)
    for place, entry in enumerate(said["results"]):
        triangle = entry["triangle"]
        assert triangle["across"] == int(seen.furthest[place])
        assert triangle["across_name"] == guard.class_name(int(seen.furthest[place]))
        for key in ("angle", "distance", "centre_distance", "height"):
            assert triangle[key] == pytest.approx(float(getattr(seen, key)[place]), rel=1e-6)
    assert all(entry["triangle"] is None for entry in plain["results"])


@pytest.mark.parametrize(("name", "same"), [("relative-energy", "ora?metric=mahalanobis"), ("fdbd", "ora")])
def test_other_scores_show_the_triangle_in_their_own_metric(name: str, same: str) -> None:
    """The mean and the head are all it takes: that of ORA, fitted on the same rows."""
    rows, labels = clusters(3_000, 0)
    ora, other = (Guard.fit(rows, labels, head=head(), detector=text) for text in (same, name))
    new, _ = clusters(12, 5)
    with pytest.warns(UserWarning, match="knows no model"), live(Service(judging_of(other))) as address:
        said = score(address, "?explain=true", content=npy(new.numpy()), headers=NPY)
    seen = ora.detector.sight(new)  # type: ignore[operator]
    found = [entry["triangle"]["angle"] for entry in said["results"]]
    np.testing.assert_allclose(found, seen.angle.numpy(), rtol=1e-4)


def test_a_guard_without_model_or_head() -> None:
    rows, _ = clusters(1_000, 0)
    guard = Guard.fit(rows, detector=KNN(k=5))
    with pytest.warns(UserWarning, match="knows no model"):
        judging = judging_of(guard)
    with live(Service(judging)) as address:
        said = score(address, "?explain=1", content=npy(rows[:3].numpy()), headers=NPY)
        refused = httpx.post(f"{address}/v1/score", files=files(png(picture(0))))
        about = httpx.get(f"{address}/v1/guard").json()
        described = httpx.get(f"{address}/openapi.json").json()
    assert {entry["predicted"] for entry in said["results"]} == {None}
    assert refused.status_code == 415
    assert "send features" in refused.json()["detail"]
    assert about["takes_pictures"] is False
    assert about["features"] == WIDTH
    body = described["paths"]["/v1/score"]["post"]["requestBody"]["content"]
    assert "multipart/form-data" not in body


def test_torch_is_left_as_it_was(address: str) -> None:
    score(address, files=files(png(picture(0))))
    assert torch.is_grad_enabled()
