"""The figure of an explanation: what it says, and that nothing overlaps or leaves the page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox
from PIL import Image

from made_guards import CLASSES, WIDTH, clusters, head
from theodolite.core.errors import InputError
from theodolite.guard import Explanation, Guard
from theodolite.report.explanations import explanation_lines, write_explanations
from theodolite.report.figures import explanation_figure

LONG = [
    f"class {index}, with synonyms, and a Latin name besides that goes on and on" for index in range(CLASSES)
]


def explained(
    detector: str = "ora", *, with_head: bool = True, far: float = 1.0, **options: object
) -> Explanation:
    features, labels = clusters(300, 0)
    names = LONG if with_head else None
    guard = Guard.fit(
        features, labels, head=head() if with_head else None, detector=detector, class_names=names
    )
    row = far * np.random.default_rng(3).normal(size=(1, WIDTH))
    (told,) = guard.explain(row, **options)  # type: ignore[arg-type]
    return told


def texts(figure: Figure) -> dict[str, Bbox]:
    """Everything written, and the box it takes."""
    FigureCanvasAgg(figure).draw()  # type: ignore[no-untyped-call]
    written = [*figure.texts, *(text for axes in figure.axes for text in _of(axes))]
    return {f"{place}:{text.get_text()}": text.get_window_extent() for place, text in enumerate(written)}


def _of(axes: Axes) -> list[Text]:
    """What is written in axes: of the tick labels those that are shown."""
    if not axes.axison:
        return [*axes.texts]
    low, high = axes.get_xlim()
    ticks = zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)
    return [*axes.texts, axes.xaxis.label, *(label for at, label in ticks if low <= at <= high)]


@pytest.mark.parametrize(
    ("detector", "with_head"),
    [
        ("ora", True),
        ("relative-energy", True),
        ("msp", True),
        ("knn?k=3", True),
        ("knn?k=3", False),
        ("nnguide", True),
    ],
)
@pytest.mark.parametrize("far", [1.0, 1e3])
@pytest.mark.parametrize("shown", [True, False])
def test_no_text_overlaps_another_or_leaves_the_page(
    detector: str, with_head: bool, far: float, shown: bool
) -> None:
    told = explained(detector, with_head=with_head, far=far)
    picture = Image.new("RGB", (300, 500), "green") if shown else None
    figure = explanation_figure(told, picture)
    boxes = texts(figure)
    page = figure.bbox
    for name, box in boxes.items():
        assert page.x0 <= box.x0 and box.x1 <= page.x1, name  # noqa: PT018
        assert page.y0 <= box.y0 and box.y1 <= page.y1, name  # noqa: PT018
    pairs = list(boxes.items())
    for place, (name, box) in enumerate(pairs):
        for other, second in pairs[place + 1 :]:
            width = min(box.x1, second.x1) - max(box.x0, second.x0)
            height = min(box.y1, second.y1) - max(box.y0, second.y0)
            assert min(width, height) <= 3, (name, other)


def test_a_reader_finds_everything_on_the_page() -> None:
    told = explained("ora")
    said = "\n".join(texts(explanation_figure(told)))
    assert told.geometry is not None
    assert told.geometry.triangle is not None
    for word in (
        told.verdict,
        told.in_words[1:],
        f"θ = {told.geometry.triangle.angle:.1f}°",
        "nearest boundary",
        "furthest boundary",
        "shaded: 5 to 95 %",
        "this one",
        "z_db",
        "logit",
        *told.notes,
    ):
        assert word in said.replace("\n  ", " ") or word[:40] in said


def test_a_score_beyond_the_axis_is_an_arrow() -> None:
    assert any("◀" in name for name in texts(explanation_figure(explained("mds", far=1e3))))


def test_the_words_are_those_of_the_record() -> None:
    told = explained("ora")
    said = "\n".join(explanation_lines(told))
    assert told.geometry is not None
    for word in (told.in_words, told.geometry.nearest.name, told.geometry.furthest.name, *told.notes):
        assert word in said


def test_pictures_in_memory_and_what_cannot_be_written(tmp_path: Path) -> None:
    told = explained()
    picture = Image.new("L", (40, 20), 128)
    (path,) = write_explanations([told], tmp_path / "why.v2.png", pictures=[picture])
    assert path == tmp_path / "why.v2.png"
    with Image.open(path) as image, Image.open(write_explanations([told], tmp_path / "b.png")[0]) as without:
        assert image.width > without.width
    with pytest.raises(InputError, match="2 pictures for 1"):
        write_explanations([told], tmp_path / "c.png", pictures=[None, None])
    with pytest.raises(InputError, match="empty"):
        write_explanations([], tmp_path / "c.png")
