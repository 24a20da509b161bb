"""Chromium for tests of pages, steered by its DevTools protocol over loopback.

`open_browser` starts one, a `Tab` shows a page in a given size and colour scheme and answers
questions about it in JavaScript. What must stay true: a missing Chromium is never silent (in CI it
fails the test, elsewhere it skips with the command that installs it); a tab remembers everything
that went wrong on its page; the process is stopped, by its own id, whatever happens.
"""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp

from tests.missing_part import skip_or_fail

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
#: As root, and in most containers, Chromium cannot make a sandbox; it shows only pages of ours.
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--hide-scrollbars",
    "--no-first-run",
    "--remote-debugging-port=0",
)
_START_S = 90.0
#: What Chromium answers if a page was left while it was asked.
_NAVIGATED = "Inspected target navigated or closed"
_numbers = count(1)


def require_chromium() -> str:
    """The path of the browser; skips or fails the test where there is none."""
    for name in NAMES:
        if found := shutil.which(name):
            return found
    message = "Chromium is missing: apt-get install chromium (as .ci/run does)"
    return skip_or_fail(message)


class Tab:
    """One page; made by `open_browser`."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, session: str | None) -> None:
        self._socket = socket
        #: Without a session it is the browser itself that is called.
        self._address = {} if session is None else {"sessionId": session}
        #: Errors and warnings of the console, exceptions, and requests that failed.
        self.complaints: list[str] = []
        #: Every address that was asked for.
        self.requests: list[str] = []
        self._events: list[str] = []

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(_numbers)
        order = {"id": number, "method": method, "params": params}
        await self._socket.send_json(order | self._address)
        while True:
            message = await self._socket.receive_json()
            if message.get("id") == number:
                problem = message.get("error", {})
                if problem.get("message") == _NAVIGATED and method == "Runtime.evaluate":
                    return await self.call(method, **params)  # ask the page that came instead
                assert not problem, (method, problem)
                result: dict[str, Any] = message["result"]
                return result
            self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        method, params = message.get("method", ""), message.get("params", {})
        self._events.append(method)
        if method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.complaints.append(json.dumps(params["args"]))
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(params["exceptionDetails"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(params["entry"]["text"])
        elif method == "Network.loadingFailed":
            self.complaints.append(params["errorText"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    async def open(
        self, url: str, *, width: int = 1280, height: int = 900, dark: bool = False
    ) -> None:
        """Show a page, and return once all of it is there."""
        for domain in ("Page", "Runtime", "Log", "Network"):
            await self.call(f"{domain}.enable")
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])
        self._events.clear()
        await self.call("Page.navigate", url=url)
        while "Page.loadEventFired" not in self._events:
            self._note(await self._socket.receive_json())

    async def ask(self, expression: str) -> Any:
        """What a JavaScript expression is worth on the page."""
        answer = await self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    async def picture(self, path: Path, *, whole: bool = True) -> None:
        """A screenshot, for people who want to see why a test fails."""
        answer = await self.call(
            "Page.captureScreenshot", format="png", captureBeyondViewport=whole
        )
        path.write_bytes(base64.b64decode(answer["data"]))


@asynccontextmanager
async def open_browser(*flags: str) -> AsyncIterator[Tab]:
    """A Chromium of its own, with a profile that is thrown away, and an empty tab in it."""
    program = require_chromium()
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as profile:
        log = Path(profile, "log")
        with log.open("wb") as said:
            process = await asyncio.create_subprocess_exec(
                program, *FLAGS, *flags, f"--user-data-dir={profile}", stdout=said, stderr=said
            )
        try:
            address = await _address(process, Path(profile))
            async with (
                aiohttp.ClientSession() as client,
                client.ws_connect(address, max_msg_size=0) as socket,
            ):
                yield await _new_tab(socket)
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()


async def _address(process: asyncio.subprocess.Process, profile: Path) -> str:
    """Chromium writes it into a file, a port and a path, once it listens."""
    file = profile / "DevToolsActivePort"
    async with asyncio.timeout(_START_S):
        while not (file.exists() and all(lines := file.read_text().split("\n")) and lines[1:]):
            said = (profile / "log").read_text(errors="replace")
            assert process.returncode is None, f"Chromium has ended: {said}"
            await asyncio.sleep(0.05)
    return f"ws://127.0.0.1:{lines[0]}{lines[1]}"


async def _new_tab(socket: aiohttp.ClientWebSocketResponse) -> Tab:
    browser = Tab(socket, None)
    target = await browser.call("Target.createTarget", url="about:blank")
    attached = await browser.call(
        "Target.attachToTarget", targetId=target["targetId"], flatten=True
    )
    return Tab(socket, attached["sessionId"])
