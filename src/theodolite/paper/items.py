"""The paper's tables and figures: what each needs, what of it is here, and what stands in for it.

A table of the paper runs for real where its data sets and checkpoints are present. Where they are not, the
experiments named beside it ask the same question of the data at hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .. import published
from ..benchmarks.extraction import Extraction
from ..benchmarks.joining import join
from ..benchmarks.protocols import Protocol, ProtocolSet, find_protocol, protocol
from ..benchmarks.runner import run
from ..core.errors import InputError
from ..detectors.spec import DetectorSpec, Option, Settings, parse_spec
from ..features.settings import Running
from ..models import find_backbone, weights_present
from ._figure_registry import paper_figures
from .experiments import Context, Experiment, Produced, experiments
from .studies import RunStudy

# Tables whose question an experiment on the data at hand asks; of the others, every score at hand.
STAND_INS = {
    "aggregation": ("aggregation",),
    "centring": ("centring",),
    "statistics-cifar10": ("centring",),
    "statistics-imagenet": ("centring",),
    "shaping": ("shaping",),
    "shaping-extended": ("shaping",),
    "react-cifar10": ("shaping",),
    "react-imagenet": ("shaping",),
    "ensemble": ("ensemble",),
    "ensemble-extended": ("ensemble",),
    "mnist-distances": ("mnist",),
    "near-ood": (),
}
_OTHERWISE = ("all-scores",)
# What a published table says of a cell that is no option of its detector.
_NOT_OPTIONS = {"head", "ensemble", "shaping", "percentile"}
# Averages over backbones, and the network that no protocol knows.
_NO_BACKBONES = (None, published.AVERAGE, "lenet5")


@dataclass(frozen=True)
class Item:
    """A table or figure of the paper."""

    name: str
    title: str
    label: str | None
    pairs: tuple[tuple[str, str], ...]
    stand_ins: tuple[str, ...]

    def missing(self, root: Path | None) -> list[str]:
        """Data sets and checkpoints that are not here, each once."""
        wanted = dict.fromkeys(name for name, _ in self.pairs)
        lines = [
            f"{part.dataset} ({part.split}): {found.detail}"
            for name in wanted
            for part in protocol(name).sets
            if (found := part.locate(root)) is not None and not found.present
        ]
        return list(dict.fromkeys(lines)) + [
            f"checkpoint of {backbone}: {_checkpoint(backbone)}"
            for backbone in dict.fromkeys(backbone for _, backbone in self.pairs)
            if not _here(backbone)
        ]

    def runnable(self, root: Path | None) -> list[tuple[str, str]]:
        """The (protocol, backbone) pairs whose ID data, some OOD set and checkpoint are all here."""
        return [
            (name, backbone)
            for name, backbone in self.pairs
            if _here(backbone) and _id_and_some_ood(protocol(name), root)
        ]


def items() -> dict[str, Item]:
    """Every table and figure of the paper, by name."""
    known = {}
    for name in published.list_tables():
        table = published.load_table(name)
        pairs = {
            (str(cell.protocol), member)
            for cell in table.cells()
            for member in _members(cell)
            if find_protocol(cell.protocol) is not None
        }
        stand_ins = STAND_INS.get(name, _OTHERWISE)
        known[name] = Item(name, table.title, table.label, tuple(sorted(pairs)), stand_ins)
    for name, figure in paper_figures().items():
        known[name] = Item(name, figure.title, name, (), figure.stand_ins)
    return known


def resolve(names: Sequence[str]) -> tuple[list[Item], list[Experiment]]:
    """The paper's items and the experiments that names ask for; ``all`` is every experiment."""
    chosen: dict[str, Item] = {}
    wanted: dict[str, Experiment] = {}
    known, tried = items(), experiments()
    labels = {item.label: item for item in known.values() if item.label}
    for name in names:
        if name == "all":
            wanted.update(tried)
            continue
        if name in tried:
            wanted[name] = tried[name]
        item = known.get(name) or labels.get(name)
        if item is not None:
            chosen[item.name] = item
            wanted.update({stand_in: tried[stand_in] for stand_in in item.stand_ins})
        elif name not in tried:
            raise InputError(
                f"nothing is called {name!r}; tables and figures: {', '.join(known)}; "
                f"experiments: all, {', '.join(tried)}"
            )
    return list(chosen.values()), list(wanted.values())


def run_item(item: Item, context: Context) -> Produced:
    """The paper's own table, for the pairs that can run; one study a protocol."""
    produced = {}
    pairs = item.runnable(context.root)
    for name in dict.fromkeys(name for name, _ in pairs):
        chosen = protocol(name)
        running = Running(channels_last=False)  # results are compared to the last digit
        extraction = Extraction(chosen, context.cache, context.root, running, say=context.say)
        subjects = [extraction.subject(_alias(backbone)) for where, backbone in pairs if where == name]
        result = run(
            subjects,
            table_specs(item.name, name, chosen.settings),
            title=f"{item.title} ({name})",
            command=f"theodolite reproduce {item.name}",
            ensemble=item.name.startswith("ensemble") and len(subjects) > 1,
            cache=context.scores,
        )
        produced[f"{item.name}-{name}"] = RunStudy(join(result))
    return produced


def table_specs(table: str, protocol_name: str, settings: Settings) -> list[DetectorSpec]:
    """The scores that a table of the paper compares on a protocol."""
    specs: dict[str, DetectorSpec] = {}
    for cell in published.load_table(table).cells():
        if cell.detector is not None and cell.protocol == protocol_name:
            spec = _spec_of(cell, settings)
            specs.setdefault(spec.label, spec)
    return list(specs.values())


def _spec_of(cell: published.PublishedCell, settings: Settings) -> DetectorSpec:
    plain = parse_spec(str(cell.detector), settings=settings)
    chosen: dict[str, Option] = {
        key: value
        for key, value in cell.options.items()
        if key not in _NOT_OPTIONS and published.DEFAULTS.get(key) != value and not isinstance(value, tuple)
    }
    shaping = cell.options.get("shaping")
    if shaping is not None and "percentile" in cell.options:
        shaping = f"{shaping}:{cell.options['percentile']}"
    return DetectorSpec(plain.name, chosen, plain.settings, None if shaping is None else str(shaping))


def _members(cell: published.PublishedCell) -> list[str]:
    """The backbones behind a cell: one, or the members of an ensemble."""
    members = cell.options.get("ensemble", (cell.backbone,))
    assert isinstance(members, tuple)
    return [member for member in members if member is not None and member not in _NO_BACKBONES]


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


def _alias(backbone: str) -> str:
    """The name by which the model of a backbone is loaded."""
    card = find_backbone(backbone)
    return backbone if card is None else card.alias
