"""The page in a browser, where there is one: nothing is requested, no error, all by keyboard, two widths and themes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

import pytest

from hudi_py.report.methods import page
from tests.support.browser import Page, browser_path, opened_browser
from tests.support.made_up import file, instant, report_of, written

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(browser_path() is None, reason="no Chromium on this machine (Debian's package: chromium)"),
]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a table with 10,000 instants and 100,000 files."""
    instants = [instant(n * 60, "deltacommit", 90 if n % 7 else None) for n in range(10_000)]
    history = [written(n * 60, "deltacommit", "UPSERT", (1, 2, 3), 9) for n in range(10_000)]
    files = [file(n, f"a long name of a partition/day={n % 3_000}", n * 1_000, n % 5, n) for n in range(1, 100_001)]
    path = tmp_path_factory.mktemp("page") / "trips.html"
    path.write_text(page(report_of(instants, history, files)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    program = browser_path()
    assert program is not None
    with opened_browser(program, tmp_path_factory.mktemp("profile")) as page:
        yield page


FOCUS = "[document.activeElement].flatMap(each => [each.tagName, each.type || each.className || ''])"
BACKGROUND = "getComputedStyle(document.body).backgroundColor"


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_opens(browser: Page, shown: Path, width: int, theme: str) -> None:
    started = perf_counter()
    browser.show(shown, width, theme)
    assert perf_counter() - started < 20, "a second on an idle machine"
    assert browser.value(BACKGROUND) == {"light": "rgb(245, 246, 248)", "dark": "rgb(15, 19, 23)"}[theme]
    assert browser.value("document.documentElement.scrollWidth <= innerWidth"), "only tables scroll sideways"
    assert browser.value("document.documentElement.dataset.script") == "", "the script ran to its end"
    assert browser.value("[...document.querySelectorAll('input[type=range], .copy')].every(each => !each.hidden)")
    asked = [each["request"]["url"] for each in browser.of("Network.requestWillBeSent")]
    assert asked[0] == shown.as_uri()
    assert all(url.startswith("data:") for url in asked[1:]), asked
    assert browser.of("Runtime.exceptionThrown") == []
    assert browser.of("Runtime.consoleAPICalled") == []
    assert [each["entry"]["text"] for each in browser.of("Log.entryAdded")] == []


def test_the_keyboard_reaches_everything(browser: Page, shown: Path) -> None:
    browser.show(shown, 390, "light")
    reached = []
    for _ in range(60):
        browser.press("Tab", 9)
        reached.append(tuple(browser.value(FOCUS)))
        if reached[-1][0] == "BODY":
            break
    assert reached[0] == ("A", "skip")
    assert reached[1] == ("INPUT", "radio")
    kinds = [kind for _, kind in reached]
    assert (kinds.count("range"), kinds.count("radio")) == (3, 1)
    assert "scroll" in kinds
    assert "button" in kinds
    assert ("SUMMARY", "") in reached


def test_a_slider_says_what_a_chart_shows(browser: Page, shown: Path) -> None:
    browser.show(shown, 1280, "light")
    browser.value("document.querySelector('#timeline input[type=range]').focus()")
    said = "document.activeElement.getAttribute('aria-valuetext')"
    newest = browser.value(said)
    browser.press("ArrowLeft", 37)
    before = browser.value(said)
    assert "delta commits" in newest
    assert before != newest
    assert before.split(" to ")[1].startswith(newest.split(" to ")[0])
    assert browser.value("document.querySelector('#timeline .detail').textContent") == before
    browser.press("Home", 36)
    assert browser.value(said).startswith("2026-09-21")


def test_the_theme_can_be_chosen(browser: Page, shown: Path) -> None:
    browser.show(shown, 1280, "light")
    light = browser.value(BACKGROUND)
    browser.value("document.querySelector('#theme-auto').focus()")
    for _ in range(2):
        browser.press("ArrowRight", 39)
    assert browser.value("document.activeElement.id") == "theme-dark"
    assert browser.value(BACKGROUND) == "rgb(15, 19, 23)" != light
