"""StaticPlacement by itself: which nodes, which words, which events, which arguments."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from stowplan.api.objects import Node
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.pod_info import compile_pod
from stowplan.errors import ConfigError
from stowplan.framework.cycle import Cycle
from stowplan.framework.handle import Handle
from stowplan.framework.plugin import PreFilterResult
from stowplan.framework.profile import make_plugin
from stowplan.framework.status import Status, unresolvable
from stowplan.plugins.static_placement import StaticPlacement
from stowplan.queue.events import ActionType, Hint
from stowplan.queue.hints import complete_hints
from stowplan.testing import node, pod
from tests.unit.plugins.plugin_kit import hint, in_place, run_filter

NEW, OLD, LIST = (
    "rf.scheduler.test.default/web-0",
    "rf.scheduler.test/web-0",
    "rf.scheduler.test.default/pods",
)
LONG = "a-stateful-set-with-a-very-long-name-that-no-label-can-hold-anymore-0"


def made(**args: Any) -> StaticPlacement:
    plugin = make_plugin(StaticPlacement, args, Handle(profile="test"))
    assert isinstance(plugin, StaticPlacement)
    return plugin


def labelled(name: str, *keys: str) -> Node:
    return node(name, labels=dict.fromkeys(keys, ""))


def pinned(
    plugin: StaticPlacement, cache: ClusterCache, name: str = "web-0", namespace: str = "default"
) -> set[str]:
    """The nodes that the pod may go to, the same from PreFilter and both forms of Filter."""
    asker = pod(name, namespace=namespace)
    answer = plugin.pre_filter(Cycle(cache.table, compile_pod(asker)))
    narrowed: set[str] = set()
    if isinstance(answer, PreFilterResult):
        assert answer.nodes
        narrowed |= answer.nodes
    answers = run_filter(plugin, asker, cache)
    refused = unresolvable("node(s) had no pin for the pod").by("StaticPlacement")
    assert {status for status in answers.values() if not status.is_success} <= {refused}
    assert {name for name, status in answers.items() if status.is_success} == narrowed
    return narrowed


def rejection(plugin: StaticPlacement, name: str) -> Status:
    cache = in_place([node("a")])
    answer = plugin.pre_filter(Cycle(cache.table, compile_pod(pod(name))))
    assert isinstance(answer, Status)
    return answer


# Which nodes


def test_a_pod_goes_where_its_label_is() -> None:
    cache = in_place([node("a"), labelled("b", NEW), labelled("c", NEW)])
    assert pinned(made(), cache) == {"b", "c"}
    assert pinned(made(), cache, "web-1") == set()


def test_the_namespace_counts() -> None:
    cache = in_place([labelled("a", NEW), labelled("b", "rf.scheduler.test.db/web-0")])
    assert pinned(made(), cache) == {"a"}
    assert pinned(made(), cache, namespace="db") == {"b"}
    assert pinned(made(), cache, namespace="elsewhere") == set()


def test_the_older_label_is_for_any_namespace_and_can_be_switched_off() -> None:
    cache = in_place([labelled("a", OLD), labelled("b", NEW)])
    assert pinned(made(), cache) == {"a", "b"}
    assert pinned(made(), cache, namespace="db") == {"a"}
    assert pinned(made(olderLabels=False), cache) == {"b"}


def test_names_of_any_length_can_be_listed_in_an_annotation() -> None:
    cache = in_place([node("a", annotations={LIST: f"{LONG},\n web-0"}), node("b")])
    assert pinned(made(), cache, LONG) == {"a"}
    assert pinned(made(), cache) == {"a"}
    assert pinned(made(), cache, namespace="db") == set()


def test_each_scheduler_reads_its_own_labels() -> None:
    cache = in_place([labelled("a", NEW), labelled("b", "pins.example.com.blue.default/web-0")])
    assert pinned(made(), cache) == {"a"}
    assert pinned(made(prefix="pins.example.com", schedulerName="blue"), cache) == {"b"}
    assert pinned(StaticPlacement(), cache) == set()


def test_changes_of_nodes_are_followed() -> None:
    cache, plugin = in_place([node("a"), labelled("b", NEW)]), made()
    assert pinned(plugin, cache) == {"b"}
    cache.set_node(labelled("a", NEW))
    assert pinned(plugin, cache) == {"a", "b"}
    cache.set_node(node("b"))
    assert pinned(plugin, cache) == {"a"}
    cache.remove_node("a")
    assert pinned(plugin, cache) == set()
    # The slot of the node that is gone goes to another one.
    cache.set_node(labelled("c", "rf.scheduler.test.default/web-1"))
    assert pinned(plugin, cache) == set()
    assert pinned(plugin, cache, "web-1") == {"c"}
    cache.set_node(labelled("a", NEW))
    assert pinned(plugin, cache) == {"a"}


def test_a_node_that_is_gone_but_still_holds_pods_is_nowhere_to_go() -> None:
    cache, plugin = in_place([labelled("a", NEW), node("b")], [pod(node="a")]), made()
    assert pinned(plugin, cache) == {"a"}
    cache.remove_node("a")
    assert pinned(plugin, cache) == set()
    cache.set_node(labelled("a", NEW))
    assert pinned(plugin, cache) == {"a"}


def test_more_changes_than_the_journal_holds() -> None:
    cache, plugin = in_place([labelled("a", NEW), node("b")]), made()
    assert pinned(plugin, cache) == {"a"}
    cache.set_node(node("a"))
    cache.set_node(labelled("b", NEW))
    for number in range(20_000):
        cache.set_node(node("c", cpu=number % 2 + 1))
    assert pinned(plugin, cache) == {"b"}


# Words


def test_a_pod_without_a_node_is_told_what_to_type() -> None:
    assert rejection(made(), "web-0") == unresolvable(
        "the pod is pinned to no node, pin it with `kubectl label node NODE "
        "rf.scheduler.test.default/web-0=`"
    )
    assert rejection(made(), LONG) == unresolvable(
        "the pod is pinned to no node, pin it with `kubectl annotate node NODE "
        f"rf.scheduler.test.default/pods={LONG}`"
    )


def _bound(plugin: StaticPlacement, cache: ClusterCache, where: str) -> None:
    asker = pod("web-0")
    cycle = Cycle(cache.table, compile_pod(asker))
    plugin.pre_filter(cycle)
    plugin.post_bind(cycle, asker, where)


def test_the_older_label_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    cache = in_place([labelled("a", OLD), labelled("b", OLD, NEW)])
    with caplog.at_level(logging.WARNING, logger="stowplan"):
        _bound(made(), cache, "a")
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.__dict__["kv"] == {
        "pod": "default/web-0",
        "node": "a",
        "label": OLD,
        "use": f"kubectl label node a {NEW}=",
    }


@pytest.mark.parametrize("where", ["b", "c", "d"])
def test_newer_forms_are_not_warned_of(where: str, caplog: pytest.LogCaptureFixture) -> None:
    listing = node("d", annotations={LIST: "web-0"})
    cache = in_place([labelled("a", OLD), labelled("b", OLD, NEW), labelled("c", NEW), listing])
    with caplog.at_level(logging.WARNING, logger="stowplan"):
        _bound(made(), cache, where)
    assert caplog.records == []


# Events

LABEL, NOTE, TAINT = (
    ActionType.UPDATE_NODE_LABEL,
    ActionType.UPDATE_NODE_ANNOTATION,
    ActionType.UPDATE_NODE_TAINT,
)


@pytest.mark.parametrize(
    ("action", "old", "new", "expected"),
    [
        (ActionType.ADD, None, node("a"), Hint.SKIP),
        (ActionType.ADD, None, labelled("a", NEW), Hint.QUEUE),
        (ActionType.ADD, None, labelled("a", OLD), Hint.QUEUE),
        (ActionType.ADD, None, node("a", annotations={LIST: "web-0"}), Hint.QUEUE),
        (LABEL, node("a"), labelled("a", NEW), Hint.QUEUE),
        (LABEL, node("a"), labelled("a", "rf.scheduler.test.default/web-1"), Hint.SKIP),
        (LABEL, node("a"), labelled("a", "rf.scheduler.test.db/web-0"), Hint.SKIP),
        (LABEL, labelled("a", NEW), node("a"), Hint.SKIP),
        (LABEL, labelled("a", NEW), labelled("a", NEW, "more"), Hint.SKIP),
        (LABEL, labelled("a", OLD), labelled("a", NEW), Hint.SKIP),
        (NOTE, node("a"), node("a", annotations={LIST: "web-1 web-0"}), Hint.QUEUE),
        (NOTE, node("a"), node("a", annotations={LIST: "web-1"}), Hint.SKIP),
        (NOTE, labelled("a", NEW), node("a", annotations={LIST: "web-0"}), Hint.SKIP),
        (TAINT, labelled("a", NEW), labelled("a", NEW), Hint.SKIP),
        (ActionType.UPDATE_NODE_ALLOCATABLE, node("a"), labelled("a", NEW), None),
        (ActionType.DELETE, labelled("a", NEW), None, None),
    ],
)
def test_a_pod_comes_back_only_for_its_own_pin(
    action: ActionType, old: Any, new: Any, expected: Hint | None
) -> None:
    plugin = made()
    assert hint(plugin, "Node", action, pod("web-0"), old, new) is expected
    # What it remembers of one event must not answer for another.
    hint(plugin, "Node", action, pod("web-0"), new, old)
    assert hint(plugin, "Node", action, pod("web-0"), old, new) is expected


def test_no_other_event_is_registered() -> None:
    plugin = made()
    assert hint(plugin, "Pod", ActionType.DELETE, pod("web-0"), pod(), None) is None
    completed = complete_hints({plugin.name: plugin.events()})[plugin.name]
    assert completed == tuple(plugin.events())


# Arguments


@pytest.mark.parametrize(
    ("profile", "args", "problem"),
    [
        ("test", {"prefx": "x"}, 'args.prefx: unknown field; did you mean "prefix"?'),
        ("test", {"prefix": 3}, "args.prefix: Invalid value: 3: "),
        ("test", {"olderLabels": "yes"}, 'args.olderLabels: Invalid value: "yes": '),
        ("test", {"prefix": ""}, "args.prefix: Invalid value: \"\": '' cannot begin a node label"),
        ("test", {"prefix": "a/b"}, 'args.prefix: Invalid value: "a/b": '),
        ("test", {"schedulerName": "A"}, 'args.schedulerName: Invalid value: "A": '),
        ("Test", {}, 'args.schedulerName: Invalid value: "Test": '),
    ],
)
def test_arguments_that_are_refused(profile: str, args: dict[str, Any], problem: str) -> None:
    path = "profiles[2].pluginConfig[1].args"
    with pytest.raises(ConfigError) as refused:
        make_plugin(StaticPlacement, args, Handle(profile=profile), path=path, file="f.yaml")
    assert str(refused.value).startswith(f"f.yaml: profiles[2].pluginConfig[1].{problem}")


def test_a_profile_whose_name_makes_no_label_can_be_given_another() -> None:
    with pytest.raises(ConfigError, match="it is the profile's name, set another one here"):
        make_plugin(StaticPlacement, {}, Handle(profile="Test"))
    plugin = make_plugin(StaticPlacement, {"schedulerName": "test"}, Handle(profile="Test"))
    assert isinstance(plugin, StaticPlacement)
    assert plugin.labels.label("default", "web-0") == NEW
