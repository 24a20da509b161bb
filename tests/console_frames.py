"""How fast the console's map is: `python -m tests.console_frames --nodes 5000 --pods 50000`.

Prints what the server takes for a snapshot, when the browser paints, and the time of the page's
main thread for a frame while the pointer moves over the map. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
import urllib.request
from statistics import median
from typing import Any

from stowplan.testing import pod
from tests.browser import Tab, open_browser
from tests.console_stage import Stage, busy_stage

MOVES = 120
MOVE = """new Promise(done => { const canvas = document.querySelector("canvas");
  const box = canvas.getBoundingClientRect(); let left = %d; const times = []; let last;
  const step = now => {
    if (last) times.push(now - last);
    last = now;
    if (!left--) return done(JSON.stringify(times));
    canvas.dispatchEvent(new MouseEvent("mousemove", {bubbles: true,
      clientX: box.x + (left * 37) %% box.width, clientY: box.y + (left * 23) %% box.height}));
    requestAnimationFrame(step); };
  requestAnimationFrame(step); })"""
DRAWN = """new Promise(done => { const look = () =>
  document.querySelector("canvas")?.height > 200 ? done("1") : requestAnimationFrame(look);
  look(); })"""
PAINT = """JSON.stringify(performance.getEntriesByType("paint").map(e => [e.name, e.startTime]))"""


def crowded(nodes: int, pods: int) -> Stage:
    stage = busy_stage(nodes=nodes)
    names = stage.mirror.table.node_names()
    stage.add_pods(
        pod(f"filler-{number}", cpu="100m", memory="256Mi", node=names[number % len(names)])
        for number in range(pods)
    )
    return stage


def timed(url: str) -> tuple[int, float]:
    began = time.perf_counter()
    with urllib.request.urlopen(url, timeout=60) as response:
        size = len(response.read())
    return size, (time.perf_counter() - began) * 1000


async def script_ms(tab: Tab) -> float:
    found = await tab.call("Performance.getMetrics")
    values = {each["name"]: each["value"] for each in found["metrics"]}
    return float(values["TaskDuration"]) * 1000


async def evaluate(tab: Tab, expression: str) -> Any:
    done = await tab.call(
        "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
    )
    return json.loads(done["result"]["value"])


async def figures(tab: Tab, url: str, **size: Any) -> dict[str, float]:
    """Milliseconds by what they are of, for the page Cluster; leaves it open."""
    began = time.perf_counter()
    await tab.open(url, **size)
    await evaluate(tab, DRAWN)
    shown = (time.perf_counter() - began) * 1000
    paints = dict(await evaluate(tab, PAINT))
    await tab.call("Performance.enable")
    before = await script_ms(tab)
    frames = await evaluate(tab, MOVE % MOVES)
    return {
        "first contentful paint": paints["first-contentful-paint"],
        "map drawn after the address was opened": shown,
        "main thread, a frame while hovering": (await script_ms(tab) - before) / MOVES,
        "between frames": median(frames),
    }


async def measure(nodes: int, pods: int) -> None:
    stage = crowded(nodes, pods)
    async with stage.served() as url, open_browser() as tab:
        loop = asyncio.get_running_loop()
        for path in ("cluster", "queue", "pods?q=filler-1", "pods/ml/trainer-3"):
            runs = [await loop.run_in_executor(None, timed, f"{url}api/{path}") for _ in range(5)]
            took = median(ms for _, ms in runs)
            print(f"{path:20} {runs[0][0] / 1000:8.1f} kB {took:8.1f} ms")
        for what, ms in (await figures(tab, url)).items():
            print(f"{what:42} {ms:6.1f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=50_000)
    chosen = parser.parse_args()
    asyncio.run(measure(chosen.nodes, chosen.pods))


if __name__ == "__main__":
    main()
