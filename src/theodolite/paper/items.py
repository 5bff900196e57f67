"""The paper's tables and figures: what each needs, what of it is here, and what stands in for it.

A table of the paper runs for real where its data sets and checkpoints are present. Where they are not, the
experiments named beside it ask the same question of the data at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import published
from ..benchmarks.protocols import PROTOCOLS, protocol
from ..benchmarks.runner import run
from ..benchmarks.subject import Extraction
from ..core.errors import InputError
from ..detectors.spec import Entry
from ..models import list_models, weights_present
from .experiments import Context, Experiment, experiments

# Figures have no numbers of their own: they draw the scores of an experiment.
FIGURES = {
    "fig:teaser": "The triangle of centre, feature and projection",
    "fig:sine": "sin α of ID and OOD samples",
    "fig:histograms_angles": "sin α, sin θ and their ratio",
    "fig:model_ensemble_hist": "Scores of single models and of their ensemble",
    "fig:image-grid_cifar": "ORA's scores on CIFAR-10's OOD sets",
    "fig:image-grid_imagenet": "ORA's scores on ImageNet's OOD sets",
}
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
    "fig:teaser": (),
    "fig:sine": ("angles",),
    "fig:histograms_angles": ("angles",),
    "fig:model_ensemble_hist": ("ensemble",),
}
_OTHERWISE = ("all-scores",)
_NOT_OPTIONS = {"head", "ensemble", "shaping", "percentile"}


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
            f"{part.card} ({part.split}): {found.detail}"
            for name in wanted
            for part in protocol(name).parts
            if (found := part.presence(root)) is not None and not found.present
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
            if _here(backbone) and _id_and_some_ood(name, root)
        ]


def items() -> dict[str, Item]:
    """Every table and figure of the paper, by name."""
    known = {}
    for name in published.list_tables():
        table = published.load_table(name)
        pairs = {
            (cell.protocol, member)
            for cell in table.cells()
            for member in cell.options.get("ensemble", [cell.backbone])
            if cell.protocol in PROTOCOLS and member not in (None, published.AVERAGE, "lenet5")
        }
        known[name] = Item(
            name, table.title, table.label, tuple(sorted(pairs)), STAND_INS.get(name, _OTHERWISE)
        )
    for name, title in FIGURES.items():
        known[name] = Item(name, title, name, (), STAND_INS.get(name, _OTHERWISE))
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


def run_item(item: Item, context: Context) -> dict[str, dict[str, Any]]:
    """The paper's own table, for the pairs that can run; one results dictionary a protocol."""
    produced = {}
    pairs = item.runnable(context.root)
    for name in dict.fromkeys(name for name, _ in pairs):
        chosen = protocol(name)
        extraction = Extraction(chosen, context.cache, context.root, say=context.say)
        subjects = [extraction.subject(backbone) for where, backbone in pairs if where == name]
        entries = table_entries(item.name, name, chosen.options)
        produced[f"{item.name}-{name}"] = run(
            subjects,
            entries,
            title=f"{item.title} ({name})",
            command=f"theodolite reproduce {item.name}",
            ensemble=item.name.startswith("ensemble") and len(subjects) > 1,
            cache=context.cache / "scores",
        ).results
    return produced


def table_entries(table: str, protocol_name: str, settings: Mapping[str, Mapping[str, Any]]) -> list[Entry]:
    """The scores that a table of the paper compares on a protocol."""
    entries: dict[str, Entry] = {}
    for cell in published.load_table(table).cells():
        if cell.detector is None or cell.protocol != protocol_name:
            continue
        chosen = {
            key: value
            for key, value in cell.options.items()
            if key not in _NOT_OPTIONS and published.DEFAULTS.get(key) != value
        }
        shaping = cell.options.get("shaping")
        if shaping is not None and "percentile" in cell.options:
            shaping = f"{shaping}:{cell.options['percentile']}"
        given: dict[str, Any] = {**settings.get(cell.detector, {})}
        if cell.detector == "odin":
            given["noise"] = 0.0
        entry = Entry(cell.detector, chosen, given, shaping)
        entries.setdefault(entry.label, entry)
    return list(entries.values())


def _id_and_some_ood(name: str, root: Path | None) -> bool:
    chosen = protocol(name)
    present: Callable[[Any], bool] = lambda part: (  # noqa: E731
        (found := part.presence(root)) is not None and found.present
    )
    return present(chosen.fit) and present(chosen.test) and any(present(part) for part in chosen.ood)


def _here(backbone: str) -> bool:
    return any(card.alias == backbone and weights_present(card.spec) for card in list_models())


def _checkpoint(backbone: str) -> str:
    found = next((card.spec for card in list_models() if card.alias == backbone), None)
    return f"{found} is not on this machine" if found else "no public checkpoint is known"
