"""A linear probe at its optimum: multinomial logistic regression, solved by L-BFGS.

    min over W, b of  Σ_i −log softmax_{y_i}(W z_i + b)  +  penalty/2 · ‖W‖²

The loss is convex: with a penalty there is one best head, whatever it starts from, and no rate, batch or seed
to choose. It is that of scikit-learn's LogisticRegression with C = 1/penalty. All in float64; every step is
a pass over the data, of which memory holds one block of a store's shards.
"""

from __future__ import annotations

import warnings

import torch
from torch import Tensor
from torch.nn import functional

from ..core.arrays import ArrayLike
from ..core.errors import InputError, TheodoliteWarning
from ..reference.head import Head
from .probe_data import ProbeData, Told
from .store import FeatureStore

PENALTY, PASSES, TOLERANCE = 1.0, 1000, 1e-6
# Entries of float64 rows and of their logits worked at once.
_TILE_ENTRIES = 2**22
_HISTORY = 20


def solve_probe(
    features: ArrayLike | FeatureStore,
    labels: ArrayLike | None = None,
    *,
    classes: int | None = None,
    penalty: float = PENALTY,
    passes: int = PASSES,
    unit_features: bool = False,
    device: torch.device | str = "cpu",
    progress: Told = lambda _pass, _loss, _accuracy: None,
) -> Head:
    """The best head on features (N, D) and labels (N,), or on a feature store whose samples have labels.

    ``classes`` and ``unit_features`` are as for `train_probe`. Solved is it where no entry of the mean loss's
    gradient is above 1e-6; if that takes more than so many ``passes`` over the data, there is a warning.
    ``progress`` gets the pass (from 1), the mean loss with its penalty, and the accuracy on the data.

    >>> means, labels = 4 * np.eye(3, 8), np.arange(150) % 3
    >>> train = means[labels] + np.random.default_rng(0).normal(size=(150, 8))
    >>> head = th.solve_probe(train, labels)
    >>> answers = head(torch.from_numpy(train)).argmax(dim=1).numpy()
    >>> bool((answers == labels).mean() > 0.95)
    True
    """
    if not penalty >= 0 or passes < 1:
        raise InputError(f"penalty must be 0 or above and passes at least 1, got {penalty} and {passes}")
    data = ProbeData(features, labels, classes, unit_features=unit_features)
    weight = torch.zeros(data.classes, data.width, dtype=torch.float64, device=device, requires_grad=True)
    bias = torch.zeros(data.classes, dtype=torch.float64, device=device, requires_grad=True)
    solver = torch.optim.LBFGS(
        [weight, bias],
        max_iter=passes,
        max_eval=passes,
        tolerance_grad=TOLERANCE,
        tolerance_change=1e-14,
        history_size=_HISTORY,
        line_search_fn="strong_wolfe",
    )
    done = 0

    def objective() -> Tensor:
        nonlocal done
        done += 1
        loss, right, rows = _gradients(data, weight, bias)
        mean = loss / rows + penalty / (2 * rows) * float(weight.detach().square().sum())
        for part in (weight, bias):
            assert part.grad is not None
            part.grad /= rows
        assert weight.grad is not None
        weight.grad += penalty / rows * weight.detach()
        progress(min(done, passes), mean, right / rows)
        return torch.tensor(mean, dtype=torch.float64, device=device)

    solver.step(objective)  # type: ignore[no-untyped-call]
    objective()
    slope = max(float(part.grad.abs().max()) for part in (weight, bias) if part.grad is not None)
    if not slope <= 10 * TOLERANCE:
        warnings.warn(
            f"the linear probe is not solved after {done} passes over the data: its gradient still is "
            f"{slope:.1g}. Remedy: more passes, or a larger penalty (it is {penalty:g})",
            TheodoliteWarning,
            stacklevel=2,
        )
    return Head(weight.detach().float().cpu(), bias.detach().float().cpu(), unit_features=unit_features)


def _gradients(data: ProbeData, weight: Tensor, bias: Tensor) -> tuple[float, int, int]:
    """The summed loss, how many answers are right, and of how many; gradients of the sum are left behind."""
    weight.grad = bias.grad = None
    loss, right, seen = 0.0, 0, 0
    tile = max(1, _TILE_ENTRIES // max(data.width, data.classes))
    for rows, targets in data.in_order(tile):
        batch, wanted = rows.to(weight), targets.to(weight.device)
        logits = torch.addmm(bias, batch, weight.T)
        error = functional.cross_entropy(logits, wanted, reduction="sum")
        error.backward()  # type: ignore[no-untyped-call]
        loss += float(error.detach())
        right += int((logits.detach().argmax(dim=1) == wanted).sum())
        seen += len(batch)
    return loss, right, seen
