"""The page Shadow of `stowplan shadow --console`, in a real browser, and its refusals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.request
from pathlib import Path

import pytest

from tests.browser import Tab, open_browser
from tests.embedded_fixtures import running_embedded_server
from tests.integration.record_stage import STOWPLAN, Stage, run
from tests.integration.test_console_pages import STATUS, serious_findings, until, until_text
from tests.waiting import wait_for

pytestmark = [pytest.mark.slow]

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)], ids=["wide", "phone"])
async def test_the_page_shadow(tmp_path: Path, width: int, dark: bool) -> None:
    with running_embedded_server(tmp_path) as server:
        stage = Stage(server)
        for name in ("node-a", "node-b"):
            stage.node(name)
        command = [*STOWPLAN, "shadow", "--console=0", "-o", "json"]
        process = subprocess.Popen(
            [*command, "--kubeconfig", str(server.kubeconfig_path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stderr is not None
            said = process.stderr.readline()
            assert said.startswith("Console on http://127.0.0.1:"), said
            url = said.removeprefix("Console on ").strip()
            assert process.stderr.readline().startswith("The cluster is known")
            async with open_browser() as tab:
                await tab.open(url, width=width, height=820, dark=dark)
                await until_text(tab, "No pod was bound since the shadow began")
                await play(stage, url)
                await shown(tab, url, width, is_picture=not dark)
        finally:
            process.send_signal(signal.SIGTERM)
            told, _ = process.communicate(timeout=30)
    report = json.loads(told)
    assert (report["decisions"], report["agreement"]) == (2, 0.5)
    (difference,) = report["differences"]
    assert 0 < difference["at"] < 300  # seconds since it began


async def play(stage: Stage, url: str) -> None:
    """A choice among equal nodes, then one of the fuller node."""
    stage.pod("one", "node-a")
    wait_for("a decision", lambda: view(url)["decisions"] == 1)
    stage.pod("two", "node-a")
    wait_for("a difference", lambda: view(url)["decisions"] == 2)


async def shown(tab: Tab, url: str, width: int, *, is_picture: bool) -> None:
    await until_text(tab, "50.0%", "Agreement", "default/two", "node-b", "NodeResourcesFit +")
    await until(tab, STATUS, lambda said: said == "live")
    assert await tab.ask("document.documentElement.scrollWidth") <= width
    assert await serious_findings(tab) == []
    assert tab.complaints == []
    if is_picture and os.environ.get("CONSOLE_PICTURES"):
        await tab.picture(ROOT / "docs" / "images" / "console-shadow.png", whole=False)
    # The other pages show the same cluster.
    await tab.ask("location.hash = '#/cluster'")
    await until_text(tab, "2 nodes, 2 pods")
    await tab.ask("location.hash = '#/decision/default/two'")
    await until_text(tab, "default/two")
    assert tab.complaints == []


def view(url: str) -> dict[str, int]:
    address = url.partition("#")[0]
    with urllib.request.urlopen(f"{address}api/shadow", timeout=5) as response:
        found: dict[str, int] = json.load(response)
    return found


def test_beyond_loopback_it_wants_a_token_of_its_own(tmp_path: Path) -> None:
    """Tokens of the cluster are checked by a write, and a shadow writes nothing."""
    done = run("shadow", "--console", "0.0.0.0:0", "--kubeconfig", str(tmp_path / "none"))
    assert done.returncode == 2
    assert "--console: beyond loopback users must sign in" in done.stderr
    alone = run("shadow", "--console-token-file", "x")
    assert "--console-token-file needs --console" in alone.stderr
