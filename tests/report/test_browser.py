"""The report in a real browser: chromium, headless, from a file, without a network."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sample_report import SUBJECT, make_result, make_scores
from theodolite.benchmarks.joining import join
from theodolite.benchmarks.measure import result_of_scores
from theodolite.benchmarks.result import RunResult
from theodolite.evaluation import Evaluation, threshold_at_tpr
from theodolite.report.page import write_pages

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--window-size=1280,1000",
)

pytest.importorskip("selenium", reason="selenium is not installed: pip install 'theodolite[dev]'")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None,
    reason="no chromium with its driver here: apt-get install chromium chromium-driver",
)


@pytest.fixture(scope="module")
def result() -> RunResult:
    return make_result()


@pytest.fixture(scope="module")
def evaluation(result: RunResult) -> Evaluation:
    return result.evaluations[SUBJECT]


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory, result: RunResult) -> Iterator[tuple[Chrome, str]]:
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service

    folder = tmp_path_factory.mktemp("browser")
    options = ChromeOptions()
    assert CHROMIUM is not None
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={folder / 'profile'}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chrome = Chrome(options=options, service=Service(DRIVER))
    (path,) = write_pages(result, folder)
    yield chrome, path.as_uri()
    chrome.quit()


@pytest.fixture
def page(started: tuple[Chrome, str]) -> Iterator[Chrome]:
    """The page, newly loaded; whatever a test does to it, the console must stay silent."""
    chrome, address = started
    prefer(chrome, "light")
    chrome.get(address)
    yield chrome
    assert chrome.get_log("browser") == []  # type: ignore[no-untyped-call]


def prefer(chrome: Chrome, scheme: str) -> None:
    feature = {"name": "prefers-color-scheme", "value": scheme}
    chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})


def run(chrome: Chrome, script: str, *arguments: Any) -> Any:
    return chrome.execute_script(script, *arguments)


def text(chrome: Chrome, identifier: str) -> str:
    return str(run(chrome, "return document.getElementById(arguments[0]).textContent", identifier))


def choose(chrome: Chrome, detector: str, ood: str) -> None:
    for identifier, value in (("detector", detector), ("set", ood)):
        run(
            chrome,
            "const s = document.getElementById(arguments[0]); s.value = arguments[1];"
            "s.dispatchEvent(new Event('change'))",
            identifier,
            value,
        )


def column(chrome: Chrome, place: int) -> list[str]:
    shown = run(
        chrome,
        "return [...document.querySelectorAll('#table-fpr95 tbody tr')]"
        ".map(row => row.cells[arguments[0]].querySelector('.measured')?.textContent"
        " ?? row.cells[arguments[0]].textContent)",
        place,
    )
    return [str(value) for value in shown]


def test_it_loads_from_a_file_without_an_error(page: Chrome) -> None:
    assert page.title == "A small run"
    asked = run(page, "return performance.getEntriesByType('resource').map(entry => entry.name)")
    assert [name for name in asked if not name.startswith("data:")] == []


def test_headers_sort(page: Chrome) -> None:
    heads = page.find_elements("css selector", "#table-fpr95 thead button")
    heads[1].click()
    values = [float(value) for value in column(page, 1)]
    assert values == sorted(values)
    heads[1].click()
    assert [float(value) for value in column(page, 1)] == sorted(values, reverse=True)
    heads[0].click()
    assert column(page, 0) == ["coarse", "fine", "ORA"]
    sorts = run(
        page, "return [...document.querySelectorAll('#table-fpr95 th[aria-sort]')].map(h => h.ariaSort)"
    )
    assert sorts == ["ascending", "none", "none", "none"]


def test_headings_show_that_they_sort_and_obey_the_keyboard(page: Chrome) -> None:
    from selenium.webdriver.common.keys import Keys

    def signs() -> list[str]:
        script = (
            "return [...document.querySelectorAll('#table-fpr95 .order')]"
            ".map(sign => getComputedStyle(sign, '::before').content)"
        )
        return [str(sign).strip('"') for sign in run(page, script)]

    assert signs() == ["↕"] * 4
    heads = page.find_elements("css selector", "#table-fpr95 thead button")
    heads[2].send_keys(Keys.ENTER)
    values = [float(value) for value in column(page, 2)]
    assert values == sorted(values)
    assert signs() == ["↕", "↕", "↑", "↕"]


def test_the_histogram_says_what_its_axes_are(page: Chrome) -> None:
    choose(page, "coarse", "noise")
    labels = run(page, "return [...document.querySelectorAll('#histogram .label')].map(t => t.textContent)")
    assert labels == ["coarse score: higher is more in-distribution", "share of samples"]


def test_tabs_show_one_metric_at_a_time(page: Chrome) -> None:
    page.find_element("id", "tab-auroc").click()
    assert page.find_element("id", "table-auroc").is_displayed()
    assert not page.find_element("id", "table-fpr95").is_displayed()


@pytest.mark.parametrize("detector", ["ORA", "coarse", "fine"])
@pytest.mark.parametrize("ood", ["blur", "noise"])
def test_the_threshold_counts_like_numpy(
    page: Chrome, evaluation: Evaluation, detector: str, ood: str
) -> None:
    id_scores = evaluation.id_scores[detector]
    ood_scores = evaluation.ood_scores[detector][ood]

    def check(threshold: float) -> None:
        assert text(page, "tpr") == f"{100 * (id_scores >= threshold).mean():.2f}"
        assert text(page, "fpr") == f"{100 * (ood_scores >= threshold).mean():.2f}"

    def current() -> float:
        return float(run(page, "return document.getElementById('threshold').dataset.threshold"))

    choose(page, detector, ood)
    # It opens at the threshold of FPR95, where the rate shown is the table's number.
    assert current() == threshold_at_tpr(id_scores)
    check(current())
    cell = evaluation.metrics[detector][ood]
    assert text(page, "fpr") == f"{100 * cell['fpr95']:.2f}"
    assert text(page, "pair-fpr95") == f"{100 * cell['fpr95']:.2f} %"
    assert text(page, "pair-auroc") == f"{100 * cell['auroc']:.2f} %"
    # Exact halves such as 3.125 % of 96 occur on the way: they too must print as Python prints them.
    shown = run(
        page,
        "const slider = document.getElementById('threshold');"
        "return [...Array(101).keys()].map(k => { slider.value = 10 * k;"
        "slider.dispatchEvent(new Event('input'));"
        "return [slider.dataset.threshold, 'tpr', 'fpr'].map((n, i) =>"
        " i ? document.getElementById(n).textContent : n) })",
    )
    for threshold, tpr, fpr in shown:
        assert tpr == f"{100 * (id_scores >= float(threshold)).mean():.2f}"
        assert fpr == f"{100 * (ood_scores >= float(threshold)).mean():.2f}"
    assert len({row[1] for row in shown}) > 3


def test_live_rates_round_as_the_tables_do(page: Chrome, tmp_path: Path) -> None:
    # 100 · 7/20000 is 0.034999999999999996 in floating point, and 0.035 in the result.
    counts = [7, 17, 23, 35, 39, 2971]
    scores = {str(count): {"id_test": np.ones(20), "o": np.arange(20_000) < count} for count in counts}
    made = result_of_scores(
        {label: {name: part.astype(float) for name, part in sets.items()} for label, sets in scores.items()},
        title="halves",
    )
    (path,) = write_pages(made, tmp_path)
    page.get(path.as_uri())
    for count, shown in zip(counts, column(page, 1), strict=True):
        choose(page, str(count), "o")
        assert text(page, "fpr-count") == f"{count:,} of 20,000"
        assert text(page, "fpr") == shown == f"{made.cell('model', str(count), 'o', 'fpr95').value:.2f}"
        assert text(page, "pair-fpr95") == f"{shown} %"


def test_a_page_without_scores_still_sorts(page: Chrome, result: RunResult, tmp_path: Path) -> None:
    (path,) = write_pages(RunResult.from_json(result.to_json()), tmp_path)
    page.get(path.as_uri())
    assert page.find_elements("id", "threshold") == []
    page.find_elements("css selector", "#table-fpr95 thead button")[0].click()
    assert column(page, 0) == ["coarse", "fine", "ORA"]


def test_the_threshold_moves_by_key_button_and_pointer(page: Chrome, evaluation: Evaluation) -> None:
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.keys import Keys

    slider = page.find_element("id", "threshold")
    before = float(slider.get_attribute("data-threshold") or "nan")
    slider.send_keys(*[Keys.ARROW_RIGHT] * 3)
    after = float(slider.get_attribute("data-threshold") or "nan")
    assert after > before
    id_scores = evaluation.id_scores["ORA"]
    assert text(page, "tpr") == f"{100 * (id_scores >= after).mean():.2f}"
    assert text(page, "tpr") in (slider.get_attribute("aria-valuetext") or "")
    page.find_element("css selector", "[data-tpr='0.9']").click()
    assert text(page, "tpr") == f"{100 * (id_scores >= threshold_at_tpr(id_scores, 0.9)).mean():.2f}"
    picture = page.find_element("id", "histogram")
    ActionChains(page).move_to_element(picture).click().perform()
    dragged = float(slider.get_attribute("data-threshold") or "nan")
    low, high = run(
        page, "return JSON.parse(document.getElementById('scores').textContent).detectors[0].range"
    )
    assert dragged == pytest.approx((low + high) / 2, abs=0.01 * (high - low))


def test_curves_and_thumbnails_are_there(page: Chrome) -> None:
    assert len(page.find_elements("css selector", "#histogram path")) == 2
    assert len(page.find_elements("css selector", "#roc path.other")) == 2
    assert len(page.find_elements("css selector", "#roc path.chosen")) == 1
    widths = run(page, "return [...document.images].map(image => image.complete && image.naturalWidth)")
    assert widths == [112] * 7
    assert len(page.find_elements("css selector", "#suspicious .sample svg.triangle")) == 4
    assert len(page.find_elements("css selector", "#deceptive .sample svg.triangle")) == 3


def contrast(first: list[int], second: list[int]) -> float:
    """WCAG's ratio of relative luminances."""
    shares = np.array([first, second]) / 255
    linear = np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)
    low, high = sorted(linear @ [0.2126, 0.7152, 0.0722])
    return float((high + 0.05) / (low + 0.05))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_colour_schemes_are_readable(page: Chrome, scheme: str) -> None:
    prefer(page, scheme)

    def colour(selector: str, name: str) -> list[int]:
        found = run(
            page,
            "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]].match(/\\d+/g)",
            selector,
            name,
        )
        return [int(part) for part in found[:3]]

    paper, surface = colour("body", "backgroundColor"), colour(".sample", "backgroundColor")
    assert (sum(paper) < 150) == (scheme == "dark")
    assert contrast(colour("body", "color"), paper) > 7
    for selector, ground in (
        (".lead", paper),
        ("#tpr", paper),
        ("#fpr", paper),
        (".facts", surface),
        ("td small", surface),
    ):
        assert contrast(colour(selector, "color"), ground) > 4.5, selector
    page.find_element("id", "theme").click()
    assert (sum(colour("body", "backgroundColor")) < 150) == (scheme == "light")


def test_a_phone_shows_averages_and_folds_the_rest(
    page: Chrome, started: tuple[Chrome, str], tmp_path: Path
) -> None:
    """In one direction only: the average in sight, a cue where a table goes on, no hole between the tiles."""
    from selenium.webdriver.support.wait import WebDriverWait

    size = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        page.get(started[1])
        assert run(page, "return document.documentElement.scrollWidth") <= 390
        (average,) = [
            head
            for head in page.find_elements("css selector", "#table-fpr95 thead th")
            if head.text.startswith("average")
        ]
        assert average.rect["x"] + average.rect["width"] <= 390
        tiles = [tile.rect for tile in page.find_elements("css selector", ".figures > div")]
        for top in {tile["y"] for tile in tiles}:
            row = [tile for tile in tiles if tile["y"] == top]
            assert sum(tile["width"] for tile in row) > 0.95 * 358, "every row of tiles is full"
        closed = run(page, "return [...document.querySelectorAll('details.fold')].map(fold => fold.open)")
        assert closed
        assert not any(closed)
        many = {f"score {place}": sets for place in range(20) for sets in [{**make_scores()["ORA"]}]}
        wide = {
            label: {**sets, **{f"set {k}": sets["blur"] for k in range(6)}} for label, sets in many.items()
        }
        (path,) = write_pages(result_of_scores(wide, title="many"), tmp_path)
        page.get(path.as_uri())
        rows = page.find_elements("css selector", "#table-fpr95 tbody tr")
        assert [row.is_displayed() for row in rows] == [True] * 12 + [False] * 8
        page.find_element("css selector", "#table-fpr95 .unfold").click()
        assert all(row.is_displayed() for row in rows)
        more = "return document.querySelector('#table-fpr95 .scroll').classList.contains('more')"
        assert run(page, more)
        run(page, "document.querySelector('#table-fpr95 .scroll').scrollLeft = 9999")
        WebDriverWait(page, 5).until(lambda _: not run(page, more))
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_the_page_of_several_models_sorts_each_table_by_itself(
    page: Chrome, result: RunResult, tmp_path: Path
) -> None:
    """What is absent stays at the end in either order; tabs of one section leave the others alone."""
    names = ("one", "two")
    cells = tuple(
        replace(cell, subject=name, value=cell.value / (1 + place))
        for place, name in enumerate(names)
        for cell in result.cells
        if (name, cell.detector) != ("two", "coarse")
    )
    facts = dict.fromkeys(names, result.subjects[SUBJECT])
    joint, *_ = write_pages(join(replace(result, cells=cells, subjects=facts)), tmp_path)
    page.get(joint.as_uri())

    def shown(place: int) -> list[str]:
        rows = page.find_elements("css selector", "#table-models-fpr95 tbody tr")
        return [row.find_elements("css selector", "th, td")[place].text.split()[0] for row in rows]

    heads = page.find_elements("css selector", "#table-models-fpr95 thead button")
    assert [head.text for head in heads] == ["detector", "average of 2 models", "rank", "one", "two"]
    for place in (1, 2, 4):
        heads[place].click()
        values = shown(place)
        assert values[-1] == "–"
        assert [float(value) for value in values[:-1]] == sorted(float(value) for value in values[:-1])
        heads[place].click()
        assert shown(place)[-1] == "–"
        assert shown(0)[-1] == "coarse"
    page.find_element("id", "tab-model-2-auroc").click()
    visible = [
        table.get_attribute("id")
        for table in page.find_elements("css selector", ".table")
        if table.is_displayed()
    ]
    assert visible == ["table-models-fpr95", "table-model-1-fpr95", "table-model-2-auroc"]
    size = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        assert run(page, "return document.documentElement.scrollWidth") <= 390
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
