"""What of the paper's own data and checkpoints is here, and the subjects that they make."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from ..benchmarks.extraction import Extraction
from ..benchmarks.protocols import Protocol, ProtocolSet, protocol
from ..benchmarks.subject import Subject
from ..features.settings import Running
from ..models import find_backbone, weights_present
from .experiments import Context

# A protocol, and a backbone by its name in the paper's tables.
Pair: TypeAlias = tuple[str, str]


def missing_of(pairs: Sequence[Pair], root: Path | None) -> list[str]:
    """Data sets and checkpoints that are not here, each once."""
    lines = [
        f"{part.dataset} ({part.split}): {found.detail}"
        for name in dict.fromkeys(name for name, _ in pairs)
        for part in protocol(name).sets
        if (found := part.locate(root)) is not None and not found.present
    ]
    return list(dict.fromkeys(lines)) + [
        f"checkpoint of {backbone}: {_checkpoint(backbone)}"
        for backbone in dict.fromkeys(backbone for _, backbone in pairs)
        if not _here(backbone)
    ]


def runs(pair: Pair, root: Path | None) -> bool:
    """Whether its ID data, some OOD set and its checkpoint are all here."""
    name, backbone = pair
    return _here(backbone) and _id_and_some_ood(protocol(name), root)


def paper_subject(pair: Pair, context: Context) -> Subject:
    """The features of a protocol's sets under a backbone."""
    name, backbone = pair
    running = Running(channels_last=False)  # results are compared to the last digit
    extraction = Extraction(protocol(name), context.cache, context.root, running, say=context.say)
    card = find_backbone(backbone)
    return extraction.subject(backbone if card is None else card.alias)


def _id_and_some_ood(chosen: Protocol, root: Path | None) -> bool:
    def present(part: ProtocolSet) -> bool:
        found = part.locate(root)
        return found is not None and found.present

    return present(chosen.fit) and present(chosen.test) and any(present(part) for part in chosen.ood)


def _here(backbone: str) -> bool:
    card = find_backbone(backbone)
    return card is not None and weights_present(card.spec)


def _checkpoint(backbone: str) -> str:
    card = find_backbone(backbone)
    return "no public checkpoint is known" if card is None else f"{card.spec} is not on this machine"
