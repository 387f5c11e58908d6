"""Headless Chromium, told what to do over its own pipe: pages opened, clicked and pictured, and what they ask for."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import itertools
import json
import os
import selectors
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
STAYS_HERE = frozenset({"file", "data", "blob", "about", "chrome-error"})
"""Schemes of addresses that need no network."""
_LONGEST = 200
"""Characters that are recorded of an address, which may contain the data of a page."""


def installed_chromium() -> str | None:
    """Return the path of the browser; None if it is not installed."""
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


class BrowserTrouble(RuntimeError):
    """The browser failed; the message has its output."""


class Browser:
    """A running browser with one page. It records every address that the page, its frames or workers request."""

    def __init__(self, process: subprocess.Popen[bytes], to: int, come_from: int) -> None:
        self._process = process
        self._to = to
        self._come_from = come_from
        self._numbers = itertools.count(1)
        self._left = b""
        self._ready = selectors.DefaultSelector()
        self._ready.register(come_from, selectors.EVENT_READ)
        self.asked: list[str] = []
        self.errors: list[str] = []
        page = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        self._watch(self._session)

    def _watch(self, session: str) -> None:
        for domain in ("Network", "Page", "Runtime"):
            with contextlib.suppress(BrowserTrouble):  # a worker has no pages
                self._call(f"{domain}.enable", session)
        follow = {"autoAttach": True, "waitForDebuggerOnStart": False, "flatten": True}
        self._call("Target.setAutoAttach", session, **follow)

    def open(self, address: str) -> None:
        """Open an address and wait until it is loaded."""
        self.run("window.leaving = true")
        self._call("Page.navigate", self._session, url=address)
        self.until("!window.leaving && document.readyState === 'complete'")

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page."""
        said = self._call(
            "Runtime.evaluate", self._session, expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in said:
            raise BrowserTrouble(f"{script}: {said['exceptionDetails']}")
        return said["result"].get("value")

    def until(self, condition: str, timeout_s: float = 30.0) -> None:
        """Wait until an expression is true in the page. Raises BrowserTrouble with what the page shows instead."""
        end = time.monotonic() + timeout_s
        while not self.run(f"(() => {{ try {{ return Boolean({condition}) }} catch {{ return false }} }})()"):
            if time.monotonic() > end:
                text = self.run("document.body ? document.body.innerText.slice(0, 1500) : ''")
                raise BrowserTrouble(f"not true after {timeout_s:g} s: {condition}; the page shows: {text}")
            time.sleep(0.05)

    def size(self, width: int, height: int) -> None:
        """Set the size of the view in pixels."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._call("Emulation.setDeviceMetricsOverride", self._session, **metrics)

    def screenshot(self, path: Path) -> None:
        """Save the view as PNG."""
        data = self._call("Page.captureScreenshot", self._session, format="png")["data"]
        path.write_bytes(base64.b64decode(data))

    @property
    def asked_elsewhere(self) -> list[str]:
        """Return the requests to anything but this machine's disk and the page itself."""
        self.run("0")  # events before this answer have arrived by now
        return [address for address in self.asked if urlsplit(address).scheme not in STAYS_HERE]

    def _call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            said = self._next()
            if said.get("id") == number:
                if "error" in said:
                    raise BrowserTrouble(f"{method}: {said['error']}")
                return dict(said["result"])

    def _next(self, timeout_s: float = 60.0) -> dict[str, Any]:
        while b"\0" not in self._left:
            if not self._ready.select(timeout_s):
                raise BrowserTrouble(f"the browser said nothing for {timeout_s:g} s")
            more = os.read(self._come_from, 1 << 20)
            if not more:
                raise BrowserTrouble(f"the browser ended with exit code {self._process.wait(10)}")
            self._left += more
        message, _, self._left = self._left.partition(b"\0")
        said: dict[str, Any] = json.loads(message)
        self._heard(said.get("method", ""), said.get("params", {}))
        return said

    def _heard(self, method: str, params: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.asked.append(params["request"]["url"][:_LONGEST])
        elif method == "Network.webSocketCreated":
            self.asked.append(params["url"][:_LONGEST])
        elif method == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(params["exceptionDetails"])[:500])
        elif method == "Target.attachedToTarget" and params["targetInfo"]["type"] != "page":
            self._watch(params["sessionId"])


@contextlib.contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """Start a browser with its files in ``profile``, which resolves no names."""
    program = installed_chromium()
    if program is None:
        raise BrowserTrouble(f"none of {', '.join(PROGRAMS)} is installed")
    read_by_it, to = os.pipe()
    come_from, written_by_it = os.pipe()

    def takes_over() -> None:
        # Where it reads and writes: 3 and 4, by its own convention. First out of the way of those two.
        apart = [fcntl.fcntl(each, fcntl.F_DUPFD, 10) for each in (read_by_it, written_by_it)]
        for given, wanted in zip(apart, (3, 4), strict=True):
            os.dup2(given, wanted)

    process = subprocess.Popen(
        [
            program,
            "--headless",
            "--remote-debugging-pipe",
            "--no-sandbox",  # root has none
            "--disable-dev-shm-usage",
            "--disable-gpu",
            "--hide-scrollbars",
            "--host-resolver-rules=MAP * ~NOTFOUND",
            f"--user-data-dir={profile}",
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        close_fds=False,
        preexec_fn=takes_over,  # noqa: PLW1509 - no threads here
    )
    os.close(read_by_it)
    os.close(written_by_it)
    try:
        yield Browser(process, to, come_from)
    finally:
        os.close(to)  # that ends it
        os.close(come_from)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
