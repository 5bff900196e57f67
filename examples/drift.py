"""Drift: single verdicts do not tell whether the stream has changed; a monitor does, with a promise.

The classifier knows digits. After 300 of them the camera grows noisy, and a tenth of the pictures is damaged.
Install: pip install theodolite scikit-learn
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import theodolite as th

pixels, digits = load_digits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(digits))
pixels, digits = (pixels[order] / 16).astype("float32"), digits[order]
train, held_out, stream = pixels[:600], pixels[600:1200], pixels[1200:].copy()

classifier = LogisticRegression(max_iter=2000).fit(train, digits[:600])
head = th.Head(classifier.coef_, classifier.intercept_)
guard = th.Guard.fit(train, digits[:600], head=head, calibration=held_out)

rng = np.random.default_rng(1)
damaged = np.flatnonzero((np.arange(len(stream)) >= 300) & (rng.random(len(stream)) < 0.1))
stream[damaged] += rng.normal(0, 0.5, (len(damaged), 64)).astype("float32")

monitor = guard.monitor(
    alarm=0.01
)  # while nothing changes, an alarm with probability 1 % at most, however long
for start in range(0, len(stream), 50):
    batch = stream[start : start + 50]
    verdicts = guard.verdicts(batch)
    reading = monitor.update(verdicts.score)
    flagged = np.asarray(verdicts.is_ood).mean()
    print(f"{start + len(batch):>4} samples: {flagged:>4.0%} flagged, evidence 10^{reading.evidence:+.1f}")
    if reading.alarmed_at is not None:
        print(f"alarm at sample {reading.alarmed_at}: the stream is no longer like the calibration data")
        break
