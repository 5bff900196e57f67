"""What a call of `bench` asks for: models by name, scores, and the command that asks for the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..core.errors import InputError
from ..detectors.spec import DetectorSpec, Settings, parse_spec, parse_specs
from .command import command_of
from .measure import Intervals
from .protocols import Protocol, find_protocol
from .repeats import Repeats
from .subject import Subject

FEATURES = "features:"
# In the place of a protocol: every model is a feature folder.
FOLDERS = "features"


def is_folder(name: str | Protocol) -> bool:
    """Whether feature folders stand in the place of a protocol."""
    return isinstance(name, str) and (name.startswith(FEATURES) or name == FOLDERS)


def models_by_name(
    given: str | Protocol, models: Sequence[str | Repeats], weights: Mapping[str, Path]
) -> dict[str, str]:
    """Every model by its name in the run; a feature folder named as the protocol is the first."""
    first = [given] if isinstance(given, str) and given.startswith(FEATURES) else []
    names: dict[str, str] = {}
    for model in (*first, *models):
        members = (
            {model: model} if isinstance(model, str) else dict(zip(model.members, model.models, strict=True))
        )
        doubled = sorted(names.keys() & members.keys())
        if doubled:
            raise InputError(f"two models are called the same: {doubled[0]}")
        names |= members
    if not names:
        raise InputError("no model is given: pass --model SPEC (`theodolite models` lists the paper's)")
    known = [*names, *names.values()]
    unused = sorted(set(weights) - set(known))
    if unused:
        raise InputError(
            f"--weights names {unused[0]!r}, which is none of the models: {', '.join(dict.fromkeys(known))}"
        )
    return names


def title_of(subjects: Sequence[Subject], repeats: Mapping[str, Sequence[str]]) -> str:
    """Of feature folders their names, repeats as one."""
    model_of = {member: name for name, members in repeats.items() for member in members}
    names = ", ".join(dict.fromkeys(model_of.get(subject.name, subject.name) for subject in subjects))
    return f"{names}, full-spectrum" if any(subject.shifted for subject in subjects) else names


def settings_of(subjects: Sequence[Subject]) -> Settings:
    """What the protocol of feature folders asks of scores; nothing where they name different ones."""
    named = {subject.protocol for subject in subjects}
    known = find_protocol(named.pop()) if len(named) == 1 else None
    return {} if known is None else known.settings


def settings_lost(subjects: Sequence[Subject], specs: Sequence[DetectorSpec]) -> list[str]:
    """The note that scores have not the settings that a folder's protocol asks for where it stands alone."""
    named = dict.fromkeys(subject.protocol for subject in subjects)
    lost = [
        f"{spec.label} {key}={value} ({name})"
        for name in (named if len(named) > 1 else ())
        if (known := find_protocol(name)) is not None
        for spec in specs
        for key, value in known.settings.get(spec.name, {}).items()
        if key not in spec.chosen
    ]
    if not lost:
        return []
    folders = ", ".join(f"{subject.name}: {subject.protocol or 'none'}" for subject in subjects)
    return [
        f"The folders name different protocols ({folders}), so that scores have the settings of none of "
        f"them. Alone, a folder has {', '.join(lost)}: name these options to have them here"
    ]


@dataclass(frozen=True)
class Asked:
    """The scores that a call names: each again behind every one of ``shapings``, all held ``against`` one."""

    detectors: Sequence[str]
    shapings: Sequence[str]
    against: str | None

    def specs(
        self, settings: Settings, *, model: bool, layers: bool
    ) -> tuple[list[DetectorSpec], str | None]:
        """The scores of the run, and the label of the one that all are held against.

        ``model`` and ``layers`` say whether a model is there to be asked, and rows of several layers.
        """
        specs = parse_specs(
            self.detectors, shapings=self.shapings, settings=settings, model=model, layers=layers
        )
        if self.against is None:
            return specs, None
        # As the rows are made: only a score that is named is asked of the model.
        wanted = parse_spec(self.against, settings=settings, model=model and bool(self.detectors)).label
        labels = [spec.label for spec in specs]
        if wanted not in labels:
            raise InputError(
                f"--against {self.against}: {wanted} is no score of this run, which has {', '.join(labels)}"
            )
        return specs, wanted

    def command(
        self,
        protocol: str | Protocol,
        models: Sequence[str | Repeats],
        repeated: Mapping[str, Sequence[str]],
        weights: Mapping[str, Path],
        flags: Mapping[str, bool],
        intervals: Intervals,
    ) -> str:
        """The command that does the same; see `command_of`."""
        repeats = [
            f"{model.name}={one}" for model in models if isinstance(model, Repeats) for one in model.models
        ]
        return command_of(
            None if protocol == FOLDERS else protocol,
            repeated={
                "--model": [model for model in models if isinstance(model, str)],
                "--repeat": repeats,
                "--detector": self.detectors,
                "--shaping": self.shapings,
                **repeated,
                "--against": () if self.against is None else (self.against,),
            },
            weights=weights,
            flags=flags,
            intervals=intervals,
        )
