"""No plugin and no event is forgotten: plugins, upstream's table and the matrix agree."""

from __future__ import annotations

from stowplan.config.defaults import default_config
from stowplan.config.merge import merge_defaults
from stowplan.queue.hints import complete_hints
from tests.unit.scheduler.requeue.matrix import Pair, pairs_of
from tests.unit.scheduler.requeue.registered_events import (
    ALWAYS_QUEUES,
    NEVER_QUEUES,
    NEVER_REJECT,
    REGISTERED,
    TAINTS_TOO,
    UPSTREAM,
)
from tests.unit.scheduler.requeue.test_matrix import ROWS
from tests.unit.scheduler.requeue.world import World
from tests.unit.scheduler.scheduler_kit import SCHEDULER

#: Where a plugin may say that a pod has to wait.
_REJECTING_POINTS = ("preEnqueue", "preFilter", "filter", "postFilter", "reserve", "permit")


def _pairs_of_plugins() -> set[Pair]:
    """What the plugins of the default profile say that they want to hear of."""
    plugins = World().engine.profiles[SCHEDULER].plugins
    return {
        pair for name, plugin in plugins.items() for pair in pairs_of(name, plugin.events() or ())
    }


def test_every_default_plugin_is_there_and_in_the_table() -> None:
    enabled = merge_defaults(default_config().profiles[0].plugins).multi_point.enabled
    names = {ref.name for ref in enabled}
    assert {*World().engine.profiles[SCHEDULER].plugins} == names
    assert UPSTREAM.keys() | NEVER_REJECT == names
    assert not UPSTREAM.keys() & NEVER_REJECT


def test_a_plugin_without_events_rejects_no_pod() -> None:
    profile = World().engine.profiles[SCHEDULER]
    for name in NEVER_REJECT:
        assert profile.plugins[name].events() is None
        assert not any(
            plugin.name == name for point in _REJECTING_POINTS for plugin in profile.at(point)
        ), name


def test_the_plugins_register_what_upstreams_do() -> None:
    assert _pairs_of_plugins() == REGISTERED


def test_the_queue_adds_taints_for_those_who_wait_for_nodes() -> None:
    plugins = World().engine.profiles[SCHEDULER].plugins
    completed = complete_hints({name: plugins[name].events() for name in UPSTREAM})
    pairs = {pair for name, hints in completed.items() for pair in pairs_of(name, hints)}
    assert pairs == REGISTERED | TAINTS_TOO


def test_every_pair_has_a_row_that_brings_a_pod_back() -> None:
    assert {row.pair for row in ROWS if row.back} == (REGISTERED | TAINTS_TOO) - {*NEVER_QUEUES}


def test_every_pair_has_a_row_that_leaves_a_pod_where_it_is_unless_none_can() -> None:
    assert {row.pair for row in ROWS if row.stay} == (REGISTERED | TAINTS_TOO) - {*ALWAYS_QUEUES}
    assert all(ALWAYS_QUEUES.values())
    assert all(NEVER_QUEUES.values())


def test_rows_have_names_of_their_own() -> None:
    names = [str(row) for row in ROWS]
    assert len(names) == len({*names})
