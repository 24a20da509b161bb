"""The page of `stowplan bench --html` in a real browser, on a wide and on a narrow screen."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from stowplan.lab.bench.figures import KUBE, RAW, RAW_EVENTS, STOWPLAN, Run
from stowplan.lab.bench.page import page
from stowplan.lab.bench.results import Measured
from tests.browser import Tab, open_browser, require_chromium
from tests.integration.test_console_pages import serious_findings
from tests.unit.lab.bench.runs import result, run, setup

pytestmark = [pytest.mark.slow]

RATES = {STOWPLAN: 600.0, KUBE: 200.0, RAW: 800.0, RAW_EVENTS: 400.0}
#: Upstream's names are long.
HINTS = "5000Nodes_2000Pods_QueueingHintsEnabled"
TESTS = (
    "SchedulingBasic",
    "SchedulingRequiredPodAntiAffinityWithNSSelector",
    "SchedulingPreferredAntiAffinityWithNSSelector",
)
#: Of every element that matches: where it is on the page.
PLACES = """[...document.querySelectorAll(%r)].map(each => {
  const {left, right, width, height} = each.getBoundingClientRect();
  return {left, right, width, height, text: each.textContent};
})"""
#: Text that is wider than its box.
CUT_OFF = """[...document.querySelectorAll("h1, h2, p, .label, .text, figcaption, .now li")].filter(
  each => each.scrollWidth > each.clientWidth && getComputedStyle(each).display !== "inline"
).map(each => each.textContent)"""
#: Of every chart: how many of the contestants' colours it has.
INKS = """[...document.querySelectorAll(".plot canvas")].map(canvas => {
  const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const seen = new Set();
  for (let at = 0; at < data.length; at += 4) seen.add(data.slice(at, at + 3).join());
  const style = getComputedStyle(document.documentElement);
  return ["--line-1", "--line-2", "--faint", "--good"].filter(name => {
    const [, ...hex] = style.getPropertyValue(name).trim().match(/#(..)(..)(..)/);
    return seen.has(hex.map(each => parseInt(each, 16)).join());
  }).length; })"""
SMALLEST_FONT = """Math.min(...[...document.querySelectorAll("body *")].map(
  each => parseFloat(getComputedStyle(each).fontSize)))"""


def measured(test: str, name: str = HINTS, *, rates: dict[str, float] | None = None) -> Measured:
    of = setup(test=test, name=name, nodes=5000, pods=3000, measured=2000)
    return Measured(
        of,
        [
            result(with_binds(run(contestant, rate * (1 + number / 100), number), rate), of)
            for contestant, rate in (rates or RATES).items()
            for number in (1, 2, 3)
        ],
    )


def with_binds(one: Run, rate: float) -> Run:
    """The same run with a line of its own."""
    return replace(one, binds_over_time=(round(rate / 4), round(rate / 2), round(rate / 3)))


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    require_chromium()
    invalid = measured("TopologySpreading", rates={STOWPLAN: 900.0, RAW: 800.0})
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(page([*(measured(test) for test in TESTS), invalid]), "utf-8")
    return path.as_uri()


@pytest.fixture
async def tab() -> AsyncIterator[Tab]:
    async with open_browser() as opened:
        yield opened


async def places(tab: Tab, selector: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = await tab.ask(PLACES % selector)
    return found


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
async def test_plots_are_there_and_nothing_is_cut_off(
    tab: Tab, url: str, width: int, dark: bool, tmp_path: Path
) -> None:
    await tab.open(url, width=width, dark=dark)
    await tab.picture(tmp_path / "page.png")
    assert tab.complaints == []
    assert tab.requests == [url]

    assert await tab.ask("document.documentElement.scrollWidth") == width
    assert await tab.ask(CUT_OFF) == []
    assert await serious_findings(tab) == []
    assert await tab.ask(SMALLEST_FONT) >= 11

    # Two overviews of the valid workloads, and two plots for each of them.
    figures = await places(tab, "figure")
    assert len(figures) == 2 + 2 * len(TESTS)
    for figure in figures:
        assert figure["width"] > min(width, 900) * 0.8
        assert figure["left"] >= 0
        assert figure["right"] <= width
    drawings = await places(tab, ".u-over")
    assert len(drawings) == len(TESTS)
    for drawing in drawings:
        assert drawing["width"] > width * 0.5
        assert 100 < drawing["height"] < 300
    assert await tab.ask(INKS) == [len(RATES)] * len(TESTS)
    labels = await places(tab, ".label")
    assert all(label["left"] >= 0 and label["right"] <= width for label in labels)

    colors = await tab.ask("getComputedStyle(document.body).backgroundColor")
    assert colors == ("rgb(20, 24, 28)" if dark else "rgb(255, 255, 255)")


async def test_bars_are_as_long_as_they_say(tab: Tab, url: str) -> None:
    await tab.open(url)
    bars = await places(tab, "figure[aria-label*='pods per second'] .bar")
    tracks = await places(tab, "figure[aria-label*='pods per second'] .track")
    first = [bar["width"] for bar in bars[len(TESTS) :][: len(RATES)]]
    expected = [first[0] * rate / RATES[STOWPLAN] for rate in RATES.values()]
    assert first == pytest.approx(expected, abs=2)
    assert all(bar["width"] <= track["width"] for bar, track in zip(bars, tracks, strict=True))


async def test_a_label_of_the_overview_leads_to_its_workload(tab: Tab, url: str) -> None:
    await tab.open(url)
    await tab.ask("document.querySelectorAll('.label a')[1].click()")
    assert await tab.ask("document.querySelector(':target').textContent") == f"{TESTS[1]}/{HINTS}"
    assert tab.complaints == []
