"""The demo's end: a network that knows 1,000 kinds of things looks at the pictures of scikit-image."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from ..core.errors import MissingExtraError
from ..detectors import ORA
from ..guard import Guard
from ..report.contact_sheet import Judged, contact_sheet, save_sheet

GUARD = "imagenet-lite0"
# Inside the wheel of scikit-image: things ImageNet has classes for, then things it has none for.
_PICTURES = (
    "chelsea",
    "coffee",
    "stereo_motorcycle",
    "camera",
    "rocket",
    "astronaut",
    "clock",
    "page",
    "text",
    "coins",
    "moon",
    "hubble_deep_field",
    "retina",
    "immunohistochemistry",
    "cell",
    "brick",
    "grass",
    "gravel",
)


@dataclass(frozen=True)
class Photos:
    """The contact sheet of verdicts, and how many were flagged."""

    sheet: Path
    flagged: int
    count: int
    false_alarm_rate: float

    @property
    def line(self) -> str:
        return (
            f"EfficientNet-Lite0 (ImageNet) on {self.count} pictures of scikit-image: {self.flagged} flagged "
            f"as OOD at a false-alarm rate of {100 * self.false_alarm_rate:g} %"
        )


def judge_photos(output: Path) -> Photos:
    """Write the contact sheet of verdicts; the network's packages must be installed."""
    guard = Guard.load(GUARD)
    judged = judge(guard, _pictures())
    sheet = contact_sheet(
        judged,
        title="EfficientNet-Lite0, trained on ImageNet: which of its answers to trust",
        caption=f"Predicted class, {guard.detector.record.title} and conformal p-value against "
        f"{len(guard.calibration):,} ImageNet images. Orange is flagged: p ≤ {guard.false_alarm_rate:g}. "
        "Pictures: scikit-image.",
    )
    path = save_sheet(sheet, output / "contact-sheet.png")
    return Photos(path, sum(entry.is_ood for entry in judged), len(judged), guard.false_alarm_rate)


def judge(guard: Guard, pictures: dict[str, Image.Image]) -> list[Judged]:
    """The guard's verdict on every picture, in words for the sheet."""
    columns = guard.verdicts(list(pictures.values()))
    rows = zip(*(np.asarray(column).tolist() for column in columns), strict=True)
    return [
        Judged(
            picture=picture,
            title=name.replace("_", " "),
            class_name=guard.class_name(predicted).split(",")[0],
            score=_score_text(guard, score),
            p_value=p_value,
            is_ood=is_ood,
        )
        for (name, picture), (predicted, score, p_value, is_ood) in zip(pictures.items(), rows, strict=True)
    ]


def _score_text(guard: Guard, score: float) -> str:
    """An angle in degrees, any other score as a number."""
    return f"{math.degrees(score):.1f}°" if isinstance(guard.detector, ORA) else f"{score:#.3g}"


def _pictures() -> dict[str, Image.Image]:
    try:
        from skimage import data
    except ImportError as error:
        raise MissingExtraError("scikit-image", "demo") from error
    pictures = {}
    for name in _PICTURES:
        pixels = getattr(data, name)()
        # A stereo pair comes as a tuple with its disparity; the left view is the photograph.
        left = pixels[0] if isinstance(pixels, tuple) else pixels
        pictures[name.removeprefix("stereo_")] = Image.fromarray(left).convert("RGB")
    return pictures
