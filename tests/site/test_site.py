"""The documentation site in a browser; `make docs-check` builds it first. Nothing comes from elsewhere, no script
fails, and a checker of accessibility finds nothing, at two widths and in two themes.

Accessibility is checked by axe-core, which npm fetches once.
"""

from __future__ import annotations

import shutil
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pytest

from tests.meta.sources import ROOT
from tests.support.browser import Page, browser_path, opened_browser

SITE: Final = ROOT / "build" / "site"
PAGES: Final = ("index", "options", "api/table", "differences/deliberate", "tutorials/lake-from-csv")
AXE: Final = "axe-core@4.14.1"

pytestmark = [
    pytest.mark.skipif(browser_path() is None, reason="no Chromium on this machine (Debian's package: chromium)"),
    pytest.mark.skipif(not (SITE / "index.html").is_file(), reason="the site is not built: run `make docs-check`"),
]


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing of requests."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(SITE))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    program = browser_path()
    assert program is not None
    with opened_browser(program, tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture(scope="module")
def axe() -> str:
    """The script of axe-core."""
    folder = Path.home() / ".cache" / "hudi-py" / AXE
    script = folder / "package" / "axe.min.js"
    if not script.is_file():
        if shutil.which("npm") is None:
            pytest.skip("no npm on this machine, which fetches axe-core")
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["npm", "pack", "--silent", AXE], cwd=folder, check=True, capture_output=True)
        with tarfile.open(folder / f"{AXE.replace('@', '-')}.tgz") as archive:
            archive.extract("package/axe.min.js", folder)
    return script.read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page(browser: Page, address: str, axe: str, name: str, theme: str, width: int) -> None:
    url = f"{address}/{name}.html"
    browser.show(url, width, theme)
    browser.value("localStorage.clear()")  # the theme that was chosen before
    browser.show(url, width, theme)
    _wait(browser, 800)  # colours change gradually
    assert browser.value("document.body.dataset.mdColorScheme") == {"light": "default", "dark": "slate"}[theme]
    assert browser.value("document.documentElement.scrollWidth <= innerWidth"), "only tables and code scroll sideways"
    asked = [each["request"]["url"] for each in browser.of("Network.requestWillBeSent")]
    assert asked[0] == url
    assert [each for each in asked if not each.startswith((address, "data:", "blob:"))] == []
    assert browser.of("Runtime.exceptionThrown") == []
    assert [each["entry"]["text"] for each in browser.of("Log.entryAdded")] == []
    browser.value(f"{axe}\n;0")
    found = browser.value(
        "axe.run(document, {resultTypes: ['violations']}).then(all => all.violations.map(each => "
        "[each.id, each.impact, each.nodes.length, each.nodes[0].html.slice(0, 200), each.nodes[0].failureSummary]))"
    )
    assert found == []


def test_the_navigation_is_shown_where_it_has_room(browser: Page, address: str) -> None:
    button = "document.querySelector('.md-header__button[for=__drawer]').checkVisibility()"
    for width, wide in ((1200, True), (800, False)):
        browser.show(f"{address}/doctor.html", width, "light")
        assert browser.value(button) != wide
        assert browser.value("document.querySelector('.md-tabs').checkVisibility()") == wide
        # the first of them is that of the table of contents
        links = "document.querySelectorAll('.md-sidebar--primary .md-nav__link--active')"
        place = f"[...{links}].at(-1).getBoundingClientRect()"
        assert (browser.value(f"{place}.width") > 0 and browser.value(f"{place}.left") >= 0) == wide


@pytest.mark.parametrize("width", [1200, 800])
@pytest.mark.parametrize("name", ["doctor", "compatibility", "benchmarks", "from-glue-emr"])
def test_tables_fit(browser: Page, address: str, name: str, width: int) -> None:
    browser.show(f"{address}/{name}.html", width, "light")
    wide = "[...document.querySelectorAll('.md-typeset__scrollwrap')].filter(x => x.scrollWidth > x.clientWidth)"
    assert browser.value(f"{wide}.map(x => x.textContent.trim().slice(0, 80))") == []


def test_what_the_reference_names_is_described(browser: Page, address: str) -> None:
    objects = "[...document.querySelectorAll('.doc-object')]"
    empty = f"{objects}.filter(x => !x.querySelector('.doc-contents')?.textContent.trim())"
    for page in sorted((SITE / "api").glob("*.html")):
        browser.show(f"{address}/api/{page.name}", 1280, "light")
        assert browser.value(f"{empty}.map(x => x.querySelector('.doc-heading')?.id)") == [], page.name


def test_search_finds_an_option(browser: Page, address: str) -> None:
    browser.show(f"{address}/index.html", 1280, "light")
    _wait(browser, 1000)
    browser.value("document.querySelector('.md-search__button').click()")
    _wait(browser, 500)
    browser.call("Input.insertText", text="secondary index")
    _wait(browser, 2000)
    found = browser.value("document.activeElement.shadowRoot.textContent")
    assert "hoodie.metadata.index.secondary.enable" in found


def _wait(browser: Page, milliseconds: int) -> None:
    browser.value(f"new Promise(done => setTimeout(done, {milliseconds}))")
