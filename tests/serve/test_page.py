"""The page of the service in a real browser: what a person sees is what the service said, as text."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")

from live_service import live, picture, picture_guard, png
from made_guards import fitted
from theodolite import ORA, Guard
from theodolite.serve import Bounds, Service, judging_of
from theodolite.serve.door import access

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
TOKEN = "a-token-for-this-test"
HOSTILE = "<img src=x onerror=alert(1)>"
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
    "--window-size=1200,1000",
)
needs_browser = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None,
    reason="no chromium with its driver here: apt-get install chromium chromium-driver",
)


def page_guard() -> Guard:
    return picture_guard(class_names=(HOSTILE, "one & two", "three"), detector=ORA())


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with live(Service(judging_of(page_guard()), bounds=Bounds(pixels=10_000))) as address:
        yield address


@pytest.fixture(scope="module")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    pytest.importorskip("selenium", reason="selenium is not installed: pip install 'theodolite[dev]'")
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service as Driver

    options = ChromeOptions()
    assert CHROMIUM is not None
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('browser') / 'profile'}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chrome = Chrome(options=options, service=Driver(DRIVER))
    yield chrome
    chrome.quit()


def wait(chrome: Chrome, script: str) -> Any:
    from selenium.webdriver.support.wait import WebDriverWait

    return WebDriverWait(chrome, 20).until(lambda _: chrome.execute_script(f"return {script}"))


def choose(chrome: Chrome, *files: Path) -> list[dict[str, str]]:
    """Choose files as a person does, and read the cards from the page."""
    chrome.execute_script("document.getElementById('progress').textContent = ''")
    chrome.find_element("id", "file").send_keys("\n".join(map(str, files)))
    wait(chrome, "document.getElementById('progress').textContent !== ''")
    parts = ("name", "class", "verdict", "words", "facts", "figcaption")
    script = """return [...document.querySelectorAll('.card')].map(card => Object.fromEntries(
        arguments[0].map(part => [part, card.querySelector('.' + part + ',' + part)?.textContent ?? ''])))"""
    cards: list[dict[str, str]] = chrome.execute_script(script, parts)
    return cards


def saved(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


@needs_browser
def test_pictures_get_their_verdict_in_words(chrome: Chrome, address: str, tmp_path: Path) -> None:
    chrome.get(address)
    wait(chrome, "!document.getElementById('drop').hidden")
    about = chrome.find_element("id", "about").text
    assert "ORA on python:small_models:Tiny" in about
    assert "at most 5 %" in about
    files = [
        saved(tmp_path, f"{HOSTILE.replace('/', '')}{seed}.png", png(picture(seed))) for seed in range(6)
    ]
    files.append(saved(tmp_path, "no-picture.txt", b"words"))
    cards = choose(chrome, *files)
    form = [("pictures", (file.name, file.read_bytes())) for file in files]
    said = httpx.post(f"{address}/v1/score?explain=true", files=form).json()["results"]
    assert [card["name"] for card in cards] == [entry["name"] for entry in said]
    for card, entry in zip(cards[:-1], said, strict=False):
        assert card["class"] == entry["class_name"]
        assert card["verdict"] == {"ID": "In distribution", "OOD": "Out of distribution"}[entry["verdict"]]
        assert card["words"].startswith("Do not trust") == (entry["verdict"] == "OOD")
        shown = float(card["facts"].split()[1])
        assert shown == pytest.approx(entry["p_value"], rel=5e-3)
        assert entry["triangle"]["across_name"] in card["figcaption"]
        assert f"{entry['triangle']['angle'] * 57.29577951308232:.1f}°" in card["figcaption"]
    assert cards[-1]["verdict"] == "Unreadable"
    # Names are text: nothing of them became part of the page.
    assert chrome.execute_script("return document.querySelectorAll('.card img[src=x]').length") == 0
    assert {card["class"] for card in cards} & {HOSTILE, "one & two", "three"}
    loaded = chrome.execute_script("return performance.getEntriesByType('resource').map(e => e.name)")
    assert all(name.startswith((address, "blob:")) for name in loaded)
    assert chrome.get_log("browser") == []  # type: ignore[no-untyped-call]


@needs_browser
def test_the_triangle_is_drawn_to_scale(chrome: Chrome, address: str, tmp_path: Path) -> None:
    chrome.get(address)
    wait(chrome, "!document.getElementById('drop').hidden")
    choose(chrome, saved(tmp_path, "a.png", png(picture(1))))
    form = [("pictures", ("a.png", png(picture(1))))]
    seen = httpx.post(f"{address}/v1/score?explain=true", files=form).json()["results"][0]["triangle"]
    script = """return [...document.querySelectorAll('.triangle circle')].map(
        dot => [dot.getAttribute('cx'), dot.getAttribute('cy')].map(Number))"""
    (mx, my), (px, py), (zx, zy) = chrome.execute_script(script)
    scale = (my - zy) / seen["height"]
    assert zy == pytest.approx(py)
    assert (px - zx) / scale == pytest.approx(seen["distance"], rel=1e-6)
    assert (px - mx) / scale == pytest.approx(seen["centre_distance"], rel=1e-6, abs=1e-9)


@needs_browser
def test_a_refusal_is_shown_on_its_card(chrome: Chrome, address: str, tmp_path: Path) -> None:
    chrome.get(address)
    wait(chrome, "!document.getElementById('drop').hidden")
    large, fine = picture(0).resize((200, 200)), picture(1)
    cards = choose(chrome, saved(tmp_path, "l.png", png(large)), saved(tmp_path, "f.png", png(fine)))
    assert cards[0]["verdict"] == "No answer"
    assert "more than the 10,000 pixels" in cards[0]["words"]
    assert cards[1]["verdict"] in ("In distribution", "Out of distribution")
    chrome.get_log("browser")  # type: ignore[no-untyped-call]


@needs_browser
def test_keyboard_labels_and_both_schemes(chrome: Chrome, address: str) -> None:
    chrome.get(address)
    wait(chrome, "!document.getElementById('drop').hidden")
    from selenium.webdriver.common.keys import Keys

    reached = []
    for _ in range(2):
        chrome.switch_to.active_element.send_keys(Keys.TAB)
        reached.append(
            chrome.switch_to.active_element.get_attribute("id") or chrome.switch_to.active_element.text
        )
    assert reached == ["API", "file"]
    assert chrome.find_element("css selector", "label[for=file]").text.startswith("Choose pictures")
    colours = []
    for scheme in ("light", "dark"):
        feature = {"name": "prefers-color-scheme", "value": scheme}
        chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        colours.append(chrome.execute_script("return getComputedStyle(document.body).backgroundColor"))
    assert colours == ["rgb(251, 250, 247)", "rgb(17, 21, 26)"]


@needs_browser
def test_the_token_is_asked_for(chrome: Chrome, tmp_path: Path) -> None:
    with live(Service(judging_of(page_guard())), access("127.0.0.1", TOKEN)) as address:
        chrome.get(address)
        wait(chrome, "!document.getElementById('token-form').hidden")
        field = chrome.find_element("id", "token")
        field.send_keys("wrong")
        field.submit()
        wait(chrome, "!document.getElementById('problem').hidden")
        field.clear()
        field.send_keys(TOKEN)
        field.submit()
        wait(chrome, "!document.getElementById('drop').hidden")
        (card,) = choose(chrome, saved(tmp_path, "a.png", png(picture(1))))
        assert card["verdict"] in ("In distribution", "Out of distribution")
    chrome.get_log("browser")  # type: ignore[no-untyped-call]


@needs_browser
def test_a_guard_of_features_says_so(chrome: Chrome) -> None:
    with pytest.warns(UserWarning, match="knows no model"):
        judging = judging_of(fitted())
    with live(Service(judging)) as address:
        chrome.get(address)
        wait(chrome, "!document.getElementById('problem').hidden")
        assert "judges features of width 16, not pictures" in chrome.find_element("id", "problem").text
        assert not chrome.find_element("id", "drop").is_displayed()


def test_the_pages_load_nothing_from_elsewhere(address: str) -> None:
    for path in ("/", "/docs", "/assets/page.css", "/assets/page.js", "/assets/mark.svg"):
        text = httpx.get(address + path).text
        foreign = [word for word in text.split('"') if word.startswith(("http", "//"))]
        assert [word for word in foreign if not word.startswith("http://www.w3.org/2000/svg")] == []
        assert "style=" not in text
        assert "innerHTML" not in text
    assert httpx.get(f"{address}/assets/page.html").status_code == 404


def test_the_description_is_a_page(address: str) -> None:
    text = httpx.get(f"{address}/docs").text
    for said in (
        "/v1/score",
        "multipart/form-data",
        "Too many bytes",
        "/metrics",
        "false_alarm_rate",
    ):
        assert said in text
