"""The demo's end: a network that knows 1,000 kinds of things looks at the pictures of scikit-image."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from PIL import Image
from rich.console import Console
from rich.text import Text

from ..core.errors import MissingExtraError
from ..guard.guard import Guard
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


def judge_photos(output: Path, console: Console) -> list[Path]:
    """Write the contact sheet of verdicts; without the network's packages, say so and go on."""
    try:
        guard = Guard.load(GUARD)
        pictures = _pictures()
    except MissingExtraError as error:
        console.print(Text(f"\nThe verdicts on photographs are left out: {error}"), soft_wrap=True)
        return []
    judged = judge(guard, pictures)
    flagged = sum(entry.is_ood for entry in judged)
    console.print(
        f"\nEfficientNet-Lite0 (ImageNet) on {len(judged)} pictures of scikit-image: {flagged} flagged as "
        f"OOD at a false-alarm rate of {100 * guard.false_alarm_rate:g} %",
        highlight=False,
        soft_wrap=True,
    )
    sheet = contact_sheet(
        judged,
        title="EfficientNet-Lite0, trained on ImageNet: which of its answers to trust",
        caption=f"Predicted class, ORA angle and conformal p-value against {len(guard.calibration):,} "
        f"ImageNet images. Orange is flagged: p ≤ {guard.false_alarm_rate:g}. Pictures: scikit-image.",
    )
    return [save_sheet(sheet, output / "contact-sheet.png")]


def judge(guard: Guard, pictures: dict[str, Image.Image]) -> list[Judged]:
    """The guard's verdict on every picture, in words for the sheet."""
    columns = guard.verdicts(list(pictures.values()))
    rows = zip(*(np.asarray(column).tolist() for column in columns), strict=True)
    return [
        Judged(
            picture=picture,
            title=name.replace("_", " "),
            class_name=guard.class_name(predicted).split(",")[0],
            score=f"{math.degrees(score):.1f}°",
            p_value=p_value,
            is_ood=is_ood,
        )
        for (name, picture), (predicted, score, p_value, is_ood) in zip(pictures.items(), rows, strict=True)
    ]


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
