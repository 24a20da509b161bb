"""StaticPlacement on random nodes: its index against reading all nodes anew, and its forms.

Nodes come, go, come back under another's slot, and change their labels and annotations; pods stand
on them, so that some stay as ghosts. Keys are the scheduler's own in every form, those of a
neighbour whose name begins alike, and plain ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stowplan.api.objects import Node
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.pod_info import compile_pod
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import FilterStep
from stowplan.framework.handle import Handle
from stowplan.framework.plugin import PreFilterResult
from stowplan.framework.status import SUCCESS
from stowplan.plugins.static_placement.plugin import StaticPlacement, StaticPlacementArgs
from stowplan.queue.events import Hint
from stowplan.testing import node, pod
from tests.examples import examples

NODES = [f"n{number}" for number in range(5)]
PODS = ["web-0", "web-1", "db"]
NAMESPACES = ["default", "x"]

_schedulers = st.sampled_from(["test", "test", "test", "test.x", "tester"])
_labels = st.one_of(
    st.builds(
        "rf.scheduler.{}.{}/{}".format,
        _schedulers,
        st.sampled_from(NAMESPACES),
        st.sampled_from(PODS),
    ),
    st.builds("rf.scheduler.{}/{}".format, _schedulers, st.sampled_from(PODS)),
    st.sampled_from(["disk", "kubernetes.io/arch", "rf.scheduler/web-0"]),
)
_lists = st.dictionaries(
    st.builds("rf.scheduler.{}.{}/pods".format, _schedulers, st.sampled_from(NAMESPACES)),
    st.lists(st.sampled_from(PODS), max_size=3).map(" ,\n".join),
    max_size=2,
)
nodes = st.builds(
    lambda name, keys, lists: node(name, labels=dict.fromkeys(keys, ""), annotations=lists),
    st.sampled_from(NODES),
    st.sets(_labels, max_size=4),
    st.one_of(st.none(), _lists),
)
changes = st.lists(
    st.one_of(
        nodes.map(lambda made: ("set", made)),
        st.sampled_from(NODES).map(lambda name: ("remove", name)),
        st.sampled_from(NODES).map(lambda name: ("stand", name)),
        st.integers(0, 5).map(lambda place: ("leave", place)),
        st.just(("ask", None)),
    ),
    max_size=25,
)


def says(of: Node, namespace: str, name: str, *, older_labels: bool) -> bool:
    """The rule in the issue's words, as plainly as can be."""
    labels, annotations = of.metadata.labels or {}, of.metadata.annotations or {}
    listed = annotations.get(f"rf.scheduler.test.{namespace}/pods", "")
    return (
        f"rf.scheduler.test.{namespace}/{name}" in labels
        or (older_labels and f"rf.scheduler.test/{name}" in labels)
        or name in listed.replace(",", " ").split()
    )


def _apply(cache: ClusterCache, action: str, what: Any) -> None:
    if action == "set":
        cache.set_node(what)
    elif action == "remove":
        cache.remove_node(what)
    elif action == "stand":
        cache.add_pod(pod(node=what))
    elif action == "leave":
        standing = sorted(cache.placements())
        if standing:
            cache.remove_pod(standing[what % len(standing)])


def _check(plugin: StaticPlacement, cache: ClusterCache, *, older_labels: bool) -> None:
    table, step = cache.table, FilterStep(plugin)
    for namespace in NAMESPACES:
        for name in PODS:
            expected = {
                table.names[row]
                for row in table.live_rows.tolist()
                if says(table.node(row), namespace, name, older_labels=older_labels)
            }
            cycle = Cycle(table, compile_pod(pod(name, namespace=namespace)))
            answer = plugin.pre_filter(cycle)
            narrowed = set(answer.nodes or ()) if isinstance(answer, PreFilterResult) else set()
            assert narrowed == expected
            column = np.full(table.capacity, -1, np.int32)
            step.fill(cycle, table.live_rows, column)
            for row in table.live_rows.tolist():
                one = step.status_of_row(cycle, row)
                assert one.is_success == (table.names[row] in expected)
                assert (step.status(cycle, int(column[row])) if column[row] else SUCCESS) == one


@examples(150)
@given(changes=changes, older_labels=st.booleans(), journal=st.sampled_from([2, 8192]))
def test_the_index_says_what_the_nodes_say(
    changes: list[tuple[str, Any]], older_labels: bool, journal: int
) -> None:
    cache = ClusterCache()
    cache.table.node_journal.limit = journal
    args = StaticPlacementArgs(older_labels=older_labels)
    plugin = StaticPlacement(args, Handle(profile="test"))
    for action, what in [*changes, ("ask", None)]:
        _apply(cache, action, what)
        if action == "ask":
            _check(plugin, cache, older_labels=older_labels)


@examples(100)
@given(first=changes, second=changes)
def test_one_plugin_may_be_asked_about_several_clusters(
    first: list[tuple[str, Any]], second: list[tuple[str, Any]]
) -> None:
    plugin = StaticPlacement(None, Handle(profile="test"))
    caches = ClusterCache(), ClusterCache()
    for cache, made in zip(caches, (first, second), strict=True):
        for action, what in made:
            _apply(cache, action, what)
    for cache in (*caches, *caches):
        _check(plugin, cache, older_labels=True)


@examples(200)
@given(
    old=st.one_of(st.none(), nodes),
    new=nodes,
    namespace=st.sampled_from(NAMESPACES),
    name=st.sampled_from(PODS),
)
def test_hints_let_a_pod_try_again_when_a_node_has_become_its_own(
    old: Node | None, new: Node, namespace: str, name: str
) -> None:
    plugin = StaticPlacement(None, Handle(profile="test"))
    (registered,) = plugin.events()
    assert registered.hint is not None
    was = old is not None and says(old, namespace, name, older_labels=True)
    gained = says(new, namespace, name, older_labels=True) and not was
    hint = registered.hint(pod(name, namespace=namespace), old, new)
    assert hint is (Hint.QUEUE if gained else Hint.SKIP)
