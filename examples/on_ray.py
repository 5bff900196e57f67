"""Ray: features in files are fitted and judged by processes of a cluster, with the verdicts of one machine.

Here Ray runs on this machine while it is needed; `th.RayEngine("auto")`, or an address, is a cluster.
Install: pip install 'theodolite[ray]' scikit-learn
"""

import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import theodolite as th
from theodolite.features import save_probe

pixels, digits = load_digits(return_X_y=True)
pixels = (pixels / 16).astype("float32")
classifier = LogisticRegression(max_iter=2000).fit(pixels[:800], digits[:800])

with tempfile.TemporaryDirectory() as folder:
    train, held_out, new = (Path(folder, f"{name}.npz") for name in ("train", "held_out", "new"))
    np.savez(train, features=pixels[:800], labels=digits[:800])
    np.savez(held_out, features=pixels[800:1400], labels=digits[800:1400])
    np.savez(
        new, features=np.concatenate([pixels[1400:1500], 1 - pixels[1500:1600]])
    )  # digits, then negatives
    head = Path(folder, "head.safetensors")
    save_probe(th.Head(classifier.coef_, classifier.intercept_), head)

    running = th.Running(engine=th.RayEngine(concurrency=1))
    settings = th.ExtractionSettings(running=running)
    fitted = th.fit_guard(train, head=head, calibration=held_out, detector="ora", settings=settings)
    print(f"fitted on {fitted.fitted_on} rows, calibrated on {len(fitted.guard.calibration)}")
    tally = th.score_on_ray(fitted.guard, new, Path(folder, "scores.parquet"), running=running)
    print(
        f"of 100 digits and 100 negatives: {tally.verdicts['ID']} familiar, {tally.verdicts['OOD']} flagged"
    )
