"""A service and its client: rows go to an address, verdicts come back; the client needs nothing but Python.

Here both live in one process. As a rule the service is the command `theodolite serve guard.safetensors`.
Install: pip install 'theodolite[serve]' scikit-learn
"""

import contextlib
import json
import socket
import threading
import urllib.error
import urllib.request

import numpy as np
import uvicorn
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import theodolite as th
from theodolite.serve import Service, judging_of, make_app

pixels, digits = load_digits(return_X_y=True)
pixels = (pixels / 16).astype("float32")
classifier = LogisticRegression(max_iter=2000).fit(pixels[:800], digits[:800])
head = th.Head(classifier.coef_, classifier.intercept_)
guard = th.Guard.fit(pixels[:800], digits[:800], head=head, calibration=pixels[800:1600])

listener = socket.create_server(("127.0.0.1", 0))  # any free port
address = f"http://127.0.0.1:{listener.getsockname()[1]}"
app = make_app(Service(judging_of(guard)))  # of features: this guard knows no model
server = uvicorn.Server(uvicorn.Config(app, lifespan="on", log_level="warning"))
thread = threading.Thread(target=server.run, args=([listener],))
thread.start()


def ask(path: str, body: bytes | None = None) -> dict[str, list[dict[str, object]]]:
    """A client: features as JSON, or as the bytes of a .npy file; pictures likewise, as files of a form."""
    request = urllib.request.Request(address + path, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return dict(json.load(answer))


try:
    while True:  # until the guard is loaded
        with contextlib.suppress(urllib.error.HTTPError):
            ask("/readyz")
            break
    strange = np.random.default_rng(0).random((2, 64))
    for what, rows in (("a digit", pixels[1600:1602]), ("noise", strange)):
        answer = ask("/v1/score?false_alarm_rate=0.05", json.dumps({"features": rows.tolist()}).encode())
        for result in answer["results"]:
            print(f"{what}: {result['verdict']}, {result['in_words']}")
finally:
    server.should_exit = True
    thread.join()
