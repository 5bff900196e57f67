"""Every table that features allow on a real ResNet-50, the paper's first backbone, as on the other folders.

Its features came after every choice: no score, default or setting of this library was chosen by them. The
scores, centres, aggregations and shapings are those of the tables of the other folders.
"""

from __future__ import annotations

from ._registry import Context, Need, Produced, experiment
from .angles import compared
from .feature_folders import AGGREGATIONS, IMAGENET_CLASSES, SHAPINGS, centres, measured

FOLDER = NAME = "imagenet-resnet50"


@experiment(NAME, "Every table of the feature folders on a real ResNet-50", Need(FOLDER))
def real_resnet50(context: Context) -> Produced:
    tables = {
        FOLDER: ([], f"Every score on {FOLDER}"),
        f"centring-{FOLDER}": (centres(IMAGENET_CLASSES), f"ORA from other centres on {FOLDER}"),
        f"aggregation-{FOLDER}": (AGGREGATIONS, f"ORA with other aggregations on {FOLDER}"),
        f"shaping-{FOLDER}": (SHAPINGS, f"Shaped features on {FOLDER}"),
    }
    found = {file: measured(context, FOLDER, specs, NAME, title) for file, (specs, title) in tables.items()}
    return {**found, f"angles-{FOLDER}": compared(context, FOLDER, NAME)}
