"""Whole shapes on clusters that change all the time: the same decisions as without them.

Two profiles with the same plugins decide about the same pods on the same table. One keeps columns
and shapes, with much room or hardly any; the other keeps nothing and goes the long way. Everything
that a decision says must be equal: node, scores by plugin, cursor, texts, who is to be evicted.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.api.objects import ObjectMeta, Pod
from stowplan.api.resources import SERVICES
from stowplan.api.workload_objects import SelectingSpec, Service
from stowplan.clock import VirtualClock
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.journal import Rows
from stowplan.cluster.pod_info import PodInfo, compile_pod
from stowplan.cluster.table import Int64Array
from stowplan.cluster.views import NodeView
from stowplan.config.defaults import default_config
from stowplan.framework import forms
from stowplan.framework.columns import ColumnCache
from stowplan.framework.cycle import Cycle
from stowplan.framework.plugin import Plugin, Reads
from stowplan.framework.profile import Profile
from stowplan.framework.ranking import Ranking
from stowplan.framework.shapes import Shapes
from stowplan.framework.status import unschedulable
from stowplan.plugins.registry import in_tree_registry
from stowplan.scheduler.assembly import build_profiles
from stowplan.scheduler.cycle import decide
from stowplan.testing import node as make_node
from stowplan.testing import pod as make_pod
from tests.examples import examples
from tests.property.clusters import clusters, nodes, pods
from tests.property.test_cycle import World, _shown
from tests.unit.scheduler.engine_bench import changed
from tests.unit.scheduler.scheduler_kit import WEIGHTS, defaults, profile_of

BIG = [f"big-{number}" for number in range(9)]
_IMAGES = {"web:latest": 300 << 20}


def _big_node(number: int, *, cpu: int = 8, moved: int = 0, **more: Any) -> Any:
    zone = f"z{(number + moved) % 3}"
    return make_node(BIG[number], cpu=cpu, zone=zone, labels={"pool": "ab"[number % 2]}, **more)


def _populate(cache: ClusterCache) -> None:
    """Room for most pods, so that there is something to choose from."""
    for number in range(len(BIG)):
        taints = ["soft=x:PreferNoSchedule"] if number % 4 == 1 else []
        images = _IMAGES if number % 3 == 0 else None
        # One is cordoned, and stays so whatever its pods do.
        cordoned = number == 8
        cache.set_node(_big_node(number, taints=taints, images=images, unschedulable=cordoned))
    meta = ObjectMeta(name="web", namespace="default")
    cache.catalog[SERVICES].set(Service(metadata=meta, spec=SelectingSpec(selector={"app": "a"})))


_ANTI = "podAntiAffinity"


def _required(kind: str, app: str, key: str = "topology.kubernetes.io/zone") -> dict[str, Any]:
    """Affinity with one required term, about pods of an application."""
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


_SPREAD = [
    {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": action,
        "labelSelector": {"matchLabels": {"app": "b"}},
    }
    for action in ("DoNotSchedule", "ScheduleAnyway")
]
_IN_POOL = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {
                "weight": 5,
                "preference": {
                    "matchExpressions": [{"key": "pool", "operator": "In", "values": ["a"]}]
                },
            }
        ]
    }
}
_WITH_FRIENDS = {
    kind: {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {
                "weight": weight,
                "podAffinityTerm": {
                    "topologyKey": key,
                    "labelSelector": {"matchLabels": {"app": "b"}},
                },
            }
        ]
    }
    for kind, weight, key in (
        ("podAffinity", 10, "topology.kubernetes.io/zone"),
        ("podAntiAffinity", 7, "kubernetes.io/hostname"),
    )
}
#: Pods as controllers make them; each is asked for again and again.
TEMPLATES = [
    make_pod("plain", cpu="500m"),
    make_pod("plain-too", cpu="500m"),
    make_pod("large", cpu=3),
    make_pod("served", cpu="100m", labels={"app": "a"}),
    make_pod("pooled", node_selector={"pool": "a"}),
    make_pod("would-be-pooled", affinity=_IN_POOL),
    make_pod(
        "lone",
        labels={"app": "lone"},
        affinity=_required(_ANTI, "lone", "kubernetes.io/hostname"),
    ),
    make_pod("spread", labels={"app": "b"}, topology_spread_constraints=_SPREAD[:1]),
    make_pod("would-be-spread", labels={"app": "b"}, topology_spread_constraints=_SPREAD[1:]),
    make_pod("near", labels={"app": "b"}, affinity=_required("podAffinity", "b")),
    make_pod("alone-in-its-zone", labels={"app": "lone"}, affinity=_required(_ANTI, "lone")),
    make_pod("befriended", labels={"app": "b"}, affinity=_WITH_FRIENDS),
    make_pod(
        "befriended-and-spread",
        labels={"app": "b"},
        affinity=_WITH_FRIENDS,
        topology_spread_constraints=_SPREAD[1:],
    ),
    make_pod("important", cpu=5, priority=5),
    make_pod("best-effort", cpu=None, memory=None),
]

_places = st.integers(0, 20)
_changes = st.one_of(
    nodes().map(lambda node: ("set", node)),
    st.builds(
        lambda number, cpu, cordoned: ("set", _big_node(number, cpu=cpu, unschedulable=cordoned)),
        st.integers(0, len(BIG) - 1),
        st.sampled_from([1, 8, 8, 16]),
        st.booleans(),
    ),
    st.builds(
        lambda number, moved: ("set", _big_node(number, moved=moved)),
        st.integers(0, len(BIG) - 1),
        st.integers(0, 2),
    ),
    st.sampled_from(BIG).map(lambda name: ("remove", name)),
    st.sampled_from(BIG).map(
        lambda name: ("add", make_pod(node=name, cpu=2, labels={"app": "lone"}))
    ),
    pods(standing=True).map(lambda pod: ("add", pod)),
    _places.map(lambda place: ("delete", place)),
    _places.map(lambda place: ("delete", place)),
    _places.map(lambda place: ("forget", place)),
    st.tuples(st.sampled_from(BIG), st.sampled_from([1, 6]), st.integers(0, 9)).map(
        lambda drawn: ("promise", (drawn[0], make_pod(cpu=drawn[1], priority=drawn[2])))
    ),
    _places.map(lambda place: ("break promise", place)),
)
#: (changes, who asks, how often in a row, whether it is then placed)
_turns = st.lists(
    st.tuples(
        st.lists(_changes, max_size=2),
        st.integers(0, len(TEMPLATES)),
        st.integers(1, 4),
        st.sampled_from([True, True, True, False]),
    ),
    min_size=2,
    max_size=12,
)


def _default_profile(cache: ClusterCache, limit_bytes: int) -> Profile:
    """kube-scheduler's default profile, which keeps so many bytes of columns and shapes."""
    profiles, _ = build_profiles(
        default_config(),
        cache,
        registry=in_tree_registry(),
        clock=VirtualClock(),
        rng=Random(1),
    )
    (profile,) = profiles.values()
    profile.columns = ColumnCache(limit_bytes=limit_bytes)
    profile.shapes = Shapes(profile.columns)
    return profile


def _play(
    world: World,
    askers: list[Pod],
    turns: list[tuple[list[tuple[str, Any]], int, int, bool]],
    profiles: list[Profile],
) -> None:
    number = 0
    for changes, place, times, is_placed in turns:
        for action, what in changes:
            world.change(action, what)
        for _ in range(times):
            number += 1
            asker = changed(askers[place], name=f"asker-{number}", uid=f"asker-uid-{number}")
            nominated = world.nominated if len(world.nominated) else None
            first, second = (
                decide(
                    world.cache.table,
                    compile_pod(asker),
                    profile,
                    cursor=world.cursor,
                    turn=number,
                    nominated=nominated,
                )
                for profile in profiles
            )
            assert _shown(first) == _shown(second)
            assert first.eviction == second.eviction
            world.cursor = first.cursor
            if is_placed and first.node is not None:
                world.assume(asker, first.node)


@examples(120)
@given(
    cache=clusters(),
    asker=pods(),
    turns=_turns,
    limit=st.sampled_from([900, 5000, 1 << 22, 1 << 22]),
    few=st.sampled_from([0, 4]),
    percentage=st.sampled_from([100, 100, 30, 0]),
    seed=st.sampled_from([None, None, 7]),
    cursor=st.integers(0, 12),
)
def test_shapes_change_nothing(
    cache: ClusterCache,
    asker: Pod,
    turns: list[tuple[list[tuple[str, Any]], int, int, bool]],
    limit: int,
    few: int,
    percentage: int,
    seed: int | None,
    cursor: int,
) -> None:
    _populate(cache)
    profiles = [_default_profile(cache, limit), _default_profile(cache, 0)]
    for profile in profiles:
        profile.percentage_of_nodes_to_score = percentage
        profile.tie_break_seed = seed
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forms, "FEW_ROWS", few)
        _play(World(cache, cursor=cursor), [*TEMPLATES, asker], turns, profiles)


class Moody(Plugin):
    """Keeps its columns, refuses and scores by the number of pods, and breaks at some numbers."""

    name = "Moody"
    reads = Reads.PODS
    breaks_at = 99
    raves_at = 99

    def sign(self, info: PodInfo) -> Any:
        return len(info.request)

    def filter_columns(self, cycle: Cycle, rows: Any, out: Any, overlay: Any) -> None:
        counts = cycle.table.pod_count[rows]
        if (counts == self.breaks_at).any():
            raise ValueError("too much")
        out[rows] = counts % 5 == 4

    def filter(self, pod: Pod, node: NodeView) -> Any:
        if node.pod_count == self.breaks_at:
            raise ValueError("too much")
        return node.pod_count % 5 != 4

    def score_columns(self, cycle: Cycle, rows: Any, out: Any) -> None:
        counts = cycle.table.pod_count[rows]
        out[rows] = np.where(counts == self.raves_at, 101, counts)

    def score(self, pod: Pod, node: NodeView) -> int:
        return 101 if node.pod_count == self.raves_at else node.pod_count

    verdicts = (unschedulable("moody"),)


class Leveller(Plugin):
    """Normalises what pods change: such columns are kept, but never added up."""

    name = "Leveller"
    reads = Reads.PODS

    def sign(self, info: PodInfo) -> Any:
        return ()

    def score_columns(self, cycle: Cycle, rows: Any, out: Any) -> None:
        out[rows] = cycle.table.pod_count[rows]

    def score(self, pod: Pod, node: NodeView) -> int:
        return node.pod_count

    def normalize(self, cycle: Cycle, scores: Any) -> Any:
        return 100 * scores // max(int(scores.max()), 1)


@examples(80)
@given(
    turns=_turns,
    breaks_at=st.sampled_from([99, 1, 2, 3]),
    raves_at=st.sampled_from([99, 99, 1, 2]),
    few=st.sampled_from([0, 4]),
)
def test_plugins_that_break_do_so_in_the_same_words(
    turns: list[tuple[list[tuple[str, Any]], int, int, bool]],
    breaks_at: int,
    raves_at: int,
    few: int,
) -> None:
    cache = ClusterCache()
    _populate(cache)
    profiles = []
    for limit in (1 << 22, 0):
        moody = Moody()
        moody.breaks_at, moody.raves_at = breaks_at, raves_at
        plugins = [moody, *defaults(), Leveller()]
        profiles.append(
            profile_of(*plugins, weights=WEIGHTS, columns=ColumnCache(limit_bytes=limit))
        )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forms, "FEW_ROWS", few)
        _play(World(cache), [*TEMPLATES, make_pod()], turns, profiles)


def test_the_shapes_of_these_tests_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else they would prove nothing: from the fifth pod on only rows that changed are looked at."""
    updated: list[int] = []

    def update(self: Ranking, rows: Rows | list[int], sums: Int64Array) -> None:
        updated.append(len(rows))
        original(self, rows, sums)

    original = Ranking.update
    monkeypatch.setattr(Ranking, "update", update)
    cache = ClusterCache()
    _populate(cache)
    profile = _default_profile(cache, 1 << 22)
    for number in range(8):
        pod = changed(TEMPLATES[0], name=f"p{number}", uid=f"u{number}")
        decision = decide(cache.table, compile_pod(pod), profile)
        assert decision.node is not None
        cache.assume(pod, decision.node)
    assert updated[1:] == [1] * 5
    assert updated[0] > 1, "a new ranking begins with all feasible rows"


def test_scores_are_good_until_the_next_decision() -> None:
    cache = ClusterCache()
    _populate(cache)
    profile = _default_profile(cache, 1 << 22)
    first, second = (
        decide(cache.table, compile_pod(changed(TEMPLATES[0], uid=uid)), profile) for uid in "ab"
    )
    assert second.scores is not None
    with pytest.raises(LookupError, match="until the next"):
        assert first.scores


def test_a_shape_that_is_made_anew_leaves_nothing_behind() -> None:
    cache = ClusterCache()
    _populate(cache)
    profile = _default_profile(cache, 1 << 24)
    kept: list[int] = []
    for cpu in (8, 9) * 6:  # a node changes again and again
        cache.set_node(_big_node(0, cpu=cpu))
        for template in TEMPLATES * 3:
            decide(cache.table, compile_pod(template), profile)
        kept.append(len(profile.columns.lru))
    assert kept[-1] == kept[2]
