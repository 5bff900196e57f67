"""Where a training is, on disk: weights, the optimiser's memory and the place in the data, in one file.

The file is written whole or not at all, so a training that is killed finds the last one; and it is tensors
and JSON, so that opening it runs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from ..core.errors import InputError
from ..core.files import read_tensors, undamaged, write_tensors
from ..core.plain import JsonObject, JsonValue, from_plain, to_plain

FORMAT = "theodolite-training/1"
_NETWORK, _PROJECTION, _OPTIMISER = "network.", "projection.", "optimiser."


@dataclass(frozen=True)
class Place:
    """The step that comes next; ``losses`` are of the epochs done, ``total`` and ``seen`` of this one."""

    epoch: int = 0
    step: int = 0
    total: float = 0.0
    seen: int = 0
    losses: tuple[float, ...] = ()


@dataclass(frozen=True)
class Learners:
    """All that changes while a network learns."""

    network: nn.Module
    projection: nn.Module | None
    optimiser: torch.optim.Optimizer

    def tensors(self) -> dict[str, Tensor]:
        """Every number of it by name; copies, because layers may share theirs."""
        found = {_NETWORK + name: value for name, value in weights_of(self.network).items()}
        if self.projection is not None:
            found |= {_PROJECTION + name: value for name, value in weights_of(self.projection).items()}
        for index, memory in self.optimiser.state_dict()["state"].items():
            for name, value in memory.items():
                if isinstance(value, Tensor):
                    found[f"{_OPTIMISER}{index}.{name}"] = value.detach().clone()
        return found

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Put all of it back."""
        self.network.load_state_dict(_below(tensors, _NETWORK))
        if self.projection is not None:
            self.projection.load_state_dict(_below(tensors, _PROJECTION))
        memory: dict[int, dict[str, Tensor]] = {}
        for name, value in _below(tensors, _OPTIMISER).items():
            index, _, part = name.partition(".")
            memory.setdefault(int(index), {})[part] = value
        groups = self.optimiser.state_dict()["param_groups"]
        self.optimiser.load_state_dict({"state": memory, "param_groups": groups})


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Copies of a model's weights by name, without what modules keep beside them."""
    return {
        name: value.detach().clone()
        for name, value in model.state_dict().items()
        if isinstance(value, Tensor)
    }


def save(path: Path, learners: Learners, place: Place, plan: Mapping[str, JsonValue]) -> None:
    """Write the state; the one before stays until this one is whole."""
    write_tensors(path, learners.tensors(), {"format": FORMAT, "plan": plan, "place": to_plain(place)})


def resume(path: Path, learners: Learners, plan: Mapping[str, JsonValue]) -> Place:
    """The place that a file of ours stopped at, its state put back; a training of another plan is refused."""
    tensors, said = read_tensors(path, FORMAT)
    require_same_plan(said.get("plan"), plan, path)
    with undamaged(path, "remove it, and the training begins anew"):
        learners.restore(tensors)
        return from_plain(Place, said.get("place"), "place")


def require_same_plan(stored: JsonValue, asked: Mapping[str, JsonValue], path: Path) -> None:
    """Refuse to go on with another training than the one that was begun."""
    known, wanted = (_flat(part) if isinstance(part, Mapping) else {} for part in (stored, asked))
    for name, value in wanted.items():
        if known.get(name) != value:
            raise InputError(
                f"{path} is of another training: its {name} is {known.get(name)!r}, asked for is {value!r}. "
                f"Choose another --output, or remove it to begin anew"
            )


def _flat(content: Mapping[str, JsonValue], prefix: str = "") -> JsonObject:
    """Entries by their dotted names."""
    found: JsonObject = {}
    for name, value in content.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{prefix}{name}.")
        else:
            found[prefix + name] = list(value) if isinstance(value, tuple) else value
    return found


def _below(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
