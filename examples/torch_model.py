"""A torch model: its features and its head are found by looking at one forward pass, then ORA guards it.

The model knows digits; pictures of them lying on their side are out of distribution.
Install: pip install theodolite scikit-learn
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

import theodolite as th

pixels, digits = load_digits(return_X_y=True)
images, labels = torch.tensor(pixels / 16, dtype=torch.float32), torch.tensor(digits)
train, train_labels, held_out = images[:1200], labels[:1200], images[1200:]
sideways = held_out.reshape(-1, 8, 8).rot90(dims=(1, 2)).flatten(1)

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))
optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(200):
    optimiser.zero_grad()
    nn.functional.cross_entropy(model(train), train_labels).backward()  # type: ignore[no-untyped-call]
    optimiser.step()

capture = th.Capture(model.eval())
features, logits = capture(train)
print(f"head: {capture.layer!r}, {capture.head.classes} classes, features of width {capture.head.width}")
print(f"accuracy on the training digits: {(logits.argmax(1) == train_labels).float().mean():.3f}")

detector = th.ORA().fit(features, train_labels, head=capture.head)
calibration = th.Calibration(detector.score(capture(held_out)[0]))
scores = detector.score(capture(sideways)[0])
for score, p, digit in zip(scores[:5], calibration.p_values(scores)[:5], labels[1200:1205], strict=True):
    print(f"a {digit} on its side: largest angle {float(score):.3f} rad, p-value {float(p):.3f}")
flagged = calibration.is_ood(scores, false_alarm_rate=0.05).float().mean()
print(f"flagged at a false-alarm rate of 5 %: {flagged:.0%} of the sideways digits")
