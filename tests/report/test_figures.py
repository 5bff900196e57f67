"""Figures: the labels, counts and numbers that a reader needs."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Arc, Rectangle
from matplotlib.text import Text
from PIL import Image

import theodolite as th
from sample_report import SUBJECT, make_evaluation, make_result
from synthetic import make_problem
from theodolite.evaluation import auroc
from theodolite.report import figures
from theodolite.report.figures.curves import roc_points
from theodolite.report.figures.histograms import bin_edges


def words(figure: Figure) -> str:
    return "\n".join(text.get_text() for text in figure.findobj(Text) if isinstance(text, Text))


def points(line: Line2D) -> list[tuple[float, float]]:
    return list(zip(np.asarray(line.get_xdata()), np.asarray(line.get_ydata()), strict=True))


def test_score_histograms_name_every_pair_and_its_metrics() -> None:
    evaluation = make_evaluation()
    figure = figures.score_histograms(evaluation, title="made ID against OOD")
    assert len(figure.axes) == 3 * 2
    shown = words(figure)
    for name, cells in evaluation.metrics.items():
        assert name in shown
        for ood, cell in cells.items():
            assert f"{ood}: FPR95 {100 * cell['fpr95']:.1f}, AUROC {100 * cell['auroc']:.1f}" in shown
    for word in ("made ID against OOD", "ID", "OOD"):
        assert word in shown
    alone = figures.score_histograms(evaluation, detectors=["ORA"], title="").axes
    assert [panel.get_xlabel() for panel in alone] == ["score, higher = more in-distribution"] * 2


def test_sine_histograms_follow_the_law_of_sines() -> None:
    problem = make_problem()
    ora = th.ORA().fit(problem.train, problem.labels, head=problem.head)
    seen = ora.sight(problem.test)
    parts = figures.sines(seen)
    # From the vectors themselves, in float64: the projection on the furthest boundary.
    weight, bias = problem.head.weight.double().numpy(), problem.head.bias.double().numpy()
    mean = problem.train.double().mean(dim=0).numpy()
    for row, z in enumerate(problem.test.double().numpy()[:20]):
        p, c = int(seen.predicted[row]), int(seen.furthest[row])
        normal = weight[p] - weight[c]
        gap = normal @ z + bias[p] - bias[c]
        there, here = z - gap * normal / (normal @ normal) - mean, z - mean
        cosine = here @ there / np.linalg.norm(here) / np.linalg.norm(there)
        assert parts.theta[row] == pytest.approx(np.sqrt(1 - cosine**2), abs=1e-5)
        assert parts.ratio[row] == pytest.approx(
            np.linalg.norm(here - there) / np.linalg.norm(here), rel=1e-4
        )
    np.testing.assert_allclose(parts.ratio, parts.theta / parts.alpha, rtol=1e-4)
    figure = figures.sine_histograms(seen, {"outliers": ora.sight(problem.ood)}, title="sines")
    assert len(figure.axes) == 3
    for name in ("sin α", "sin θ", "sin θ / sin α"):
        assert name in words(figure).split("\n")


def test_roc_curves_enclose_the_auroc() -> None:
    evaluation = make_evaluation()
    pair = evaluation.id_scores["coarse"], evaluation.ood_scores["coarse"]["blur"]
    fpr, tpr = roc_points(*pair)
    area = float((np.diff(fpr) * (tpr[1:] + tpr[:-1]) / 2).sum())
    assert area == pytest.approx(auroc(*pair))
    figure = figures.roc_curves(evaluation, title="ROC")
    assert [panel.get_title() for panel in figure.axes] == ["blur", "noise"]
    for panel, ood in zip(figure.axes, ("blur", "noise"), strict=True):
        legend = panel.get_legend()
        assert legend is not None
        labels = {text.get_text() for text in legend.get_texts()}
        assert labels == {
            f"{name} {100 * evaluation.metrics[name][ood]['auroc']:.1f}" for name in evaluation.metrics
        }
        # Every curve ends where everything is accepted.
        assert all(points(line)[-1] == (1, 1) for line in panel.lines)


def test_ensemble_histograms_stand_side_by_side() -> None:
    figure = figures.ensemble_histograms(make_evaluation(), single="ORA", ensemble="fine", title="one or all")
    assert [panel.get_xlabel() for panel in figure.axes] == ["", "", "ORA", "fine"]
    assert len(figures.ensemble_histograms(
        make_evaluation(), single="ORA", ensemble="fine", ood=["blur"], title=""
    ).axes) == 2  # fmt: skip


@pytest.mark.parametrize(("metric", "sign", "word"), [("fpr95", -1, "lower"), ("auroc", 1, "higher")])
def test_metric_bars_are_sorted_with_published_ticks(metric: str, sign: int, word: str) -> None:
    result = make_result()
    figure = figures.metric_bars(result, SUBJECT, metric=metric, title="by detector")
    (panel,) = figure.axes
    order = [label.get_text() for label in panel.get_yticklabels()]
    values = [result.cell(SUBJECT, name, "average", metric).value for name in order]
    assert [sign * value for value in values] == sorted(sign * value for value in values), "the best on top"
    widths = [bar.get_width() for bar in panel.patches if isinstance(bar, Rectangle)]
    assert widths == values
    assert panel.get_xlabel() == f"{metric.upper()} in % (average), {word} is better"
    ticks = [point for line in panel.lines for point in points(line)]
    assert ticks == ([(98.7, order.index("ORA"))] if metric == "auroc" else [])
    assert ("published" in words(figure)) == (metric == "auroc")
    alone = figures.metric_bars(result, SUBJECT, ood="blur", detectors=["fine", "ORA"], title="")
    (panel,) = alone.axes
    assert {label.get_text() for label in panel.get_yticklabels()} == {"fine", "ORA"}
    assert [x for line in panel.lines for x, _ in points(line)] == [12.34]


def test_bins_hold_what_is_infinite_or_constant() -> None:
    for scores in (np.array([1.0, np.inf, -np.inf, 2.0]), np.ones(5), np.array([np.inf])):
        edges = bin_edges([scores])
        assert np.isfinite(edges).all()
        assert (np.diff(edges) > 0).all()


def test_files_are_png_and_svg_on_white(tmp_path: Path) -> None:
    view = figures.TriangleView(title="a sample", angle=0.6, distance=1.0, centre_distance=0.2, height=2.0)
    figure = figures.triangles([view, view])
    assert "θ = 34.4°" in words(figure)
    png, svg = figures.save(figure, tmp_path / "new" / "vit.b16")
    assert (png.name, svg.name) == ("vit.b16.png", "vit.b16.svg")
    with Image.open(png) as picture:
        assert picture.convert("RGBA").getpixel((1, 1)) == (255, 255, 255, 255)
    assert ElementTree.parse(svg).getroot().tag.endswith("svg")


def seen_from_mu(distance: float, centre_distance: float, height: float) -> figures.TriangleView:
    """A view whose angle is that of its own sides, by the formula of the paper."""
    along = distance - centre_distance
    angle = np.arctan2(height * distance, height**2 - along * centre_distance)
    return figures.TriangleView(
        title="made", angle=float(angle), distance=distance, centre_distance=centre_distance, height=height
    )


def drawn_angle(panel: Axes) -> float:
    """The angle at μ between the rays to z and to z_db, in degrees, as they lie on the screen."""
    rays = [line for line in panel.lines if points(line)[0] == (0, 0) and len(points(line)) == 2]
    centre, *ends = panel.transData.transform([(0, 0), *(points(ray)[1] for ray in rays)])
    (ax, ay), (bx, by) = (end - centre for end in ends)
    return float(np.degrees(abs(np.arctan2(ax * by - ay * bx, ax * bx + ay * by))))


def test_angles_and_lengths_are_drawn_to_one_scale(tmp_path: Path) -> None:
    """On the screen, after the layout: the paper's angle, and a unit of the same length everywhere."""
    views = [seen_from_mu(5.8, 0.75, 4.7), seen_from_mu(3.7, 0.9, 3.8), seen_from_mu(1.2, -0.4, 0.8)]
    assert [round(np.degrees(view.angle)) for view in views] == [56, 50, 37]
    figure = figures.triangles(views)
    figures.save(figure, tmp_path / "triangles", suffixes=(".png",))
    for panel, view in zip(figure.axes, views, strict=True):
        assert drawn_angle(panel) == pytest.approx(np.degrees(view.angle), abs=0.05)
        (arc,) = [patch for patch in panel.patches if isinstance(patch, Arc) and patch.get_linewidth() == 2]
        assert arc.theta2 - arc.theta1 == pytest.approx(np.degrees(view.angle), abs=0.05)
    units = [np.diff(panel.transData.transform([(0, 0), (1, 1)]), axis=0)[0] for panel in figure.axes]
    np.testing.assert_allclose(units, units[0][0], rtol=1e-6)
    assert "θ = 56.1°" in words(figure)
