"""LeNet-5 as in the paper's small-data appendix: tanh, average pooling, 84 features before the head."""

from __future__ import annotations

from torch import Tensor, nn

FEATURES = 84


class LeNet5(nn.Module):
    """28×28 grey images in, ``classes`` logits out; ``body`` gives the features, ``head`` is linear.

    ``padding`` of 2 makes them the 32×32 of the original network; the ORA authors' program has none.
    """

    def __init__(self, classes: int, *, padding: int = 2) -> None:
        super().__init__()
        side = (padding + 8) // 2
        self.body = nn.Sequential(
            nn.Conv2d(1, 6, kernel_size=5, padding=padding),
            nn.Tanh(),
            nn.AvgPool2d(2),
            nn.Conv2d(6, 16, kernel_size=5),
            nn.Tanh(),
            nn.AvgPool2d(2),
            nn.Flatten(),
            nn.Linear(16 * side * side, 120),
            nn.Tanh(),
            nn.Linear(120, FEATURES),
            nn.Tanh(),
        )
        self.head = nn.Linear(FEATURES, classes)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.head(self.body(images))
        return logits
