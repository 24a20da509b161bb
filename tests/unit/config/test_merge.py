"""Plugin merge rules, against kube-scheduler's recorded answers and case by case."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stowplan.config.defaults import DEFAULT_MULTI_POINT
from stowplan.config.load import parse_object
from stowplan.config.merge import (
    defaults_left_out,
    merge_defaults,
    resolve_points,
    resolve_profiles,
)
from stowplan.config.types import POINTS, PluginRef, Plugins, Profile
from stowplan.errors import ConfigError

# Recorded by record_merge.py; the first case is the default profile.
GOLDEN: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "data" / "plugin_merge.json").read_text()
)
DEFAULT_POINTS: dict[str, list[list[Any]]] = GOLDEN[0]["points"]
IN_TREE: dict[str, frozenset[str]] = {
    ref.name: frozenset(
        point for point, refs in DEFAULT_POINTS.items() if ref.name in [name for name, _ in refs]
    )
    for ref in DEFAULT_MULTI_POINT
}

# A small world for the hand-written cases.
WORLD = {
    "PrioritySort": frozenset({"queueSort"}),
    "DefaultBinder": frozenset({"bind"}),
    "NodeName": frozenset({"filter"}),
    "TaintToleration": frozenset({"filter", "preScore", "score"}),
    "Mine": frozenset({"filter", "score", "queueSort"}),
}


def config_with(plugins: dict[str, Any]) -> Plugins:
    config = parse_object(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"plugins": plugins}],
        }
    )
    return config.profiles[0].plugins


def resolve(
    plugins: dict[str, Any], world: dict[str, frozenset[str]] | None = None
) -> dict[str, list[tuple[str, int]]]:
    world = WORLD if world is None else world

    def implements(name: str) -> Collection[str]:
        return world[name]

    points = resolve_points(config_with(plugins), implements=implements, known=world.keys())
    assert list(points) == list(POINTS)
    return {point: [(ref.name, ref.weight) for ref in refs] for point, refs in points.items()}


def errors_of(plugins: dict[str, Any]) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        resolve(plugins)
    return str(caught.value).split("\n")


@pytest.mark.parametrize("case", range(len(GOLDEN)))
def test_as_kube_scheduler(case: int) -> None:
    golden = GOLDEN[case]
    if "error" in golden:
        with pytest.raises(ConfigError):
            resolve(golden["plugins"], IN_TREE)
        return
    expected = {**DEFAULT_POINTS, **golden["points"]}
    answer = resolve(golden["plugins"], IN_TREE)
    assert answer == {
        point: [(name, weight) for name, weight in refs] for point, refs in expected.items()
    }


def test_the_golden_file_has_both_answers_and_refusals() -> None:
    assert sum("error" in case for case in GOLDEN) >= 10
    assert sum("points" in case for case in GOLDEN) >= 30


def test_default_plugins_that_are_not_there_are_left_out() -> None:
    points = resolve({})
    assert points["filter"] == [("NodeName", 0), ("TaintToleration", 0)]
    assert points["score"] == [("TaintToleration", 3)]
    assert points["preFilter"] == []
    left_out = defaults_left_out(WORLD)
    assert left_out[:2] == ["SchedulingGates", "NodeUnschedulable"]
    assert len(left_out) == len(DEFAULT_MULTI_POINT) - 4


def test_own_plugins_come_after_the_default_ones() -> None:
    points = resolve(
        {
            "multiPoint": {"enabled": [{"name": "Mine", "weight": 4}]},
            "queueSort": {"disabled": [{"name": "Mine"}]},
        }
    )
    assert points["filter"] == [("NodeName", 0), ("TaintToleration", 0), ("Mine", 0)]
    assert points["score"] == [("TaintToleration", 3), ("Mine", 4)]
    assert points["queueSort"] == [("PrioritySort", 0)]


def test_a_point_that_names_a_default_plugin_again_puts_it_first() -> None:
    points = resolve({"filter": {"enabled": [{"name": "TaintToleration"}, {"name": "Mine"}]}})
    assert points["filter"] == [("TaintToleration", 0), ("NodeName", 0), ("Mine", 0)]


def test_a_score_entry_without_weight_weighs_one() -> None:
    points = resolve({"score": {"enabled": [{"name": "TaintToleration"}]}})
    assert points["score"] == [("TaintToleration", 1)]
    points = resolve({"multiPoint": {"enabled": [{"name": "TaintToleration"}]}})
    assert points["score"] == [("TaintToleration", 1)]


def test_a_star_at_a_point_leaves_only_what_the_point_names() -> None:
    points = resolve({"filter": {"disabled": [{"name": "*"}], "enabled": [{"name": "Mine"}]}})
    assert points["filter"] == [("Mine", 0)]
    assert points["score"] == [("TaintToleration", 3)]


def test_every_mistake_is_told() -> None:
    assert errors_of(
        {
            "filter": {
                "enabled": [{"name": "Nodename"}, {"name": "DefaultBinder"}, {"name": "Mine"}] * 2
            },
            "multiPoint": {
                "enabled": [{"name": "Zebra"}],
                "disabled": [{"name": "DefaultBinder"}, {"name": "PrioritySort"}],
            },
        }
    ) == [
        'plugins.multiPoint.enabled[0].name: Invalid value: "Zebra": no such plugin '
        "(there are DefaultBinder, Mine, NodeName, PrioritySort, TaintToleration)",
        'plugins.filter.enabled[0].name: Invalid value: "Nodename": no such plugin; '
        'did you mean "NodeName"?',
        'plugins.filter.enabled[3].name: Invalid value: "Nodename": no such plugin; '
        'did you mean "NodeName"?',
        'plugins.filter.enabled[1].name: Invalid value: "DefaultBinder": '
        "does not implement filter; it implements bind",
        'plugins.filter.enabled[4].name: Invalid value: "DefaultBinder": '
        "does not implement filter; it implements bind",
        'plugins.filter.enabled[5].name: Duplicate value: "Mine"',
        "plugins.queueSort: Invalid value: []: "
        "exactly one queue sort plugin is required, but 0 are enabled",
        "plugins.bind: Invalid value: []: at least one bind plugin is needed",
    ]


def test_a_multi_point_plugin_named_twice_is_told_once() -> None:
    twice = [{"name": "Mine"}, {"name": "Mine"}]
    sort = {"disabled": [{"name": "*"}], "enabled": [{"name": "PrioritySort"}]}
    assert errors_of({"multiPoint": {"enabled": twice}, "queueSort": sort}) == [
        'plugins.multiPoint.enabled[1].name: Duplicate value: "Mine"'
    ]


def test_a_default_plugin_that_the_user_names_must_exist() -> None:
    assert errors_of({"score": {"enabled": [{"name": "ImageLocality"}]}}) == [
        'plugins.score.enabled[0].name: Invalid value: "ImageLocality": '
        "Stowplan does not have this plugin of kube-scheduler yet"
    ]


def test_profiles_are_resolved_together() -> None:
    profiles = [
        Profile(scheduler_name="a"),
        Profile(scheduler_name="b", plugins=config_with({"score": {"disabled": [{"name": "*"}]}})),
    ]
    resolved = resolve_profiles(profiles, implements=WORLD.__getitem__, known=WORLD.keys())
    assert resolved["a"]["score"] == [PluginRef("TaintToleration", 3)]
    assert resolved["b"]["score"] == []


def test_profiles_must_agree_on_the_order_of_the_queue() -> None:
    other = config_with(
        {
            "multiPoint": {"disabled": [{"name": "PrioritySort"}]},
            "queueSort": {"enabled": [{"name": "Mine"}]},
        }
    )
    profiles = [Profile(scheduler_name="a"), Profile(scheduler_name="b", plugins=other)]
    with pytest.raises(ConfigError) as caught:
        resolve_profiles(profiles, implements=WORLD.__getitem__, known=WORLD.keys(), where="f.yaml")
    assert str(caught.value) == (
        'f.yaml: profiles[1].plugins.queueSort: Invalid value: "Mine": '
        'must be the same for all profiles, profiles[0] has "PrioritySort"'
    )


def test_merged_defaults_can_be_printed_and_read_again() -> None:
    plugins = config_with(
        {
            "multiPoint": {
                "enabled": [{"name": "NodeAffinity", "weight": 9}, {"name": "Mine"}],
                "disabled": [{"name": "NodeName"}],
            },
            "filter": {"disabled": [{"name": "NodePorts"}]},
        }
    )
    merged = merge_defaults(plugins)
    names = [ref.name for ref in merged.multi_point.enabled]
    assert "NodeName" not in names
    assert names[-1] == "Mine"
    assert PluginRef("NodeAffinity", 9) in merged.multi_point.enabled
    assert merged.filter == plugins.filter

    def tree(sets: Plugins) -> dict[str, Any]:
        plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(sets))
        return plain

    world = {**IN_TREE, "Mine": frozenset({"score"})}
    assert resolve(tree(merged), world) == resolve(tree(plugins), world)
