"""A page as text: its numbers are the result's, it needs nothing outside, and nothing gets out."""

from __future__ import annotations

import base64
import hashlib
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from report_parser import ParsedPage
from sample_report import PUBLISHED, SUBJECT, make_page, make_result
from theodolite.benchmarks.cells import PublishedValue
from theodolite.benchmarks.facts import DetectorFacts, SubjectFacts
from theodolite.benchmarks.measure import Intervals, result_of_scores
from theodolite.benchmarks.result import RunResult
from theodolite.benchmarks.telling import TellingSample, Triangle, with_p_values
from theodolite.core.errors import InputError
from theodolite.evaluation import Metric, evaluate, list_metrics, metrics, register_metric
from theodolite.guard import Calibration
from theodolite.report.page import Page, render
from theodolite.report.page.explorer import MOST, thinned
from theodolite.report.page.triangle import drawing
from theodolite.report.tables import ranks


def unpack(packed: dict[str, str]) -> np.ndarray:
    return np.frombuffer(base64.b64decode(packed["data"]), "<" + packed["type"]).astype(np.float64)


def printed(share: float) -> str:
    # Rounded as in the results first, so that a tie such as 14.855 falls to the same side everywhere.
    return f"{round(100 * share, 6):.2f}"


# ---------------------------------------------------------------------- tables


def test_the_tables_are_the_metrics_to_the_printed_digit() -> None:
    page = make_page()
    evaluation = page.evaluation
    assert evaluation is not None
    found = ParsedPage(render(page))
    assert list(found.tables) == [metric.name for metric in list_metrics()]
    for name, (head, *rows) in found.tables.items():
        assert [cell[0] for cell in head] == ["detector", "average", "blur", "noise"]
        assert [row[0][0] for row in rows] == ["ORA", "coarse", "fine"]
        for row in rows:
            label = row[0][0]
            for column, cell in zip(("average", "blur", "noise"), row[1:], strict=True):
                value = (
                    evaluation.average(label, name)
                    if column == "average"
                    else evaluation.metrics[label][column][name]
                )
                published = PUBLISHED.get((label, column, name))
                expected = [printed(value), *([] if published is None else [published])]
                assert [text for text in cell if not text.startswith("<")] == expected


def test_best_is_bold_and_second_underlined_as_printed() -> None:
    assert ranks(["10.0", "20.0", "10.0", "30.0"], lower_is_better=True) == [1, 2, 1, 0]
    assert ranks(["10.0", "20.0", "9.5"], lower_is_better=False) == [2, 1, 0]
    assert ranks(["10.0"], lower_is_better=True) == [0]
    tables = ParsedPage(render(make_page())).tables
    for metric in list_metrics():
        for place in (1, 2, 3):
            column = [row[place] for row in tables[metric.name][1:]]
            values = [float(next(text for text in cell if text[0] != "<")) for cell in column]
            best, *others = sorted(set(values), reverse=not metric.lower_is_better)
            for cell, value in zip(column, values, strict=True):
                tag = "<b>" if value == best else "<u>" if value in others[:1] else None
                assert (cell[0] if cell[0].startswith("<") else None) == tag


def test_intervals_stand_below_and_doubtful_values_are_marked() -> None:
    result = make_result(Intervals(20))
    text = render(make_page(result))
    for cell in result.cells:
        if cell.interval is not None:
            assert f"[{cell.interval.low:.2f}, {cell.interval.high:.2f}]" in text
    tabled = len(list_metrics(tabled=True))
    assert text.count('title="bootstrap interval"') == 3 * 3 * tabled
    assert text.count("Below it [bootstrap interval].") == tabled
    assert "contradicts itself" not in text
    other = PublishedValue("13.00", "other table", "ORA", "blur")
    cells = [
        replace(cell, published=(*cell.published, other)) if cell.published else cell for cell in result.cells
    ]
    marked = ParsedPage(render(make_page(replace(result, cells=tuple(cells)))))
    assert "12.34†" in marked.tables["fpr95"][1][2]
    assert sum("contradicts itself" in text for text in marked.texts) == tabled
    plain = render(make_page(replace(result, cells=tuple(replace(cell, published=()) for cell in cells))))
    assert "as published" not in plain
    assert 'title="published"' not in plain


def test_a_metric_from_outside_has_its_tab(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "_metrics", dict(metrics._metrics))
    before = make_result()
    register_metric(Metric("half", "Half", True, "always one half", lambda _: np.asarray(0.5), tabled=True))
    found = ParsedPage(render(make_page()))
    assert found.tables["half"][1][1][-1] == "50.00"
    assert "average Half ↓" in found.texts
    assert any(text.startswith("Half ↓ in %: always one half.") for text in found.texts)
    assert found.scores["detectors"][0]["metrics"]["half"] == ["50.00", "50.00"]
    assert "half" not in ParsedPage(render(make_page(before))).tables, "made before, it has no such cells"


# ---------------------------------------------------------------------- scores


def test_embedded_scores_give_the_exact_metrics() -> None:
    page = make_page()
    evaluation = page.evaluation
    assert evaluation is not None
    embedded = ParsedPage(render(page)).scores
    assert embedded["ood"] == ["blur", "noise"]
    for entry in embedded["detectors"]:
        name = entry["name"]
        assert entry["id"]["type"] == ("f4" if name == "ORA" else "f8")
        for place, ood in enumerate(embedded["ood"]):
            pair = unpack(entry["id"]), unpack(entry["ood"][place])
            assert evaluate(*pair) == evaluation.metrics[name][ood]
            for metric in ("fpr95", "auroc"):
                assert entry["metrics"][metric][place] == printed(evaluation.metrics[name][ood][metric])


def test_large_sets_are_thinned_and_the_page_says_so() -> None:
    rng = np.random.default_rng(0)
    many, few = rng.normal(1, 1, 3 * MOST), rng.normal(0, 1, 500)
    kept = thinned(many)
    assert len(kept) == MOST
    for threshold in np.quantile(many, [0.001, 0.05, 0.5, 0.999]):
        assert abs((kept >= threshold).mean() - (many >= threshold).mean()) <= 1 / MOST
    result = result_of_scores({"s": {"id_test": many, "few": few}}, title="large")
    text = render(Page(result=result, subject="model", id_name="many"))
    assert f"many ({3 * MOST:,})" in text
    assert "order statistics" in text
    assert "order statistics" not in render(make_page())


def test_infinite_and_constant_scores_still_make_a_page() -> None:
    flat = np.ones(3)
    scores = {
        "a": {"id_test": np.array([np.inf, 1.0, 2.0]), "o": np.array([-np.inf, 0.0])},
        "b": {"id_test": flat, "o": flat},
    }
    found = ParsedPage(render(Page(result=result_of_scores(scores, title="t"), subject="model")))
    for entry in found.scores["detectors"]:
        low, high = entry["range"]
        assert low < high
    # One OOD set is its own average: the column is left out.
    assert [cell[0] for cell in found.tables["fpr95"][0]] == ["detector", "o"]


# ---------------------------------------------------------------------- the page itself


def test_the_page_refers_to_nothing_outside() -> None:
    text = render(make_page())
    assert "http://" not in text
    assert "https://" not in text
    assert "@import" not in text
    assert "url(" not in text
    found = ParsedPage(text)
    for reference in found.references:
        assert reference.startswith(("data:", "#"))
    assert len(text) < 200_000


def test_only_the_pages_own_style_and_script_may_run() -> None:
    found = ParsedPage(render(make_page()))

    def digest(content: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"

    (style,) = found.styles
    assert dict(part.split(" ", 1) for part in found.policy.split("; ")) == {
        "default-src": "'none'",
        "img-src": "data:",
        "style-src": digest(style),
        "script-src": digest(found.scripts[-1]),
        "base-uri": "'none'",
        "form-action": "'none'",
    }


HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&$title {{ title }} <!--"


def hostile_result() -> RunResult:
    scores = np.arange(10.0)
    sample = TellingSample(0, HOSTILE, 1.0, HOSTILE, HOSTILE, truth=HOSTILE, picture=Image.new("L", (2, 2)))
    plain = result_of_scores(
        {HOSTILE: {"id_test": scores, HOSTILE: scores}}, title=HOSTILE, subject=HOSTILE, command=HOSTILE
    )
    facts = SubjectFacts(HOSTILE, 2, 2, 50.0, {HOSTILE: 1}, {HOSTILE: HOSTILE}, {HOSTILE: HOSTILE})
    return replace(
        plain,
        subjects={HOSTILE: facts},
        refused={HOSTILE: {HOSTILE: HOSTILE}},
        versions={HOSTILE: HOSTILE},
        telling={HOSTILE: [sample, replace(sample, data_set="id_test")]},
        highlight=HOSTILE,
    )


def test_names_cannot_break_out_of_the_page() -> None:
    page = Page(
        result=hostile_result(),
        subject=HOSTILE,
        id_name=HOSTILE,
        summary=[HOSTILE],
        provenance={"seed" + HOSTILE: HOSTILE},
    )
    found = ParsedPage(render(page))
    assert found.tags.count("script") == 2
    assert found.tags.count("img") == 2
    assert found.scores["detectors"][0]["name"] == HOSTILE
    assert found.tables["fpr95"][1][0] == [HOSTILE]
    as_text = " ".join(HOSTILE.split())
    for place in (as_text, f"{as_text} is left out: {as_text}", f"{as_text} is missing: {as_text}"):
        assert place in found.texts
    # Title twice, command, column heads, two options, samples, provenance, environment: as they are.
    assert sum(as_text in text for text in found.texts) >= 25


def test_what_a_run_says_of_itself_is_on_its_page() -> None:
    plain = make_result()
    facts = plain.subjects[SUBJECT]
    result = replace(
        plain,
        subjects={SUBJECT: replace(facts, missing={"fog": "no such folder"}), "another": facts},
        refused={SUBJECT: {"KNN": "no bank"}, "another": {"MSP": "no logits"}},
    )
    found = ParsedPage(render(make_page(result)))
    for text in (
        "A small run: made",
        "Made features, three scores.",
        "id_fit 1,300, id_test 120, blur 120, noise 96",
        "KNN is left out: no bank",
        "fog is missing: no such folder",
        "91.25 %",
        "accuracy on made ID",
        "theodolite bench",
        "0123abcd",
        "PyTorch",
        "threads",
    ):
        assert text in found.texts, text
    assert not any("no logits" in text for text in found.texts)
    averages = [cell for cell in result.cells if (cell.ood, cell.metric) == ("average", "fpr95")]
    best = min(averages, key=lambda cell: cell.value)
    place = found.texts.index("average FPR95 ↓")
    assert found.texts[place + 1 : place + 3] == [f"{best.value:.2f} %", f"{best.detector}, best of 3"]


def test_notes_of_the_run_and_cautions_of_the_model_are_on_its_page() -> None:
    plain = make_result()
    few = plain.subjects[SUBJECT]
    ora = DetectorFacts(detector="ora", options={"aggregate": "max"})
    result = replace(
        plain,
        subjects={SUBJECT: few, "many": replace(few, classes=1000), "few": few},
        detectors={"ORA": ora, "fine": ora},
        notes=("ensemble: the samples have no ids",),
    )
    cautions = {line.split(",")[0]: line for line in result.cautions}
    assert set(cautions) == {SUBJECT, "few"}
    assert all(line.startswith(f"{name}, ORA, fine: ") for name, line in cautions.items())
    texts = ParsedPage(render(make_page(result))).texts
    assert "Note: ensemble: the samples have no ids" in texts
    assert f"Note: {cautions[SUBJECT]}" in texts
    assert f"Note: {cautions['few']}" not in texts
    for repeats, shown in (({"both": ("many", "few")}, {"few"}), ({}, {SUBJECT, "few"})):
        cells = tuple(replace(cell, subject="both") for cell in plain.cells)
        several = replace(result, cells=cells, repeats=repeats)
        notes = Page(result=several, subject="both").notes
        assert {name for name, line in cautions.items() if f"Note: {line}" in notes} == shown


def test_a_result_read_from_a_file_has_its_tables_but_no_threshold() -> None:
    result = make_result(Intervals(20))
    read = RunResult.from_json(result.to_json())
    whole, found = ParsedPage(render(make_page(result))), ParsedPage(render(make_page(read)))
    assert found.tables == whole.tables
    assert "120" in found.texts, "how many ID samples there were"
    assert "Threshold" in whole.texts
    assert not {"Threshold", "Most suspicious ID", "threads"} & set(found.texts)
    assert "PyTorch" in found.texts
    assert found.tags.count("script") == 1


def test_a_page_of_a_model_that_is_not_there() -> None:
    with pytest.raises(InputError, match="did you mean 'made'"):
        Page(result=make_result(), subject="mode")


# ---------------------------------------------------------------------- samples


def test_samples_carry_thumbnail_class_angle_and_triangle() -> None:
    page = make_page()
    text = render(page)
    assert page.evaluation is not None
    assert text.count("data:image/png;base64,") == 7
    assert text.count('<svg class="triangle"') == 7
    first, deceptive = page.result.telling[SUBJECT][0], page.result.telling[SUBJECT][4]
    assert first.triangle is not None
    assert first.score == page.evaluation.id_scores["ORA"].min()
    assert first.triangle.angle == pytest.approx(first.score, rel=1e-5)
    assert f"<strong>ORA θ = {np.degrees(first.triangle.angle):.1f}°</strong>" in text
    assert re.search(r"read as <strong>class \d</strong>", text)
    assert deceptive.score == page.evaluation.ood_scores["ORA"]["blur"].max()
    _, suspicious, deceptive_part = re.split('<section id="(?:suspicious|deceptive)">', text)
    assert suspicious.count('<li class="sample">') == 4
    assert deceptive_part.count('<li class="sample">') == 3


def test_a_sample_without_triangle_or_picture_shows_its_score() -> None:
    plain = TellingSample(row=3, id="#3", score=1.25, predicted="cat", data_set="id_test", truth="dog")
    result = replace(make_result(), telling={SUBJECT: [plain]})
    text = render(make_page(result))
    assert "<strong>ORA 1.25</strong>" in text
    assert "% of ID data score as low" not in text, "it has no p-value"
    assert '<span class="wrong">is dog</span>' in text
    assert "<img" not in text
    assert 'class="triangle"' not in text
    assert "Most deceptive OOD" not in text
    assert "Most suspicious ID" not in render(make_page(replace(result, telling={})))


def test_cards_show_the_score_that_chose_them_and_its_p_value() -> None:
    """Chosen by another score than ORA: its own value and p-value in words, beside ORA's triangle."""
    result = make_result()
    evaluation = result.evaluations[SUBJECT]
    id_scores = evaluation.id_scores["coarse"]
    first, *_, last = result.telling[SUBJECT]
    low, high = float(np.sort(id_scores)[2]), float(np.sort(id_scores)[-4])
    samples = [
        *with_p_values([replace(first, score=low)], id_scores, among=True),
        *with_p_values([replace(last, score=high)], id_scores),
    ]
    others = np.delete(id_scores, np.flatnonzero(id_scores == low)[0])
    assert samples[0].p_value == Calibration(others).p_values(np.array([low]))[0]
    assert samples[1].p_value == Calibration(id_scores).p_values(np.array([high]))[0]
    told = replace(result, highlight="coarse", telling={SUBJECT: samples})
    text = render(make_page(told))
    suspicious, deceptive = re.split('<section id="deceptive">', text)
    for part, sample, does in ((suspicious, samples[0], "flags"), (deceptive, samples[1], "accepts")):
        assert sample.p_value is not None
        assert sample.triangle is not None
        assert f"<strong>coarse {sample.score:.4g}</strong>" in part
        assert f"<span>ORA θ = {np.degrees(sample.triangle.angle):.1f}°</span>" in part
        assert f"p = {sample.p_value:#.3g}: " in part
        assert f"a guard set to 5 % false alarms {does} it." in part
        assert "The triangle is ORA&#39;s, which had no part in the choice." in part


def test_the_recommended_row_is_marked_and_no_other() -> None:
    facts = {"fine": DetectorFacts(text="relative-energy"), "ORA": DetectorFacts(text="ora")}
    found = ParsedPage(render(make_page(replace(make_result(), detectors=facts))))
    for rows in found.tables.values():
        assert [row[0] for row in rows[1:]] == [["ORA"], ["coarse"], ["fine", "recommended"]]


def test_a_triangle_is_drawn_to_scale_or_not_at_all() -> None:
    sides = Triangle(angle=math.pi / 4, distance=1.0, centre_distance=0.0, height=1.0)
    drawn = drawing(sides)
    assert drawn is not None
    (zx, zy), (cx, cy), (px, py) = drawn.feature, drawn.centre, drawn.projection
    assert px - zx == pytest.approx(cy - py, abs=0.2)
    assert (zy, px) == (py, cx)
    assert drawn.degrees == "45.0"
    for lost in (math.nan, math.inf):
        assert drawing(replace(sides, height=lost)) is None
        assert drawing(replace(sides, angle=lost)) is None
    point = drawing(replace(sides, distance=0.0, height=0.0))
    assert point is not None
    assert "nan" not in str(point)
