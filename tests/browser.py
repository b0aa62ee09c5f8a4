"""Headless Chromium, driven over a pipe: what a page draws, says and asks the network for."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
MISSING = "Chromium is not installed; type: apt-get install -y chromium"
# A process that inherits two pipes as the file descriptors that Chromium reads commands from and writes answers to.
_START = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execv(sys.argv[3], sys.argv[3:])"
)


class Page:
    """An open page.

    Attributes:
        told: What the console said, and exceptions that nobody caught.
        asked: Addresses that were asked for.
    """

    def __init__(self, to: int, from_: int) -> None:
        self._to, self._from, self._number, self._session, self._left = to, from_, 0, "", b""
        self.told: list[str] = []
        self.asked: list[str] = []

    def ask(self, method: str, **params: Any) -> Any:
        """Send a command of the DevTools protocol, and return its result."""
        self._number += 1
        session = {"sessionId": self._session} if self._session else {}
        message = {"id": self._number, "method": method, "params": params, **session}
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self._keep(answer)

    def _read(self) -> Any:
        while b"\0" not in self._left:
            more = os.read(self._from, 1 << 20)
            assert more, "Chromium ended"
            self._left += more
        message, _, self._left = self._left.partition(b"\0")
        return json.loads(message)

    def _keep(self, event: Any) -> None:
        params = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            self.told.append(json.dumps(params["exceptionDetails"]))
        elif event.get("method") == "Runtime.consoleAPICalled":
            self.told.append(json.dumps(params["args"]))
        elif event.get("method") == "Log.entryAdded":
            self.told.append(params["entry"]["text"])
        elif event.get("method") == "Network.requestWillBeSent":
            self.asked.append(params["request"]["url"])

    def open(self, path: Path, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Open a file, and wait until it is loaded."""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.ask("Emulation.setEmulatedMedia", features=scheme)
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.ask("Emulation.setDeviceMetricsOverride", **metrics)
        self.ask("Page.navigate", url=path.resolve().as_uri())
        self.value("new Promise(done => document.readyState == 'complete' ? done(1) : addEventListener('load', done))")

    def value(self, expression: str) -> Any:
        """Evaluate an expression of JavaScript, and wait for a promise."""
        given = self.ask("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in given, given
        return given["result"].get("value")

    def draw_all(self) -> None:
        """Open what is folded and draw every chart, as before a print."""
        self.value("dispatchEvent(new Event('beforeprint'))")

    def picture(self, path: Path, *, whole: bool = False) -> None:
        """Write what is to be seen as PNG; or the whole page."""
        self.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        clip = {}
        if whole:
            size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}}
        found = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole, **clip)
        path.write_bytes(base64.b64decode(found["data"]))


@contextmanager
def browser(folder: Path) -> Iterator[Page]:
    """Yield a page of a Chromium that knows nothing, and ends with it.

    Args:
        folder: For its profile.
    """
    assert CHROMIUM is not None, MISSING
    (to_read, to), (from_, from_write) = os.pipe(), os.pipe()
    options = ["--headless=new", "--no-sandbox", "--remote-debugging-pipe", "--disable-gpu", "--hide-scrollbars",
               "--no-first-run", "--disable-background-networking", f"--user-data-dir={folder}"]  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-c", _START, str(to_read), str(from_write), CHROMIUM, *options, "about:blank"],
        pass_fds=(to_read, from_write),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(to_read)
    os.close(from_write)
    try:
        yield Page(to, from_)
    finally:
        process.kill()
        process.wait()
        os.close(to)
        os.close(from_)
