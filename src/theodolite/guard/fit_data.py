"""Which data a guard is to be fitted on: pictures, stores, or features in files, which have no model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from ..core.addresses import require_named
from ..core.errors import InputError
from ..features.arrays import ArrayParts, open_array
from ..features.folders import FIT, HEAD_OF_FOLDER, TEST, feature_sets, holds_features, is_feature_folder
from ..features.head_files import read_head
from ..features.recovered import recovered_head, require_logits_of
from ..features.settings import ExtractionSettings
from ..features.store import FeatureStore, StoreParts, is_store
from ..reference.head import Head
from .origin import Origin
from .provenance import Provenance


@dataclass(frozen=True)
class KnownData:
    """Features to fit on and to calibrate on, and what is known of where they come from."""

    fit: StoreParts | ArrayParts
    calibration: FeatureStore | ArrayParts | None
    class_names: tuple[str, ...] | None = None
    provenance: Provenance | None = None
    origin: Origin | None = None


@dataclass(frozen=True)
class DataPaths:
    """The paths to fit on and the one to calibrate on; of a feature folder the sets it has for either."""

    fit: tuple[str | Path, ...]
    calibration: str | Path | None
    hold_features: bool
    head: Path | None = None

    @classmethod
    def of(
        cls,
        data: str | Path | Sequence[str | Path],
        calibration: str | Path | None,
        settings: ExtractionSettings | None,
    ) -> DataPaths:
        given = [data] if isinstance(data, str | Path) else list(data)
        if not given:
            raise InputError("data is empty: name at least one path with in-distribution data")
        for path in (*given, *([] if calibration is None else [calibration])):
            require_named(path)
        kind = None if settings is None else settings.kind
        paths = [_set_of(path, FIT, kind) for path in given]
        apart = None if calibration is None else _set_of(calibration, TEST, kind)
        every = [*paths, *([] if apart is None else [apart])]
        if len({Path(path).resolve() for path in every}) < len(every):
            raise InputError(
                "the same data is named twice: parts to fit on, and data to calibrate on, must differ"
            )
        if apart is not None:
            _require_outside(apart, paths)
        features = [path for path in every if holds_features(path, kind)]
        if features and len(features) < len(every):
            other = next(path for path in every if path not in features)
            raise InputError(
                f"{features[0]} holds features without their model, {other} does not: that both are of one "
                f"model cannot be known. Give all as files of features, or none"
            )
        heads = [Path(path) / HEAD_OF_FOLDER for path in given if is_feature_folder(path)]
        head = next((path for path in heads if path.is_file()), None)
        return cls(tuple(paths), apart, bool(features), head)

    @property
    def all(self) -> list[str | Path]:
        return [*self.fit, *([] if self.calibration is None else [self.calibration])]


def of_arrays(named: DataPaths, head: Head | nn.Linear | str | Path | None) -> KnownData:
    """Features in files under a head: given, in a file, of their folder, of their logits, or none."""
    known = given_head(head if head is not None else named.head)
    arrays = [open_array(path) for path in named.fit]
    if known is None:
        known = recovered_head(arrays)
    else:
        require_logits_of(known, arrays)
    fit = ArrayParts(arrays, known)
    calibration = None
    if named.calibration is not None:
        calibration = ArrayParts([open_array(named.calibration)], known)
        if calibration.parts[0].width != fit.parts[0].width:
            raise InputError(
                f"{named.calibration} holds features of width {calibration.parts[0].width}, but "
                f"{named.fit[0]} of width {fit.parts[0].width}: they are of different models or layers"
            )
    return KnownData(fit, calibration, origin=Origin.of_arrays(fit.parts, known))


def given_head(head: Head | nn.Linear | str | Path | None, width: int | None = None) -> Head | None:
    """A head as it was given, or in the file that was; of the ``width`` of the features."""
    found = Head.from_linear(head) if isinstance(head, nn.Linear) else head
    known = read_head(found) if isinstance(found, str | Path) else found
    if known is not None and width not in (None, known.width):
        raise InputError(f"the head takes features of width {known.width}, but the data has width {width}")
    return known


def require_nothing_of_pictures(
    named: DataPaths, model: str | None, weights: str | Path | None, settings: ExtractionSettings | None
) -> None:
    """Refuse what can only be asked of pictures."""
    settings = settings or ExtractionSettings()
    asked = {
        "--model": model,
        "--weights": weights,
        "--layer": settings.layer,
        "--limit": settings.limit,
        "--part": settings.part,
    }
    for option, value in asked.items():
        if value is not None:
            raise InputError(
                f"{option} is for images, but {named.fit[0]} holds features: leave it out (or say that it "
                f"holds pictures: --from pictures)"
            )


def require_no_head(head: object) -> None:
    """Pictures and stores bring their head."""
    if head is not None:
        raise InputError(
            "head is for features in files (.npy, .npz, .parquet, .safetensors) and in stores of an encoder: "
            "pictures have that of their model, and any other feature store has its own. Leave --head out"
        )


def _require_outside(calibration: str | Path, fit: Sequence[str | Path]) -> None:
    """Refuse to calibrate on a folder within one that is fitted on, or around it: they share pictures."""
    inner = Path(calibration).expanduser().resolve()
    for path in fit:
        outer = Path(path).expanduser().resolve()
        if is_store(path) or is_store(calibration) or not (inner.is_dir() and outer.is_dir()):
            continue
        if inner.is_relative_to(outer) or outer.is_relative_to(inner):
            raise InputError(
                f"{calibration}, to calibrate on, and {path}, to fit on, lie one within the other: scores of "
                f"pictures they were fitted on promise nothing. Name folders beside each other"
            )


def _set_of(path: str | Path, name: str, kind: str | None) -> str | Path:
    """The set of that name, where the path is a feature folder."""
    if is_store(path) or not holds_features(path, kind) or not Path(path).expanduser().is_dir():
        return path
    sets = feature_sets(Path(path).expanduser())
    if name not in sets:
        raise InputError(f"{path} has neither {name}.safetensors nor a feature store {name}/")
    return sets[name]
