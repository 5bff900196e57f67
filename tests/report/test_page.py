"""The report as text: its numbers are the metrics, it needs nothing outside, and nothing gets out."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sample_report import PUBLISHED, make_report
from theodolite.evaluation.evaluation import Evaluation
from theodolite.evaluation.metrics import evaluate
from theodolite.report.page import ReportData, SampleCard, write_report
from theodolite.report.page.samples import triangle_svg
from theodolite.report.page.scores import MOST, thinned
from theodolite.report.page.tables import METRIC_VIEWS, marks
from theodolite.report.page.write import render


class Page(HTMLParser):
    """What a browser would find: tables as rows of (value, tag, published), and every reference."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: dict[str, list[list[list[str]]]] = {}
        self.references: list[str] = []
        self.scripts: list[str] = []
        self.tags: list[str] = []
        self._cell: list[str] | None = None
        self._table = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.tags.append(tag)
        self.references += [values[name] or "" for name in ("src", "href") if name in values]
        if tag == "script":
            self.scripts.append("")
        if tag == "div" and values.get("class") == "table":
            self._table = (values["id"] or "").removeprefix("table-")
            self.tables[self._table] = []
        elif tag == "tr":
            self.tables[self._table].append([])
        elif tag in ("td", "th"):
            self._cell = []
            self.tables[self._table][-1].append(self._cell)
        elif self._cell is not None and tag in ("b", "u"):
            self._cell.append(f"<{tag}>")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._cell = None

    def handle_data(self, text: str) -> None:
        if self.scripts and self.tags[-1] == "script":
            self.scripts[-1] += text
        if self._cell is not None and text.strip():
            self._cell.append(text.strip())

    @property
    def scores(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.scripts[0])
        return found


def unpack(packed: dict[str, str]) -> np.ndarray:
    return np.frombuffer(base64.b64decode(packed["data"]), "<" + packed["type"]).astype(np.float64)


@pytest.mark.parametrize("digits", [1, 2])
def test_the_tables_are_the_metrics_to_the_printed_digit(digits: int) -> None:
    data = make_report(digits)
    page = Page(render(data))
    assert list(page.tables) == [view.name for view in METRIC_VIEWS]
    for view in METRIC_VIEWS:
        head, *rows = page.tables[view.name]
        assert [cell[0] for cell in head] == ["detector", "blur", "noise", "average"]
        assert [row[0][0] for row in rows] == ["ORA", "coarse", "fine"]
        for row in rows:
            name = row[0][0]
            for column, cell in zip(("blur", "noise", "average"), row[1:], strict=True):
                cells = data.evaluation.metrics[name]
                value = (
                    float(np.mean([getattr(m, view.name) for m in cells.values()]))
                    if column == "average"
                    else getattr(cells[column], view.name)
                )
                published = PUBLISHED.get((name, column, view.name))
                expected = [f"{100 * value:.{digits}f}"]
                expected += [] if published is None else [f"{published:.{digits}f}"]
                assert [text for text in cell if not text.startswith("<")] == expected


def test_best_is_bold_and_second_underlined_as_printed() -> None:
    assert marks(["10.0", "20.0", "10.0", "30.0"], True) == ["best", "second", "best", ""]
    assert marks(["10.0", "20.0", "9.5"], False) == ["second", "best", ""]
    assert marks(["10.0"], True) == [""]
    rows = Page(render(make_report())).tables["fpr95"][1:]
    column = {row[0][0]: row[1] for row in rows}
    best = min(column, key=lambda name: float(next(t for t in column[name] if t[0] != "<")))
    assert column[best][0] == "<b>"


def test_embedded_scores_give_the_exact_metrics() -> None:
    data = make_report()
    embedded = Page(render(data)).scores
    assert embedded["ood"] == ["blur", "noise"]
    for entry in embedded["detectors"]:
        name = entry["name"]
        assert entry["id"]["type"] == ("f4" if name == "ORA" else "f8")
        for place, ood in enumerate(embedded["ood"]):
            pair = unpack(entry["id"]), unpack(entry["ood"][place])
            assert evaluate(*pair) == data.evaluation.metrics[name][ood]


def test_large_sets_are_thinned_and_the_page_says_so() -> None:
    rng = np.random.default_rng(0)
    many, few = rng.normal(1, 1, 3 * MOST), rng.normal(0, 1, 500)
    kept = thinned(many)
    assert len(kept) == MOST
    for threshold in np.quantile(many, [0.001, 0.05, 0.5, 0.999]):
        assert abs((kept >= threshold).mean() - (many >= threshold).mean()) <= 1 / MOST
    evaluation = Evaluation({"s": many}, {"s": {"few": few}}, {"s": {"few": evaluate(many, few)}})
    text = render(ReportData(title="large", evaluation=evaluation, id_name="many"))
    assert f"many ({3 * MOST:,})" in text
    assert "order statistics" in text
    assert "order statistics" not in render(make_report())


def test_the_page_refers_to_nothing_outside(tmp_path: Path) -> None:
    path = write_report(make_report(), tmp_path / "new" / "report.html")
    text = path.read_text(encoding="utf-8")
    assert "http://" not in text
    assert "https://" not in text
    assert "@import" not in text
    assert "url(" not in text
    for reference in Page(text).references:
        assert reference.startswith(("data:", "#"))
    assert "default-src 'none'" in text
    assert len(text) < 200_000


HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&$title <!--"


def test_names_cannot_break_out_of_the_page() -> None:
    plain = make_report()
    scores = np.arange(10.0)
    evaluation = Evaluation(
        {HOSTILE: scores}, {HOSTILE: {HOSTILE: scores}}, {HOSTILE: {HOSTILE: evaluate(scores, scores)}}
    )
    card = SampleCard(
        id=HOSTILE, score=1.0, predicted=HOSTILE, truth=HOSTILE, data_set=HOSTILE, image_png=b"png"
    )
    hostile = dataclasses.replace(
        plain,
        title=HOSTILE,
        summary=[HOSTILE],
        evaluation=evaluation,
        id_name=HOSTILE,
        suspicious_id=[card],
        deceptive_ood=[card],
        environment={HOSTILE: HOSTILE},
        provenance={HOSTILE: HOSTILE},
        command=HOSTILE,
    )
    page = Page(render(hostile))
    assert page.tags.count("script") == 2
    assert page.tags.count("img") == 2
    assert page.scores["detectors"][0]["name"] == HOSTILE
    assert page.tables["fpr95"][1][0] == [HOSTILE]


def test_samples_carry_thumbnail_class_angle_and_triangle() -> None:
    data = make_report()
    text = render(data)
    assert text.count("data:image/png;base64,") == 7
    assert text.count('<svg class="triangle"') == 7
    first = data.suspicious_id[0]
    assert first.score == data.evaluation.id_scores["ORA"].min()
    assert first.angle == pytest.approx(first.score, rel=1e-5)
    assert f"θ = {np.degrees(first.angle or 0):.1f}°" in text
    assert re.search(r"read as <strong>class \d</strong>", text)
    assert data.deceptive_ood[0].score == data.evaluation.ood_scores["ORA"]["blur"].max()


def test_a_triangle_is_drawn_to_scale_or_not_at_all() -> None:
    plain = SampleCard(id="1", score=1.0, predicted="a", data_set="d")
    card = dataclasses.replace(plain, angle=np.pi / 4, distance=1.0, centre_distance=0.0, height=1.0)
    drawn = triangle_svg(card)
    (zx, zy), (cx, cy), (px, py) = (
        tuple(map(float, point.split()))
        for point in re.findall(r'class="side" d="M(.*?)L(.*?)L(.*?)"', drawn)[0]
    )
    assert px - zx == pytest.approx(cy - py, abs=0.2)
    assert (zy, px) == (py, cx)
    assert triangle_svg(dataclasses.replace(card, height=None)) == ""
    assert "nan" not in triangle_svg(dataclasses.replace(card, distance=0.0, height=0.0))


def test_infinite_and_constant_scores_still_make_a_page() -> None:
    id_scores, ood_scores = np.array([np.inf, 1.0, 2.0]), np.array([-np.inf, 0.0])
    flat = np.ones(3)
    evaluation = Evaluation(
        {"a": id_scores, "b": flat},
        {"a": {"o": ood_scores}, "b": {"o": flat}},
        {"a": {"o": evaluate(id_scores, ood_scores)}, "b": {"o": evaluate(flat, flat)}},
    )
    page = Page(render(ReportData(title="t", evaluation=evaluation, id_name="i")))
    for entry in page.scores["detectors"]:
        low, high = entry["range"]
        assert low < high
    # One OOD set is its own average: the column is left out.
    assert [cell[0] for cell in page.tables["fpr95"][0]] == ["detector", "o"]
