"""The page Try in a real browser: templates, changes, errors by field, snapshots, the keyboard."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stowplan.testing import node
from tests.browser import Tab, open_browser
from tests.console_stage import Stage
from tests.integration.test_console_pages import (
    MAP,
    ROOT,
    STATUS,
    press,
    serious_findings,
    until,
    until_text,
)
from tests.try_stage import try_stage

pytestmark = [pytest.mark.slow]

PAGES = "document.querySelector('nav').innerText"
BUTTON = "[...document.querySelectorAll('.try button')].find(each => each.innerText === %r)"
RESULT = "document.querySelector('.result').innerText"
#: What generated names begin with, where it is not the template's name.
PREFIXES = {
    "pod": "web",
    "zones": "spread",
    "gpu": "train",
    "priority": "urgent",
    "apart": "alone",
}
SNAPSHOT = Path(__file__).parents[1] / "data" / "kube_scheduler_simulator" / "cluster.json"
#: Puts a file into the input of the form, as a user's choice does.
CHOOSE = """(() => { const files = new DataTransfer();
  files.items.add(new File([%s], "cluster.json"));
  const input = document.querySelector("input[type=file]");
  input.files = files.files; input.dispatchEvent(new Event("change", { bubbles: true })); })()"""


@pytest.fixture
async def tab() -> AsyncIterator[Tab]:
    async with open_browser() as opened:
        yield opened


async def fill(tab: Tab, selector: str, value: str) -> None:
    """Type into a field, or choose an option."""
    await until(tab, f"document.querySelector({selector!r}) !== null", bool)
    await tab.ask(
        f"""(() => {{ const field = document.querySelector({selector!r});
        field.value = {json.dumps(value)};
        field.dispatchEvent(new Event("input", {{ bubbles: true }}));
        field.dispatchEvent(new Event("change", {{ bubbles: true }})); }})()"""
    )


async def create(tab: Tab, template: str, copies: int = 1) -> None:
    await fill(tab, "select", template)
    await fill(tab, "input[type=number]", str(copies))
    await click(tab, "Create")


async def click(tab: Tab, label: str) -> None:
    await until(tab, f"({BUTTON % label})?.disabled === false", bool)
    await tab.ask(f"({BUTTON % label}).click()")


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)], ids=["wide", "phone"])
async def test_nodes_and_pods_from_templates(tab: Tab, width: int, dark: bool) -> None:
    async with try_stage() as url:
        await tab.open(f"{url}#/try", width=width, height=980, dark=dark)
        await until_text(tab, "The cluster has no nodes", "The cluster has no pods")
        assert await serious_findings(tab) == []
        await create(tab, "node", 3)
        await until_text(tab, "node/node-", "3 nodes")
        await until(tab, MAP, lambda said: "3 nodes" in said)
        await create(tab, "gpuNode")
        for template in ("pod", "zones", "gpu", "gated", "priority", "large", "apart"):
            await until(tab, RESULT, lambda said: "working" not in said)
            await create(tab, template, 4 if template == "pod" else 2)
            await until_text(tab, f"pod/{PREFIXES.get(template, template)}-")
            said = await tab.ask(RESULT)
            assert "refused" not in said
        await until_text(tab, "default/large-", "pending")
        rows = "[...document.querySelectorAll('.try tbody tr')].map(each => each.innerText)"
        placed = await until(
            tab, rows, lambda all_rows: sum("pending" not in each for each in all_rows) >= 12
        )
        pending = {row.split("-")[0] for row in placed if "pending" in row}
        assert pending == {"default/large", "default/gated"}
        await until(tab, STATUS, lambda said: said == "live")
        assert await tab.ask("document.documentElement.scrollWidth") <= width
        assert await serious_findings(tab) == []
        if os.environ.get("CONSOLE_PICTURES") and width > 500:
            await tab.picture(ROOT / "docs" / "images" / "console-try.png", whole=False)
        await tab.ask("document.querySelector('.try td a').click()")
        await until_text(tab, "default/gated-")
        assert tab.complaints == []
        assert all(each.startswith((url, "about:")) for each in tab.requests)


async def test_a_node_is_changed_and_its_pods_follow(tab: Tab) -> None:
    async with try_stage() as url:
        await tab.open(f"{url}#/try")
        await create(tab, "node")
        await until(tab, MAP, lambda said: "1 node" in said)
        await tab.ask("document.querySelector('canvas').focus()")
        await press(tab, "ArrowRight")
        name = await until(tab, "document.querySelector('[list]').value", bool)
        await click(tab, "Apply")
        await until_text(tab, f"node/{name} cordoned")
        await create(tab, "pod")
        await until_text(tab, "default/web-", "pending")
        await fill(tab, "section:nth-of-type(2) .row:nth-of-type(2) select", "uncordon")
        await click(tab, "Apply")
        await until_text(tab, f"node/{name} uncordoned")
        await until(
            tab, "document.querySelector('.try td:nth-child(2)').innerText", lambda it: it == name
        )
        await click(tab, "Delete all pods")
        await until_text(tab, "1 object deleted", "The cluster has no pods")
        assert tab.complaints == []


async def test_errors_name_the_field_and_markup_is_text(tab: Tab) -> None:
    evil = "<img src=x onerror=window.pwned=1>"
    async with try_stage() as url:
        await tab.open(f"{url}#/try")
        await until_text(tab, "The cluster has no nodes")
        await fill(tab, "textarea", f"apiVersion: v1\nkind: Pod\nmetadata: {{name: '{evil}'}}")
        await click(tab, "Create")
        await until_text(tab, "1 object refused", "is invalid", "metadata.name", evil)
        await fill(tab, "textarea", "apiVersion: v1\nkind: Pod\nmetadata: [")
        await click(tab, "Create")
        await until_text(tab, "line 4, column 1: did not find expected node content")
        assert await tab.ask("typeof window.pwned") == "undefined"
        assert await tab.ask("document.querySelectorAll('main img').length") == 0
        assert await serious_findings(tab) == []


async def test_a_snapshot_is_imported_by_the_keyboard(tab: Tab) -> None:
    async with try_stage() as url:
        await tab.open(f"{url}#/try")
        await create(tab, "node")
        await until(tab, MAP, lambda said: "1 node" in said)
        await tab.ask(CHOOSE % json.dumps(SNAPSHOT.read_text()))
        await until(tab, f"({BUTTON % 'Import'}).disabled", lambda said: said is False)
        await tab.ask("document.querySelector('input[type=file]').focus()")
        for _ in range(5):
            await press(tab, "Tab")
            if await tab.ask("document.activeElement.innerText") == "Import":
                break
        await press(tab, "Enter", "\r")
        await until_text(tab, "team/huge", "2 nodes", "pending", "and 3 more")
        exported = await tab.call(
            "Runtime.evaluate",
            expression="""fetch(document.querySelectorAll("a[download]")[1].href)
              .then(answer => answer.json()).then(({pods}) => pods.length)""",
            awaitPromise=True,
            returnByValue=True,
        )
        assert exported["result"]["value"] == 3
        assert tab.complaints == []


async def test_the_page_is_absent_for_other_clusters(tab: Tab) -> None:
    stage = Stage()
    stage.add_nodes([node("n1")])
    async with stage.served() as url:
        await tab.open(f"{url}#/try")
        await until_text(tab, "1 node, 0 pods")
        assert "Try" not in await tab.ask(PAGES)
        assert tab.complaints == []


DEVICES = """
apiVersion: v1
kind: Node
metadata: {name: with-gpu}
status: {allocatable: {cpu: "8", memory: 8Gi, pods: "10"}}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: with-gpu}
spec:
  driver: gpu.example.com
  nodeName: with-gpu
  pool: {name: with-gpu, generation: 1, resourceSliceCount: 1}
  devices: [{name: gpu-0}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}}
"""
ASKING = """
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  containers: [{name: main, image: "job:1", resources: {claims: [{name: gpu}]}}]
  resourceClaims: [{name: gpu, resourceClaimTemplateName: one}]
"""


async def test_pods_ask_for_devices_and_the_page_says_who_has_them(tab: Tab) -> None:
    async with try_stage() as url:
        await tab.open(f"{url}#/try")
        await until_text(tab, "The cluster has no nodes")
        await fill(tab, "textarea", DEVICES)
        await click(tab, "Create")
        await until_text(tab, "resourceclaimtemplate/one created")
        for name in ("first", "second"):
            await fill(tab, "textarea", ASKING.replace("NAME", name))
            await click(tab, "Create")
            await until_text(tab, f"pod/{name} created")
            if name == "first":
                await until_text(tab, "default/first", "with-gpu")
        await until_text(tab, "default/second", "pending")
        await tab.ask("document.querySelector('.try td a').click()")  # pending ones are first
        await until_text(
            tab,
            "No node can give the request gpu",
            "needs 1 device of class gpu; of 1 here, 1 is taken (by default/first)",
        )
        assert tab.complaints == []
