"""Known plugins: by class, and by what other distributions bring."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from stowplan.config.types import POINTS
from stowplan.errors import ConfigError
from stowplan.framework.plugin import POINTS as METHODS
from stowplan.framework.plugin import Plugin, points_of
from stowplan.framework.registry import ENTRY_POINT_GROUP, Registry
from stowplan.plugins.registry import IN_TREE, in_tree_registry


class Filters(Plugin):
    name = "Filters"

    def filter(self, pod: Any, node: Any) -> bool:
        return True


class Namesake(Plugin):
    name = "Filters"

    def score(self, pod: Any, node: Any) -> int:
        return 0


class Pointless(Plugin):
    name = "Pointless"


class Nameless(Plugin):
    def score(self, pod: Any, node: Any) -> int:
        return 0


NOT_A_PLUGIN = 3


def test_plugins_are_found_by_name() -> None:
    registry = Registry([Filters])
    registry.register(Filters)
    assert list(registry.names) == ["Filters"]
    assert registry.get("Filters") is Filters
    assert registry.points("Filters") == {"filter"}


@pytest.mark.parametrize(
    ("plugin", "message"),
    [
        (Namesake, "two plugins are called 'Filters'"),
        (Pointless, "implements no extension point"),
        (Nameless, "Nameless has no name"),
    ],
)
def test_what_cannot_be_registered(plugin: type[Plugin], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Registry([Filters]).register(plugin)


def entry(name: str) -> EntryPoint:
    return EntryPoint(name="any", value=f"{__name__}:{name}", group=ENTRY_POINT_GROUP)


def test_entry_points_are_registered_under_the_name_of_the_class() -> None:
    registry = Registry()
    registry.load_entry_points([entry("Filters")])
    assert registry.get("Filters") is Filters


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("NOT_A_PLUGIN", "entry point any = .*NOT_A_PLUGIN: 3 is not a plugin class"),
        ("Absent", "entry point any = .*Absent: .*cannot be loaded: "),
    ],
)
def test_broken_entry_points_say_which(value: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Registry().load_entry_points([entry(value)])


def test_installed_distributions_are_looked_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "brought_plugin.py").write_text(
        "from stowplan.framework.plugin import Plugin\n"
        "class Brought(Plugin):\n"
        "    name = 'Brought'\n"
        "    def score(self, pod, node): return 1\n"
    )
    info = tmp_path / "brought-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: brought\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{ENTRY_POINT_GROUP}]\nx = brought_plugin:Brought\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    registry = in_tree_registry()
    registry.load_entry_points()
    assert registry.points("Brought") == {"score"}


def test_in_tree_plugins_all_have_their_names() -> None:
    registry = in_tree_registry()
    assert len(registry.names) == len(IN_TREE)
    assert {plugin.name for plugin in IN_TREE} >= {
        "SchedulingGates",
        "PrioritySort",
        "NodeUnschedulable",
        "NodeName",
        "TaintToleration",
        "NodeResourcesFit",
        "NodeResourcesBalancedAllocation",
        "DefaultBinder",
    }


def test_methods_are_known_for_every_point_of_the_configuration() -> None:
    assert set(METHODS) == set(POINTS)


@pytest.mark.parametrize(
    ("name", "points"),
    [
        ("SchedulingGates", {"preEnqueue"}),
        ("PrioritySort", {"queueSort"}),
        ("NodeUnschedulable", {"filter"}),
        ("NodeName", {"filter"}),
        ("TaintToleration", {"filter", "preScore", "score"}),
        ("NodeResourcesFit", {"preFilter", "filter", "preScore", "score"}),
        ("NodeResourcesBalancedAllocation", {"preScore", "score"}),
        ("DefaultBinder", {"bind"}),
    ],
)
def test_points_of_the_default_plugins_are_upstreams(name: str, points: set[str]) -> None:
    assert points_of(in_tree_registry().get(name)) == points
