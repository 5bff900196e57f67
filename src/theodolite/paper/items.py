"""The paper's tables and figures: what each needs, what of it is here, and what stands in for it.

A table of the paper runs for real where its data sets and checkpoints are present. Where they are not, the
experiments named beside it ask the same question of the data at hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .. import published
from ..benchmarks.joining import join
from ..benchmarks.protocols import find_protocol, protocol
from ..benchmarks.runner import run
from ..core.errors import InputError
from ..detectors.spec import DetectorSpec, Option, Settings, parse_spec
from ._figure_registry import paper_figures
from .experiments import Context, Experiment, Produced, experiments
from .presence import Pair, missing_of, paper_subject, runs
from .probes import probed, wants_probe
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
    pairs: tuple[Pair, ...]
    stand_ins: tuple[str, ...]
    figure: bool = False

    def missing(self, root: Path | None) -> list[str]:
        """Data sets and checkpoints that are not here, each once."""
        return missing_of(self.pairs, root)

    def runnable(self, root: Path | None) -> list[Pair]:
        """The pairs whose ID data, some OOD set and checkpoint are all here."""
        return [pair for pair in self.pairs if runs(pair, root)]


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
        known[name] = Item(name, figure.title, name, figure.pairs, figure.stand_ins, figure=True)
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
        here = [pair for pair in pairs if pair[0] == name]
        subjects = [paper_subject(pair, context) for pair in here]
        subjects += [
            probed(subject, context)
            for subject, (_, backbone) in zip(subjects, here, strict=True)
            if wants_probe(item.name, name, backbone)
        ]
        result = run(
            subjects,
            table_specs(item.name, name, protocol(name).settings),
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
