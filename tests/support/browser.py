"""A headless Chromium, driven through its debugging pipe; no driver and no other package."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "chrome")
_FLAGS: Final = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--remote-debugging-pipe"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions"),
)
_WAIT_S: Final = 60


def browser_path() -> str | None:
    """The browser of this machine, if there is one."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Page:
    """One page; `events` has everything that the browser reported about it."""

    def __init__(self, send: int, receive: int) -> None:
        self._send, self._receive, self._rest, self._number = send, receive, b"", 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Calls a method of the DevTools protocol, and waits for its result."""
        self._number += 1
        asked = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            asked["sessionId"] = self._session
        os.write(self._send, json.dumps(asked).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer)
                found: dict[str, Any] = answer["result"]
                return found
            self.events.append(answer)

    def show(self, path: Path | str, width: int, theme: str) -> None:
        """Opens a file or URL in a window of a width, for a user who prefers a theme."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
        self.events.clear()
        self.call("Page.navigate", url=path if isinstance(path, str) else path.as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())

    def value(self, script: str) -> Any:
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key: str, code: int) -> None:
        """Presses a key, by its name and its code on Windows."""
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def of(self, method: str) -> list[dict[str, Any]]:
        """The parameters of all events of a kind."""
        return [event["params"] for event in self.events if event.get("method") == method]

    def _next(self) -> dict[str, Any]:
        until = time.monotonic() + _WAIT_S
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._receive], [], [], max(until - time.monotonic(), 0))
            part = os.read(self._receive, 1 << 16) if ready else b""
            assert part, "the browser does not answer"
            self._rest += part
        text, _, self._rest = self._rest.partition(b"\0")
        answer: dict[str, Any] = json.loads(text)
        return answer


@contextmanager
def opened_browser(program: str, profile: Path) -> Iterator[Page]:
    """A browser with a new profile, for as long as the context lasts."""
    to_browser, send = os.pipe()
    receive, from_browser = os.pipe()
    # the browser reads its orders from descriptor 3 and answers on 4
    start = f'exec "$0" "$@" 3<&{to_browser} 4>&{from_browser}'
    process = subprocess.Popen(
        ["bash", "-c", start, program, *_FLAGS, f"--user-data-dir={profile}"],
        pass_fds=(to_browser, from_browser),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(to_browser)
    os.close(from_browser)
    try:
        yield Page(send, receive)
    finally:
        process.kill()
        process.wait()
        os.close(send)
        os.close(receive)
