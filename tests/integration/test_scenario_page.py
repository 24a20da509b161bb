"""The page of `stowplan simulate --html` in a real browser, on a wide and on a narrow screen."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stowplan.sim.scenarios import Options
from stowplan.sim.scenarios.files import read_playables
from stowplan.sim.scenarios.page import page
from tests.browser import Tab, open_browser, require_chromium

pytestmark = [pytest.mark.slow]

EXAMPLE = Path(__file__).parents[2] / "examples" / "scenarios" / "node_failure.yaml"
#: What of the pictures can be seen.
SHOWN = """[...document.querySelectorAll(".picture")].filter(each => each.offsetHeight > 0)
  .map(each => each.querySelector(".caption").textContent)"""
CUT_OFF = """[...document.querySelectorAll("h1, h2, h3, p, li, td, .pod")].filter(
  each => each.scrollWidth > each.clientWidth && getComputedStyle(each).display !== "inline"
).map(each => each.textContent)"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    require_chromium()
    (playable,) = read_playables(EXAMPLE)
    outcome = playable.play("virtual", Options(name=playable.name))
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(page(outcome, playable.pictures(outcome)), "utf-8")
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
    colour = await tab.ask("getComputedStyle(document.body).backgroundColor")
    assert colour == ("rgb(20, 24, 28)" if dark else "rgb(255, 255, 255)")

    (end,) = await tab.ask(SHOWN)
    assert end.endswith("the end")
    await tab.ask("document.querySelector('#back').click()")
    (before,) = await tab.ask(SHOWN)
    assert before.endswith("recover node1")
    await tab.ask("document.querySelector('#at').value = 0")
    await tab.ask("document.querySelector('#at').dispatchEvent(new Event('input'))")
    (first,) = await tab.ask(SHOWN)
    assert first.endswith("the cluster")
    await tab.ask("document.querySelector('#back').click()")
    assert await tab.ask(SHOWN) == [first]
    assert tab.complaints == []
