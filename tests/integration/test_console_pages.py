"""The pages of the console in a real browser: content, keyboard, narrow screens, a lost server.

With CONSOLE_PICTURES=1 the first test also writes the pictures of docs/console.md
(`make console-pictures`).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from stowplan.api.objects import Condition, PodStatus
from stowplan.testing import node, pod
from tests.browser import Tab, open_browser
from tests.console_stage import Stage, busy_stage

pytestmark = [pytest.mark.slow]

ROOT = Path(__file__).parents[2]
AXE = (ROOT / "tests" / "vendor" / "axe.min.js").read_text("utf-8")
TEXT = "document.querySelector('main')?.innerText ?? ''"
STATUS = "document.querySelector('.connection')?.innerText ?? ''"
MAP = "document.querySelector('canvas')?.getAttribute('aria-label') ?? ''"
#: 200 once the server has kept a moment.
PAST = """(() => { const request = new XMLHttpRequest();
  request.open("GET", "api/cluster/past", false); request.send(); return request.status; })()"""
PATIENCE_S = 60.0
#: By page: its address, and what it must show.
PAGES = {
    "cluster": ("#/cluster/worker-0025", ["240 nodes", "worker-0025", "Taints", "memory 8Gi"]),
    "queue": ("#/queue", ["Unschedulable", "ml/trainer-0", "example.com/approval"]),
    "decision": (
        "#/decision/shop/db-0",
        ["is pending. No node matches its nodeSelector", "Nodes and plugins", "Attempts"],
    ),
    "flow": ("#/flow", ["Pods bound", "unschedulable", "p99", "Plugin time"]),
}


@pytest.fixture
async def tab() -> AsyncIterator[Tab]:
    async with open_browser() as opened:
        yield opened


async def until(tab: Tab, expression: str, is_right: Callable[[Any], object]) -> Any:
    """What the expression is worth once it is right."""
    value = None
    for _ in range(int(PATIENCE_S / 0.1)):
        value = await tab.ask(expression)
        if is_right(value):
            return value
        await asyncio.sleep(0.1)
    raise AssertionError(f"{expression}: {value!r}")


async def until_text(tab: Tab, *texts: str) -> str:
    said = await until(tab, TEXT, lambda shown: shown and all(each in shown for each in texts))
    return str(said)


async def press(tab: Tab, key: str, text: str = "") -> None:
    codes = {
        "Tab": 9,
        "Enter": 13,
        "Escape": 27,
        "ArrowRight": 39,
        "ArrowDown": 40,
        "ArrowLeft": 37,
    }
    named = {"key": key, "code": key, "windowsVirtualKeyCode": codes.get(key, 0)}
    await tab.call("Input.dispatchKeyEvent", type="keyDown", text=text, **named)
    await tab.call("Input.dispatchKeyEvent", type="keyUp", **named)


async def serious_findings(tab: Tab) -> list[Any]:
    await tab.call("Runtime.evaluate", expression=AXE)
    found = await tab.call(
        "Runtime.evaluate",
        expression="""axe.run().then(({passes, violations}) => ({
          passed: passes.length,
          serious: violations.filter(each => ["serious", "critical"].includes(each.impact))
            .map(each => [each.id, each.nodes.map(node => node.html.slice(0, 200))])}))""",
        awaitPromise=True,
        returnByValue=True,
    )
    value = found["result"]["value"]
    assert value["passed"] > 10, "axe has not looked at the page"
    findings: list[Any] = value["serious"]
    return findings


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)], ids=["wide", "phone"])
async def test_every_page(tab: Tab, width: int, dark: bool) -> None:
    stage = busy_stage(seconds=240)
    async with stage.served() as url:
        for name, (address, texts) in PAGES.items():
            await tab.open("about:blank")
            if name == "flow":  # one attempt in ten is measured by plugin, for some seconds
                stage.add_pods(pod(f"late-{n}", cpu="50m") for n in range(20))
            height = 1180 if name == "decision" and not dark else 820
            await tab.open(url + address, width=width, height=height, dark=dark)
            await until_text(tab, *texts)
            await until(tab, STATUS, lambda said: said == "live")
            if name == "decision":
                await tab.ask("document.querySelector('.fixes button').click()")
                await until_text(tab, "Any one of these would place it")
            assert await tab.ask("document.documentElement.scrollWidth") <= width, name
            assert await serious_findings(tab) == [], name
            colour = await tab.ask("getComputedStyle(document.body).backgroundColor")
            assert colour == ("rgb(20, 24, 28)" if dark else "rgb(255, 255, 255)")
            kind = "-phone" if width < 500 else ""
            if os.environ.get("CONSOLE_PICTURES") and (name == "cluster" or not kind):
                path = ROOT / "docs" / "images" / f"console-{name}{kind}.png"
                await tab.picture(path, whole=False)
        assert tab.complaints == []
        assert all(each.startswith((url, "about:")) for each in tab.requests)


async def test_markup_in_names_and_labels_is_text(tab: Tab) -> None:
    evil = "<img src=x onerror=window.pwned=1><script>window.pwned=1</script>"
    message = f"0/1 nodes are available: 1 {evil}."
    refused = Condition(type="PodScheduled", status="False", message=message)
    stage = Stage(with_engine=False)
    stage.add_nodes(
        [node(evil, zone=f"z{evil}", taints=[f"{evil}:NoSchedule"], labels={evil: evil})]
    )
    stage.add_pods(
        [
            pod(evil.replace("/", "."), namespace=evil.replace("/", "."), node=evil),
            pod("waits", cpu=99, status=PodStatus(conditions=(refused,))),
            pod("held", gates=[evil]),
        ]
    )
    async with stage.served() as url:
        await tab.open(f"{url}#/cluster")
        await until(tab, MAP, lambda said: "1 node" in said)
        await tab.ask("document.querySelector('canvas').focus()")
        await press(tab, "ArrowRight")
        await until_text(tab, f"{evil}:NoSchedule", f"{evil}={evil}"[:60])
        await tab.ask("location.hash = '#/queue'")
        await until_text(tab, f"scheduling gates: {evil}")
        await tab.ask("location.hash = '#/decision/default/waits'")
        await until_text(tab, "default/waits is pending", "node")
        await tab.ask("document.querySelector('details').open = true")
        await until_text(tab, evil)
        assert await tab.ask(
            "[typeof window.pwned, document.querySelectorAll('main img').length]"
        ) == [
            "undefined",
            0,
        ]
    assert tab.complaints == []


async def test_the_keyboard_is_enough(tab: Tab) -> None:
    stage = busy_stage(nodes=30)
    async with stage.served() as url:
        await tab.open(url)
        await until(tab, MAP, lambda said: "30 nodes" in said)
        for _ in range(20):
            await press(tab, "Tab")
            if await tab.ask("document.activeElement.tagName") == "CANVAS":
                break
        await press(tab, "ArrowRight")
        first = await until(tab, "location.hash", lambda said: said.startswith("#/cluster/w"))
        await press(tab, "ArrowRight")
        await press(tab, "ArrowDown")
        second = await until(tab, "location.hash", lambda said: said not in ("", first))
        name = second.removeprefix("#/cluster/")
        await until(tab, MAP, lambda said: f"Selected: {name}" in said)
        await until(tab, "document.querySelector('aside h2')?.innerText", lambda said: said == name)
        await press(tab, "Escape")
        await until_text(tab, "Pick a node")
        await tab.ask("location.hash = '#/decision'")
        await until_text(tab, "Pick a pod")
        await tab.ask("document.querySelector('input[type=search]').focus()")
        for letter in "trainer-5":
            await press(tab, letter, letter)
        await until(tab, "document.querySelectorAll('.found li').length", lambda said: said == 1)
        await press(tab, "Enter", "\r")
        await until_text(tab, "ml/trainer-5 is pending")
        assert tab.complaints == []


async def test_pages_follow_the_cluster_and_reconnect_after_a_restart(tab: Tab) -> None:
    stage = Stage()
    async with stage.served() as url:
        port = int(url.split(":")[2].split("/")[0])
        await tab.open(url)
        await until_text(tab, "The cluster has no nodes yet")
        stage.add_nodes([node("n1", cpu=4), node("n2", cpu=4)])
        await until_text(tab, "2 nodes, 0 pods")
        stage.add_pods([pod("web", cpu=2)])
        await until_text(tab, "2 nodes, 1 pod; requested: cpu 25%")
        await tab.ask("location.hash = '#/queue'")
        await until_text(tab, "No pod is waiting")
        stage.add_pods([pod("huge", cpu=64)])
        await until_text(tab, "default/huge", "Insufficient cpu")
        await tab.ask("location.hash = '#/cluster'")
        await until_text(tab, "2 nodes, 1 pod")
    await until(tab, STATUS, lambda said: "reconnecting" in said and "figures of" in said)
    assert "2 nodes, 1 pod" in await tab.ask(TEXT)
    stage.add_nodes([node("n3", cpu=4)])
    async with stage.served(port):
        await until_text(tab, "3 nodes, 1 pod")
        await until(tab, STATUS, lambda said: said == "live")


async def test_the_slider_goes_back_in_time(tab: Tab) -> None:
    stage = Stage()
    stage.add_nodes([node("n1", cpu=4)])
    async with stage.served() as url:
        await tab.open(url)
        await until_text(tab, "1 node, 0 pods")
        await until(tab, PAST, lambda said: said == 200)
        stage.clock.shift += 60
        stage.add_pods([pod("web", cpu=2)])
        await until_text(tab, "1 node, 1 pod; requested: cpu 50%", "now")
        await tab.ask("document.querySelector('input[type=range]').focus()")
        for _ in range(9):
            await press(tab, "ArrowLeft")
        await until_text(tab, "1 node, 0 pods; requested: cpu 0%", "as at ")
        for _ in range(9):
            await press(tab, "ArrowRight")
        await until_text(tab, "1 node, 1 pod; requested: cpu 50%", "now")
        assert await serious_findings(tab) == []


async def test_fixes_and_attempts_of_a_pod(tab: Tab) -> None:
    stage = busy_stage(nodes=30)
    async with stage.served() as url:
        await tab.open(f"{url}#/decision/shop/db-0", width=390, height=820)
        await until_text(tab, "shop/db-0 is pending", "Find fixes")
        assert not any("/fixes" in each for each in tab.requests)
        await tab.ask("document.querySelector('.fixes button').focus()")
        await press(tab, "Enter", "\r")
        await until_text(tab, "Any one of these would place it", "with disk=nvme", "Search again")
        await until_text(tab, "kubectl label node")
        assert await serious_findings(tab) == []
        await tab.ask("document.querySelector('[aria-label=\"Open attempt 1\"]').click()")
        await until(tab, "location.hash", lambda said: said == "#/decision/shop/db-0/1")
        await until_text(tab, "Attempt 1 of 1", "0 of 30 nodes fit", "Next try within")
        assert await serious_findings(tab) == []
        assert await tab.ask("document.documentElement.scrollWidth") <= 390
        await tab.ask("document.querySelector('.attempt .close').click()")
        await until(tab, TEXT, lambda said: "Attempt 1 of 1" not in said)
        # A pod that nothing helps, one that is placed, and an attempt that is not kept.
        claim = {"name": "data", "persistentVolumeClaim": {"claimName": "none"}}
        stage.add_pods([pod("lost", volumes=[claim]), pod("small", cpu="10m")])
        await tab.ask("location.hash = '#/decision/default/lost'")
        await until_text(tab, "default/lost is pending", "Find fixes")
        await tab.ask("document.querySelector('.fixes button').click()")
        await until_text(tab, "No small change would place it")
        await tab.ask("location.hash = '#/decision/default/small/1'")
        await until_text(tab, "default/small", "Attempt 1 of 1", "30 nodes fit")
        assert "Find fixes" not in await tab.ask(TEXT)
        assert tab.complaints == []
        await tab.ask("location.hash = '#/decision/default/small/7'")
        await until_text(tab, "the ledger has no attempt 7")


async def test_a_pod_that_is_gone_and_figures_that_only_a_scheduler_has(tab: Tab) -> None:
    stage = Stage(with_engine=False)
    async with stage.served() as url:
        await tab.open(f"{url}#/decision/default/nobody")
        await until_text(tab, "There is no such pod now")
        await tab.ask("location.hash = '#/flow'")
        await until_text(tab, "Only stowplan run --console knows these figures")
        await tab.ask("location.hash = '#/queue'")
        await until_text(tab, "Another scheduler serves this cluster")


async def test_every_page_of_a_standby_says_so_until_it_leads(tab: Tab) -> None:
    stage = Stage()
    stage.add_nodes([node("n1", cpu=4)])
    stage.add_pods([pod("huge", cpu=64)])
    stage.console.why_idle = lambda: "this replica does not schedule: host-a leads"
    async with stage.served() as url:
        await tab.open(url)
        for page in ("cluster", "queue", "decision/default/huge", "flow"):
            await tab.ask(f"location.hash = '#/{page}'")
            await until_text(tab, "This replica does not schedule: host-a leads. Nodes, pods and")
            assert await serious_findings(tab) == []
        await until_text(tab, "Only the replica that leads has these figures.")
        stage.console.why_idle = lambda: ""
        await until(tab, TEXT, lambda said: "does not schedule" not in said and "p99" in said)
    assert tab.complaints == []
