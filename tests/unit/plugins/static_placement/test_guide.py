"""docs/static-placement.md says what the code does."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import msgspec
import pytest

from stowplan.config.load import parse_config
from stowplan.plugins.registry import in_tree_registry
from stowplan.plugins.static_placement.labels import PinLabels
from stowplan.plugins.static_placement.plugin import StaticPlacementArgs
from stowplan.scheduler.assembly import plugin_errors
from stowplan.testing import node, pod
from tests.unit.plugins.static_placement.placement_kit import (
    RESPECTFUL,
    STRICT,
    Bench,
    mine,
    with_labels,
)

GUIDE = (Path(__file__).parents[4] / "docs" / "static-placement.md").read_text()
EXAMPLES: list[str] = re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)
TOLD: list[str] = re.findall(r"```\n(0/3 nodes .*?)\n```", GUIDE)
COMMANDS: list[str] = re.findall(r"```sh\n(kubectl .*?)\n```", GUIDE)
WEB_0 = "rf.scheduler.test.default/web-0"


def test_the_examples_are_good_configurations() -> None:
    assert len(EXAMPLES) == 3
    for example in EXAMPLES:
        parse_config(example, check=partial(plugin_errors, registry=in_tree_registry()))


def test_the_default_plugins_and_the_pin() -> None:
    key = "rf.scheduler.pinned.default/web-0"
    cordoned = with_labels(node("a", unschedulable=True), key)
    bench = Bench(EXAMPLES[0], cordoned, node("b"), with_labels(node("c"), key))
    bench.create(pod("web-0", scheduler_name="pinned"))
    assert bench.bind_next() == "c"


def test_the_pin_alone() -> None:
    bench = Bench(EXAMPLES[1], with_labels(node("a", unschedulable=True, pods=0), WEB_0), node("b"))
    bench.create(mine("web-0"))
    assert bench.bind_next() == "a"
    assert parse_config(EXAMPLES[1]).profiles[0].plugins == parse_config(STRICT).profiles[0].plugins


@pytest.mark.parametrize("best", ["a", "b"])
def test_the_pin_and_a_score(best: str) -> None:
    """The larger of the two pinned nodes; one that is not pinned may be larger still."""
    key, older = "pins.example.com.test.default/web-0", "pins.example.com.test/web-0"
    sizes = {"a": 1, "b": 1, best: 2}
    nodes = [with_labels(node(name, cpu=cpu), key) for name, cpu in sizes.items()]
    bench = Bench(EXAMPLES[2], *nodes, with_labels(node("c", cpu=64), older, WEB_0))
    bench.create(mine("web-0"))
    assert bench.bind_next() == best


def test_the_messages() -> None:
    without, refused = TOLD
    strict, respectful = (
        Bench(text, node("a"), node("b"), node("c")) for text in (STRICT, RESPECTFUL)
    )
    for bench in (strict, respectful):
        bench.create(mine("web-0"))
    assert strict.failed() == without
    (further,) = re.findall(r"`(no new.*?)`", GUIDE, re.DOTALL)
    further = " ".join(further.split())
    assert respectful.failed() == f"{without} {further}"
    respectful.set_node(with_labels(node("a", unschedulable=True), WEB_0))
    assert respectful.failed() == f"{refused} {further}"


def test_the_commands_pin_what_they_are_said_to_pin() -> None:
    label, annotate = (command.split() for command in COMMANDS)
    pins = PinLabels("test")
    key, _, value = label[4].partition("=")
    (pin,) = pins.pins_of({key: value}, {})
    assert (pin.namespace, pin.pod) == ("default", "web-0")
    assert pins.command("default", "web-0", "worker-1").split() == label
    key, _, value = annotate[4].partition("=")
    listed = [pin.pod for pin in pins.pins_of({}, {key: value})]
    assert listed == ["a-very-long-name-0", "a-very-long-name-1"]


def test_the_arguments() -> None:
    table = GUIDE.partition("| argument |")[2].partition("\n\n")[0]
    rows = [line.split("|") for line in table.splitlines()[2:]]
    written = {row[1].strip().strip("`"): row[2].strip().strip("`") for row in rows}
    fields = {
        field.encode_name: field.default for field in msgspec.structs.fields(StaticPlacementArgs)
    }
    assert written == {
        "prefix": fields.pop("prefix"),
        "schedulerName": "the profile's",
        "olderLabels": str(fields.pop("olderLabels")).lower(),
    }
    assert fields == {"schedulerName": ""}
