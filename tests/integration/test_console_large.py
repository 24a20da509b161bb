"""The console at 5,000 nodes and 50,000 pods in a real browser, with names that look like markup.

Times are reported, not asserted: as properties of the test, and on standard output (`pytest -s`).
`python -m tests.console_frames` prints them alone.
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

import pytest

from stowplan.api.objects import Condition, PodStatus
from stowplan.testing import node, pod
from tests.browser import open_browser
from tests.console_frames import crowded, figures
from tests.console_stage import Stage
from tests.integration.test_console_pages import (
    MAP,
    STATUS,
    TEXT,
    serious_findings,
    until,
    until_text,
)

pytestmark = [pytest.mark.slow]

NODES, PODS = 5_000, 50_000
EVIL = "<img src=x onerror=window.pwned=1><script>window.pwned=1</script>"
HARMLESS = "[typeof window.pwned, document.querySelectorAll('main img, main script').length]"


def large_stage() -> Stage:
    """One node and one label in a hundred look like markup, and so do pods and reasons."""
    stage = crowded(NODES - 50, PODS)
    stage.add_nodes(
        node(f"{number}{EVIL}", zone=f"z{EVIL}", labels={EVIL: EVIL}, taints=[f"{EVIL}:NoSchedule"])
        for number in range(50)
    )
    message = f"0/{NODES} nodes are available: {NODES} {EVIL}."
    status = PodStatus(
        conditions=(Condition(type="PodScheduled", status="False", message=message),)
    )
    stage.add_pods(
        pod(f"{number}{EVIL}".replace("/", "."), node=f"{number % 50}{EVIL}")
        for number in range(500)
    )
    for number in range(500):  # waiting, with another scheduler's message
        stage.handlers.add_pod(pod(f"waits-{number}", gates=[EVIL], status=status))
    return stage


async def test_a_large_cluster(record_property: Callable[[str, object], None]) -> None:
    stage = large_stage()
    async with open_browser() as tab:
        async with stage.served() as url:
            port = int(url.split(":")[2].split("/")[0])
            for width in (1280, 390):
                await tab.open("about:blank")
                found = await figures(tab, url, width=width, height=820)
                for what, ms in found.items():
                    record_property(f"{what}, {width} pixels wide", round(ms, 1))
                    print(f"{width} pixels wide: {what} {ms:.1f} ms")
                await until(tab, MAP, lambda said: "5,000 nodes" in said)
                await until_text(tab, "5,000 nodes, ")
                assert await tab.ask("document.documentElement.scrollWidth") <= width
                assert await serious_findings(tab) == []
            await tab.ask(f"location.hash = '#/cluster/{quote('7' + EVIL, safe='')}'")
            await until_text(tab, f"7{EVIL}", f"{EVIL}:NoSchedule", f"{EVIL}={EVIL}"[:60])
            await tab.ask("location.hash = '#/queue'")
            await until_text(tab, f"scheduling gates: {EVIL}", "and 450 more")
            assert await serious_findings(tab) == []
            await tab.ask("location.hash = '#/decision/ml/trainer-3'")
            await until_text(tab, "ml/trainer-3 is pending", "5,000", "Nodes and plugins")
            assert await serious_findings(tab) == []
            await tab.ask("location.hash = '#/cluster'")
            await until(tab, MAP, lambda said: "5,000 nodes" in said)
            stage.add_nodes([node("late", cpu=4)])
            await until_text(tab, "5,001 nodes, ")
            assert await tab.ask(HARMLESS) == ["undefined", 0]
            assert tab.complaints == []
        await until(tab, STATUS, lambda said: "reconnecting" in said)
        assert "5,001 nodes, " in await tab.ask(TEXT)
        stage.add_nodes([node("later", cpu=4)])
        async with stage.served(port):
            await until_text(tab, "5,002 nodes, ")
            await until(tab, STATUS, lambda said: said == "live")
