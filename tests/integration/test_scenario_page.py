"""The page of `stowplan simulate --html` in a real browser, on a wide and on a narrow screen."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stowplan.sim.scenarios import Options
from stowplan.sim.scenarios.files import read_playables
from stowplan.sim.scenarios.page import page
from tests.browser import Tab, open_browser, require_chromium
from tests.integration.test_console_pages import serious_findings
from tests.unit.sim.scenarios.test_page import played

pytestmark = [pytest.mark.slow]

EXAMPLE = Path(__file__).parents[2] / "examples" / "scenarios" / "node_failure.yaml"
#: What of the pictures can be seen.
SHOWN = """[...document.querySelectorAll(".picture")].filter(each => each.offsetHeight > 0)
  .map(each => each.querySelector(".caption").textContent)"""
PODS = """[...document.querySelectorAll(".node")].map(
  node => [...node.querySelectorAll(".pod")].map(pod => pod.textContent))"""
#: How far the middle of the slider is from the middle of the first chart.
OFFSET = """(() => { const [one, other] = ["#at", ".u-over"].map(
  each => document.querySelector(each).getBoundingClientRect());
  return one.x + one.width / 2 - other.x - other.width / 2; })()"""
CUT_OFF = """[...document.querySelectorAll("h1, h2, h3, p, li, td, .pod")].filter(
  each => each.scrollWidth > each.clientWidth && getComputedStyle(each).display !== "inline"
).map(each => each.textContent)"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    require_chromium()
    (playable,) = read_playables(EXAMPLE)
    outcome = playable.play("virtual", Options(name=playable.name, draws=True))
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(page(outcome), "utf-8")
    return path.as_uri()


@pytest.fixture
async def tab() -> AsyncIterator[Tab]:
    async with open_browser() as opened:
        yield opened


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (400, True)], ids=["wide", "narrow"])
async def test_the_cluster_is_drawn_and_its_pictures_turn(
    tab: Tab, url: str, width: int, dark: bool
) -> None:
    await tab.open(url, width=width, dark=dark)
    assert tab.complaints == []
    assert tab.requests == [url]
    assert await tab.ask("document.documentElement.scrollWidth") == width
    assert await tab.ask(CUT_OFF) == []
    assert await serious_findings(tab) == []
    colour = await tab.ask("getComputedStyle(document.body).backgroundColor")
    assert colour == ("rgb(20, 24, 28)" if dark else "rgb(255, 255, 255)")

    (end,) = await tab.ask(SHOWN)
    assert end.endswith("the end")
    await tab.ask("document.querySelector('#back').click()")
    (before,) = await tab.ask(SHOWN)
    assert before.endswith("expect 2 things")
    for _ in range(20):
        await tab.ask("document.querySelector('#back').click()")
    (first,) = await tab.ask(SHOWN)
    assert first.endswith("the cluster")
    assert await tab.ask(PODS) == [[], []]
    assert tab.complaints == []


async def test_the_slider_shows_the_cluster_at_a_moment(tab: Tab, url: str) -> None:
    await tab.open(url)
    assert await tab.ask(PODS) == [["large"], ["replacement"]]
    caption = await move(tab, 0.4)
    assert caption.startswith("0.4 s: ")
    assert await tab.ask(PODS) == [["web"], []]
    await move(tab, 0.7)
    assert await tab.ask(PODS) == [[], []]
    assert await tab.ask("document.querySelector('.node .note').textContent") == "not ready"
    assert await tab.ask("document.querySelector('.plot .moment').style.left") == "35%"
    await move(tab, 1.2)
    hover = await tab.ask("document.querySelector('.pod').title")
    assert "the only feasible node of 2" in hover
    # The thumb is above the same moment of the charts.
    assert abs(await tab.ask(OFFSET)) < 2


async def test_ten_thousand_pods_can_be_moved_through(tab: Tab, tmp_path: Path) -> None:
    path = tmp_path / "large.html"
    path.write_text(page(played(10_000, nodes=500)), "utf-8")
    await tab.open(path.as_uri())
    assert tab.complaints == []
    caption = await move(tab, 5_000.5)
    assert caption.startswith("5000.5 s (01:23:20): ")
    busy = "[...document.querySelectorAll('.tile')].filter(each => !each.title.includes(': 0 '))"
    assert await tab.ask(f"{busy}.length") == 10
    assert await tab.ask("document.querySelectorAll('*').length") < 2_000
    assert tab.complaints == []


async def move(tab: Tab, at: float) -> str:
    """Move the slider; returns the caption."""
    await tab.ask(f"document.querySelector('#at').value = {at}")
    await tab.ask("document.querySelector('#at').dispatchEvent(new Event('input'))")
    (caption,) = await tab.ask(SHOWN)
    assert isinstance(caption, str)
    return caption
