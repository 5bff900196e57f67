"""What holds for several models together: who may be averaged with whom, the averages, and the ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..core.plain import JsonObject, JsonValue, from_plain, to_plain
from .cells import Cell, cells_from_json, cells_to_json


@dataclass(frozen=True)
class Ground:
    """Models that were judged on the same data, as far as counts tell: their figures may be averaged.

    ``sets`` are the held-out ID data and the OOD sets, with their samples.
    """

    models: tuple[str, ...]
    classes: int
    sets: Mapping[str, int]


@dataclass(frozen=True)
class ModelAverage:
    """Cells averaged over models; their subject is ``name``, which says over how many."""

    name: str
    models: tuple[str, ...]
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Joint:
    """Several models in one table.

    ``ranks`` are by metric and score: the place among all scores that every model has (the best is 1, what
    prints the same shares its places), by the average over a model's own OOD sets, averaged over models.
    """

    grounds: tuple[Ground, ...]
    averages: tuple[ModelAverage, ...]
    ranks: Mapping[str, Mapping[str, float]]
    notes: tuple[str, ...] = ()

    def to_json(self) -> JsonObject:
        return {
            "grounds": to_plain(self.grounds),
            "averages": [
                {"name": one.name, "models": list(one.models), "cells": cells_to_json(one.cells)}
                for one in self.averages
            ],
            "ranks": to_plain(self.ranks),
            "notes": list(self.notes),
        }

    @classmethod
    def from_json(cls, content: Mapping[str, JsonValue]) -> Joint:
        read = from_plain(_File, content, "joint")
        averages = (ModelAverage(one.name, one.models, cells_from_json(one.cells)) for one in read.averages)
        return cls(read.grounds, tuple(averages), read.ranks, read.notes)


@dataclass(frozen=True)
class _Average:
    name: str
    models: tuple[str, ...]
    cells: tuple[Mapping[str, JsonValue], ...]


@dataclass(frozen=True)
class _File:
    grounds: tuple[Ground, ...]
    averages: tuple[_Average, ...]
    ranks: Mapping[str, Mapping[str, float]]
    notes: tuple[str, ...]
