"""The linear-probe rows of a table: a head trained on the ID features of a model, in place of its own."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from .. import published
from ..benchmarks.feature_sets import StoreSet
from ..benchmarks.subject import LINEAR_PROBE, Subject
from ..core.code import code_behind
from ..core.errors import FormatError, InputError
from ..features.device import choose_device
from ..features.head_files import read_head
from ..features.linear_probe import save_probe, train_probe
from ..reference.head import Head
from .experiments import Context


def wants_probe(table: str, protocol: str, backbone: str) -> bool:
    """Whether a table of the paper has rows of a linear probe on the features of a backbone."""
    return table in published.list_tables() and any(
        cell.options.get("head") == LINEAR_PROBE
        for cell in published.load_table(table).cells()
        if (cell.protocol, cell.backbone) == (protocol, backbone)
    )


def probed(subject: Subject, context: Context) -> Subject:
    """The same features under a probe that was trained on those to fit on; kept, and trained once."""
    if not isinstance(subject.fit, StoreSet) or not subject.fit.labelled:
        raise InputError(f"{subject.name}: a linear probe learns from a feature store with labels")
    return replace(
        subject,
        name=f"{subject.name} (linear probe)",
        head=_probe(subject.fit, subject.head.classes, subject.name, context),
        head_kind=LINEAR_PROBE,
    )


def _probe(fit: StoreSet, classes: int, name: str, context: Context) -> Head:
    said = f"{fit.digest} {classes} {context.seed} {code_behind('features.linear_probe')}"
    path = context.cache / "probes" / f"{hashlib.sha256(said.encode()).hexdigest()[:32]}.safetensors"
    if path.is_file():
        try:
            return read_head(path)
        except FormatError:
            pass  # damaged: trained again and replaced
    context.say(f"{name}: a linear probe is trained on {len(fit):,} features of {fit.path}")
    head = train_probe(fit.store, classes=classes, seed=context.seed, device=choose_device("auto"))
    path.parent.mkdir(parents=True, exist_ok=True)
    save_probe(head, path)
    return head
