"""The service under load: sixteen clients, real pictures, one request in twenty of them broken.

    python speed/serve_load.py [--requests 400] [--clients 16]

A service of its own on this machine's loopback address, which ends with the script. Every answer is compared
with the guard's own verdicts on the same pictures; throughput is a ratio to the bare model's batched forward
pass in the same run. Exit code 1 if a promise is broken.
"""

from __future__ import annotations

import argparse
import http.client
import io
import json
import os
import random
import re
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import skimage
import torch
from PIL import Image

from theodolite import Guard
from theodolite.models import load_model
from timing import report, seconds

PHOTOGRAPHS = ("astronaut", "brick", "chelsea", "coffee", "grass", "gravel", "ihc", "moon", "motorcycle_left")
CROPS, SIDE, BATCH, MOST = 6, 320, 32, 4
BROKEN = 0.05
REST = 3.0
QUARTERS = 4
SAME = 2e-4  # relative difference of scores that the make-up of a batch explains
SEED = 0
BOUNDARY = b"--------theodolite"
BYTES = 4 * 2**20


class Picture(NamedTuple):
    """A picture as it is sent, and what the guard says of it."""

    content: bytes
    predicted: int
    score: float


@dataclass
class Tally:
    """What became of the requests."""

    pictures: int = 0
    mixed: int = 0
    lost: int = 0
    wrong_status: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)


def pictures(guard: Guard) -> list[Picture]:
    """Crops of the photographs of scikit-image as JPEG, and the verdicts on them one by one."""
    rng = random.Random(SEED)
    made = []
    for name in PHOTOGRAPHS:
        photograph = Image.open(Path(skimage.__file__).parent / "data" / f"{name}.png").convert("RGB")
        for _ in range(CROPS):
            left, top = rng.randrange(photograph.width - 280), rng.randrange(photograph.height - 280)
            file = io.BytesIO()
            photograph.crop((left, top, left + 280, top + 280)).resize((SIDE, SIDE)).save(
                file, "JPEG", quality=90
            )
            said = guard.verdicts([Image.open(io.BytesIO(file.getvalue()))])
            made.append(Picture(file.getvalue(), int(said.predicted[0]), float(said.score[0])))
    made = [one for place, one in enumerate(made) if not any(alike(one, other) for other in made[:place])]
    print(f"{len(made)} pictures that can be told apart by what the guard says of them")
    return made


def alike(one: Picture, other: Picture) -> bool:
    return one.predicted == other.predicted and abs(one.score / other.score - 1) < 10 * SAME


def form(parts: list[bytes]) -> bytes:
    head = b'--%s\r\nContent-Disposition: form-data; name="pictures"; filename="%d.jpg"\r\n\r\n'
    pieces = [head % (BOUNDARY, place) + part + b"\r\n" for place, part in enumerate(parts)]
    return b"".join(pieces) + b"--%s--\r\n" % BOUNDARY


FORM = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY.decode()}"}
NPY = {"Content-Type": "application/x-npy"}


@contextmanager
def served(guard: str) -> Iterator[tuple[str, int]]:
    """A service in a process of its own."""
    command = [sys.executable, "-m", "theodolite", "serve", guard, "--port", "0", "--max-bytes", str(BYTES)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        found = re.search(r"http://(\S+):(\d+)", process.stderr.readline())
        assert found is not None, process.stderr.read()
        place = found[1], int(found[2])
        while fetched(place, "/readyz")[0] != 200:
            time.sleep(0.1)
        yield place
        alive = process.poll() is None
        process.terminate()
        code = process.wait(60)
        said = process.stderr.read()
        if not alive or code != 0 or "Traceback" in said:
            raise SystemExit(f"the service ended badly, exit code {code}:\n{said}")
    finally:
        process.kill()
        process.wait()


def fetched(place: tuple[str, int], path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(*place, timeout=60)
    connection.request("GET", path)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def metric(place: tuple[str, int], name: str) -> float:
    found = re.search(rf"^{re.escape(name)} (\S+)$", fetched(place, "/metrics")[1], re.M)
    assert found is not None, name
    return float(found[1])


def resident(place: tuple[str, int]) -> float:
    """The memory in MiB of a service that has rested: what is free it has given back by then."""
    time.sleep(REST)
    return metric(place, "process_resident_memory_bytes") / 2**20


def client(place: tuple[str, int], number: int, requests: int, made: list[Picture], tally: Tally) -> None:
    """So many requests on one connection, which is made again where a broken one has cost it."""
    rng = random.Random(1000 * SEED + number)
    connection = http.client.HTTPConnection(*place, timeout=120)
    for _ in range(requests):
        if rng.random() < BROKEN:
            connection.close()
            broken(place, rng, made, tally)
            continue
        chosen = [rng.choice(made) for _ in range(rng.randint(1, MOST))]
        try:
            connection.request("POST", "/v1/score", form([one.content for one in chosen]), FORM)
            answer = connection.getresponse()
            said = json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            connection.close()
            with tally.lock:
                tally.lost += 1
                tally.wrong_status[type(error).__name__] += 1
            continue
        with tally.lock:
            judge(tally, chosen, answer.status, said)
    connection.close()


def judge(tally: Tally, chosen: list[Picture], status: int, said: dict[str, list[dict[str, object]]]) -> None:
    """Whether each picture of a request has its own answer."""
    if status != 200 or len(said["results"]) != len(chosen):
        tally.lost += 1
        tally.wrong_status[str(status)] += 1
        return
    tally.pictures += len(chosen)
    for place, (one, entry) in enumerate(zip(chosen, said["results"], strict=True)):
        score = float(str(entry["score"]))
        own = (
            entry["index"] == place
            and entry["name"] == f"{place}.jpg"
            and entry["predicted"] == one.predicted
        )
        tally.mixed += not (own and abs(score / one.score - 1) < SAME)


def broken(place: tuple[str, int], rng: random.Random, made: list[Picture], tally: Tally) -> None:
    """A request that is malformed, too large or cut off; each has an answer that it must get."""
    picture = rng.choice(made).content
    whole = form([picture])
    kinds: list[tuple[bytes, dict[str, str], int]] = [
        (b"\x93NUMPY\x01\x00", NPY, 400),
        (b'{"features": [[1, 2]]}', {"Content-Type": "application/json"}, 422),
        (b'{"features"', {"Content-Type": "application/json"}, 400),
        (whole[:-20], FORM, 400),
        (form([picture[: len(picture) // 2]]), FORM, 200),
        (bytes(BYTES + 1), FORM, 413),
        (picture, {"Content-Type": "image/jpeg"}, 415),
    ]
    choice = rng.randrange(len(kinds) + 2)
    if choice >= len(kinds):  # a client that vanishes within its header or its body
        head = b"POST /v1/score HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n" % len(whole)
        head += f"Content-Type: {FORM['Content-Type']}\r\n\r\n".encode()
        with socket.create_connection(place, timeout=60) as gone:
            gone.sendall(head[:60] if choice == len(kinds) else head + whole[: len(whole) // 2])
        return
    body, headers, expected = kinds[choice]
    connection = http.client.HTTPConnection(*place, timeout=120)
    try:
        connection.request("POST", "/v1/score", body, headers)
        answer = connection.getresponse()
        said = json.loads(answer.read())
        unread = expected == 200 and [entry["verdict"] for entry in said["results"]] != ["unreadable"]
        if answer.status != expected or unread:
            with tally.lock:
                tally.wrong_status[f"{answer.status} for {expected}"] += 1
    except (OSError, http.client.HTTPException, ValueError) as error:
        with tally.lock:
            tally.wrong_status[f"{type(error).__name__} for {expected}"] += 1
    finally:
        connection.close()


def load(place: tuple[str, int], requests: int, clients: int, made: list[Picture], tally: Tally) -> float:
    """The seconds that all requests together take."""
    share = requests // clients
    threads = [threading.Thread(target=client, args=(place, n, share, made, tally)) for n in range(clients)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - started


def forward_rate(model: torch.nn.Module, rounds: int = 3) -> float:
    """Pictures a second of the bare model, in batches."""
    images = torch.rand(BATCH, 3, 224, 224)
    with torch.no_grad():
        model(images)
        return BATCH / statistics.median(seconds(lambda: model(images)) for _ in range(rounds))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--clients", type=int, default=16)
    asked = parser.parse_args()
    guard = Guard.load("imagenet-lite0").attach(load_model("lite0"))
    made, tally = pictures(guard), Tally()
    model = guard.model
    assert model is not None
    with served("imagenet-lite0") as place:
        # Until it has seen batches of every size the model takes more; from then on memory is flat.
        load(place, asked.requests // 4, asked.clients, made, Tally())
        rates, memory, took = [forward_rate(model)], [resident(place)], 0.0
        for _ in range(QUARTERS):
            took += load(place, asked.requests // QUARTERS, asked.clients, made, tally)
            rates.append(forward_rate(model))
            memory.append(resident(place))
        size = metric(place, "theodolite_batch_size_sum") / metric(place, "theodolite_batch_size_count")
        flagged = metric(place, 'theodolite_verdicts_total{verdict="OOD"}')
    served_rate, bare = tally.pictures / took, float(np.median(rates))
    print(
        f"{asked.requests:,} requests of {asked.clients}: {tally.pictures:,} pictures, {flagged:.0f} flagged"
    )
    print(
        f"{served_rate:.1f} pictures/s served, {bare:.1f} pictures/s by the bare model, batches of {size:.1f}"
    )
    print(f"memory of the service after each quarter: {', '.join(f'{one:.0f}' for one in memory)} MiB")
    for problem, count in tally.wrong_status.items():
        print(f"unexpected: {problem}, {count} times")
    kept = report("answers that were lost", tally.lost, "", limit=0)
    kept &= report("answers that were another picture's", tally.mixed, "", limit=0)
    kept &= report("answers with an unexpected status", sum(tally.wrong_status.values()), "", limit=0)
    kept &= report("growth of the service's memory", memory[-1] - memory[0], "MiB", limit=64)
    kept &= report(
        "pictures served / pictures of the bare forward", served_rate / bare, "x", limit=0.8, at_least=True
    )
    return 0 if kept else 1


if __name__ == "__main__":
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    raise SystemExit(main())
