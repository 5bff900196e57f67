"""Every bound: what is beyond it is refused with a status and a sentence, and the next one is answered."""

from __future__ import annotations

import io
import pickle
import socket
import struct
import threading
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import islice
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image
from torch import Tensor

pytest.importorskip("fastapi", reason="the extra serve is not installed")

from live_service import features_of_noise, live, npy, picture, picture_guard, png
from theodolite.core.errors import InputError
from theodolite.serve import Bounds, Service, judging_of
from theodolite.serve.bounds import MEBIBYTE
from theodolite.serve.judging import Judged, Judging

NPY = {"content-type": "application/x-npy"}
JSON = {"content-type": "application/json"}
WIDTH = 16
TIGHT = Bounds(
    request_bytes=200_000,
    json_bytes=20_000,
    picture_bytes=100_000,
    pixels=10_000,
    pictures=3,
    rows=50,
    queue=4,
    answer_seconds=20,
)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with live(Service(judging_of(picture_guard()), bounds=TIGHT)) as address:
        yield address


def refused(address: str, status: int, said: str, query: str = "", **body: Any) -> None:
    answer = httpx.post(f"{address}/v1/score{query}", **body)
    assert answer.status_code == status, answer.text
    assert said in answer.json()["detail"]
    assert httpx.post(f"{address}/v1/score", files=form(png(picture(0)))).status_code == 200


def form(*pictures: bytes, field: str = "pictures") -> list[tuple[str, tuple[str, bytes]]]:
    return [(field, ("a.png", content)) for content in pictures]


def pieces(size: int) -> Iterator[bytes]:
    """A body without a length, in pieces."""
    for _ in range(size // 1000):
        yield bytes(1000)


def bomb(width: int, height: int) -> bytes:
    """A PNG whose header promises far more pixels than its bytes hold."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(bytes(1000))), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )


def test_bytes_of_a_request(address: str) -> None:
    refused(address, 413, "more than 200,000 bytes", content=bytes(200_001), headers=NPY)
    refused(address, 413, "more than 200,000 bytes", content=pieces(300_000), headers=NPY)
    refused(address, 413, "more than 20,000 bytes", content=b" " * 20_001, headers=JSON)


def test_a_length_that_is_announced_is_refused_before_it_is_sent(address: str) -> None:
    host, port = address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=5) as client:
        client.sendall(
            b"POST /v1/score HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-npy\r\n"
            b"Expect: 100-continue\r\nContent-Length: 99999999999\r\n\r\n"
        )
        assert client.recv(1000).startswith(b"HTTP/1.1 413 ")


def test_bytes_and_pixels_of_a_picture(address: str) -> None:
    refused(
        address, 413, "picture 1 has more than 100,000 bytes", files=form(png(picture(0)), bytes(100_001))
    )
    refused(address, 413, "picture 0 (a.png) has more than the 10,000 pixels", files=form(bomb(101, 100)))
    # Beyond what Pillow itself opens.
    refused(address, 413, "10,000 pixels", files=form(png(picture(0)), bomb(60_000, 60_000)))


@pytest.mark.parametrize("kind", ["GIF", "BMP", "TIFF", "WEBP", "JPEG", "PPM"])
def test_pixels_in_every_format(address: str, kind: str) -> None:
    for side, status in ((100, 200), (101, 413)):
        file = io.BytesIO()
        Image.new("L", (side, 100)).save(file, kind)
        answer = httpx.post(f"{address}/v1/score", files=form(file.getvalue()))
        assert answer.status_code == status
        assert status != 200 or answer.json()["results"][0]["verdict"] in ("ID", "OOD")


def test_pictures_and_rows_of_a_request(address: str) -> None:
    refused(address, 422, "more than 3 pictures", files=form(*[png(picture(0))] * 4))
    refused(address, 422, "51 rows, more than 50", content=npy(np.zeros((51, WIDTH), "f4")), headers=NPY)
    rows = b"[%s]" % b",".join([b"[1,1]"] * 51)
    refused(address, 422, "51 rows", content=b'{"features": %s}' % rows, headers=JSON)


@pytest.mark.parametrize(
    ("status", "said", "body"),
    [
        (400, "not JSON", b"{"),
        (400, "not JSON", b"\xff\xfe{"),
        (400, "not JSON", b"[" * 15_000),
        (400, "not JSON", b'{"features": [[' + b"9" * 5_000 + b"]]}"),
        (400, "a name stands twice", b'{"features": [[1]], "features": [[2]]}'),
        (422, "nothing else", b"[]"),
        (422, "nothing else", b'{"features": [[1]], "false_alarm_rate": 0.1}'),
        (422, "a list of rows", b'{"features": "abc"}'),
        (422, "a list of rows", b'{"features": [1, 2]}'),
        (422, "hold no row", b'{"features": []}'),
        (422, "width 1, but the guard was fitted on width 16", b'{"features": [[1]]}'),
        (
            422,
            "width 15, 16",
            b'{"features": [%s, %s]}' % (b"[" + b"1," * 15 + b"1]", b"[" + b"1," * 14 + b"1]"),
        ),
        (422, "features[0] holds something that is no number", b'{"features": [[' + b"1," * 15 + b'"1"]]}'),
        (422, "features[0] holds something that is no number", b'{"features": [[' + b"1," * 15 + b"true]]}"),
        (422, "features[0] holds something that is no number", b'{"features": [[' + b"1," * 15 + b"null]]}"),
        (422, "beyond float64", b'{"features": [[' + b"1," * 15 + b"9" * 400 + b"]]}"),
    ],
)
def test_json_that_is_something_else(address: str, status: int, said: str, body: bytes) -> None:
    refused(address, status, said, content=body, headers=JSON)


def pickled() -> bytes:
    file = io.BytesIO()
    np.save(file, np.array([[{"a": 1}]], dtype=object), allow_pickle=True)
    return file.getvalue()


@pytest.mark.parametrize(
    ("status", "said", "body"),
    [
        (400, "not a NumPy file", b""),
        (400, "not a NumPy file", b"abc"),
        (400, "not plain numbers", pickled()),
        (400, "not a NumPy file", pickle.dumps([1])),
        (400, "bytes follow", npy(np.zeros((2, WIDTH), "f4"))[:-1]),
        (400, "bytes follow", npy(np.zeros((2, WIDTH), "f4")) + b"0"),
        (422, "expected features (N, 16)", npy(np.zeros(WIDTH, "f4"))),
        (422, "floating-point numbers", npy(np.zeros((2, WIDTH), "i4"))),
        (422, "floating-point numbers", npy(np.zeros((2, WIDTH), "c8"))),
        (422, "hold no row", npy(np.zeros((0, WIDTH), "f4"))),
        (422, "width 17", npy(np.zeros((2, 17), "f4"))),
    ],
)
def test_npy_that_is_something_else(address: str, status: int, said: str, body: bytes) -> None:
    refused(address, status, said, content=body, headers=NPY)


def test_an_array_that_promises_too_much(address: str) -> None:
    body = npy(np.zeros((2, WIDTH), "f4")).replace(b"(2, 16)", b"(2000000000, 16)").replace(b" " * 9, b"", 1)
    refused(address, 400, "damaged", content=body, headers=NPY)


def test_forms_that_are_something_else(address: str) -> None:
    kind = {"content-type": "multipart/form-data; boundary=b"}
    head = b'--b\r\nContent-Disposition: form-data; name="pictures"; filename="a"\r\n\r\n'
    refused(address, 422, "a field 'file'", files=form(png(picture(0)), field="file"))
    refused(address, 422, "'false_alarm_rate'", files=form(png(picture(0))), data={"false_alarm_rate": "0.1"})
    text = b'--b\r\nContent-Disposition: form-data; name="pictures"\r\n\r\ncat.jpg\r\n--b--\r\n'
    refused(address, 422, "a text, not a file", content=text, headers=kind)
    refused(address, 400, "boundary", content=b"", headers={"content-type": "multipart/form-data"})
    refused(address, 400, "cut off", content=head + b"abc", headers=kind)
    refused(address, 400, "cut off", content=b"", headers=kind)
    refused(address, 400, "cannot be read", content=b"something", headers=kind)
    refused(address, 422, "no picture", content=b"--b--\r\n", headers=kind)


def test_types_and_parameters(address: str) -> None:
    body = npy(features_of_noise()[:1].numpy())
    refused(address, 415, "got 'text/plain'", content=b"abc", headers={"content-type": "text/plain"})
    refused(address, 415, "Content-Encoding", content=body, headers={**NPY, "content-encoding": "gzip"})
    for query, said in (
        ("?false_alarm_rate=1.5", "false_alarm_rate"),
        ("?false_alarm_rate=0.0001", "false_alarm_rate"),
        ("?false_alarm_rate=nan", "false_alarm_rate"),
        ("?false_alarm_rate=x", "false_alarm_rate"),
        ("?false_alarm=0.1", "'false_alarm' is not known"),
        ("?explain=1&explain=0", "'explain' stands twice"),
    ):
        refused(address, 422, said, query, content=body, headers=NPY)


def gated(judging: Judging) -> threading.Event:
    """From now on batches are judged only once the event is set."""
    real, may = judging.judge, threading.Event()

    def judge(inputs: Tensor, *, explain: bool) -> list[Judged]:
        assert may.wait(60)
        return real(inputs, explain=explain)

    judging.judge = judge  # type: ignore[method-assign]
    return may


def test_a_full_queue_says_when_to_come_back() -> None:
    """While one batch takes its time three others may wait; who comes then is told to come back."""
    body = form(png(picture(0)))
    service = Service(judging_of(picture_guard()), bounds=Bounds(queue=4, batch=1, answer_seconds=60))
    with live(service) as address, ThreadPoolExecutor(12) as pool:
        may = gated(service.judging)
        asked = [pool.submit(httpx.post, f"{address}/v1/score", files=body, timeout=60) for _ in range(12)]
        told = list(islice((future.result() for future in as_completed(asked)), 8))
        more = httpx.post(f"{address}/v1/score", files=form(*[png(picture(0))] * 5), timeout=60)
        may.set()
        assert {answer.status_code for answer in (*told, more)} == {503}
        assert {answer.headers["retry-after"] for answer in told} == {"1"}
        assert "4 of at most 4 samples are waiting" in told[0].json()["detail"]
        assert sorted(future.result().status_code for future in asked) == [200] * 4 + [503] * 8
        assert httpx.post(f"{address}/v1/score", files=body, timeout=60).status_code == 200
        assert "theodolite_queue_depth 0.0" in httpx.get(f"{address}/metrics").text


def test_an_answer_that_takes_too_long() -> None:
    body = form(png(picture(0)))
    service = Service(judging_of(picture_guard()), bounds=Bounds(answer_seconds=0.3))
    with live(service) as address:
        may = gated(service.judging)
        late = httpx.post(f"{address}/v1/score", files=body, timeout=20)
        may.set()
        assert late.status_code == 503
        assert "no answer within 0.3 seconds" in late.json()["detail"]
        assert late.headers["retry-after"] == "1"
        while httpx.post(f"{address}/v1/score", files=body, timeout=20).status_code == 503:
            pass  # a busy machine
        assert "theodolite_queue_depth 0.0" in httpx.get(f"{address}/metrics").text


def test_bytes_of_all_requests_together() -> None:
    bounds = Bounds(waiting_bytes=50_000)
    with live(Service(judging_of(picture_guard()), bounds=bounds)) as address:
        answer = httpx.post(f"{address}/v1/score", content=pieces(60_000), headers=NPY)
        assert answer.status_code == 503
        assert "of other requests" in answer.json()["detail"]
        for _ in range(3):
            assert httpx.post(f"{address}/v1/score", content=bytes(40_000), headers=NPY).status_code == 400


def test_bounds_must_be_possible() -> None:
    assert Bounds().request_bytes == 32 * MEBIBYTE
    for wrong in (
        {"rows": 0},
        {"body_seconds": 0.0},
        {"batch_seconds": -1.0},
        {"answer_seconds": float("nan")},
    ):
        with pytest.raises(InputError, match=next(iter(wrong))):
            Bounds(**wrong)
    with pytest.raises(InputError, match="at most 178,956,970"):
        Bounds(pixels=10**9)


def test_two_refusals_of_one_request_are_one(address: str) -> None:
    refused(address, 413, "10,000 pixels", files=form(bomb(200, 200), png(picture(0)), bomb(300, 300)))
