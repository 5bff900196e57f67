"""An ensemble: the scores of several models on the same samples, combined into one.

The models know digits; pictures of them lying on their side are out of distribution.
Install: pip install theodolite scikit-learn
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

import theodolite as th

pixels, digits = load_digits(return_X_y=True)
images, labels = torch.tensor(pixels / 16, dtype=torch.float32), torch.tensor(digits)
train, train_labels, held_out, test = images[:1200], labels[:1200], images[1200:1400], images[1400:]
unknown = test.reshape(-1, 8, 8).rot90(dims=(1, 2)).flatten(1)


def trained(seed: int) -> th.Capture:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(64, 64 + 32 * seed), nn.ReLU(), nn.Linear(64 + 32 * seed, 10))
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-3)
    for _ in range(100):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(train), train_labels).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    capture = th.Capture(model.eval())
    capture(train[:8])  # finds the head
    return capture


members = [trained(seed) for seed in range(3)]
detectors = [th.ORA().fit(member(train)[0], train_labels, head=member.head) for member in members]
known_views, unknown_views = ([member(rows)[0] for member in members] for rows in (test, unknown))
for number, detector in enumerate(detectors):
    area = th.auroc(detector.score(known_views[number]), detector.score(unknown_views[number]))
    print(f"model {number} alone     AUROC {area:.3f}")
for combine in ("sum", "standardised", "p-values"):
    ensemble = th.Ensemble(detectors, combine=combine)
    ensemble.calibrate([member(held_out)[0] for member in members])
    print(f"{combine:<17} AUROC {th.auroc(ensemble.score(known_views), ensemble.score(unknown_views)):.3f}")
