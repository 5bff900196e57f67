"""Shaped scores: ReAct, ASH and Scale change the features before a score looks at them; any score takes them.

Statistics are collected on the shaped features and logits are computed from them.
Install: pip install theodolite
"""

import torch

import theodolite as th

# Features like those behind a ReLU: each class excites a few units, outliers excite others, abnormally.
torch.manual_seed(0)
classes, width = 10, 256
prototypes = (torch.randn(classes, width) * 0.8).relu()


def draw(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    labels = torch.randint(classes, (rows,))
    return (prototypes[labels] + torch.randn(rows, width)).relu(), labels


train, train_labels = draw(2000)
test, _ = draw(500)
spikes = torch.where(torch.rand(500, width) < 0.03, 12 * torch.rand(500, width), torch.zeros(500, width))
unknown = (prototypes.mean(dim=0) + torch.randn(500, width)).relu() + spikes
weight = prototypes - prototypes.mean(dim=0)
head = th.Head(weight / width**0.5)

detectors = [
    score(shaping=shaping)
    for score in (th.ORA, th.Energy)
    for shaping in (None, th.ReAct(percentile=90), th.ASHS(percentile=35), "scale:85")
]
th.fit_many(detectors, train, train_labels, head=head)
for detector in detectors:
    shaping = detector.shaping.spec if detector.shaping else "plain"
    area = th.auroc(detector.score(test), detector.score(unknown))
    print(f"{detector.record.title:>6} {shaping:<9} AUROC {area:.3f}")
