"""The scheduling cycle on random clusters that change between decisions.

With and without its shape cache it says the same, and what it says is what a plain reading of
kube-scheduler says node by node (see `reference_scheduler`).
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stowplan.api.objects import Pod
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.pod_info import compile_pod
from stowplan.framework.columns import ColumnCache
from stowplan.framework.plugin import Plugin, PreFilterResult
from stowplan.framework.status import SKIP, Status, unresolvable, unschedulable
from stowplan.queue.nominator import Nominator
from stowplan.scheduler.cycle import decide
from stowplan.scheduler.decision import Decision
from stowplan.testing import node as make_node
from stowplan.testing import pod as make_pod
from tests.examples import examples
from tests.property.clusters import GPU, NODE_NAMES, STORAGE, change_cache, clusters, nodes, pods
from tests.property.reference_scheduler import Outcome, Reference
from tests.unit.scheduler.engine_bench import changed
from tests.unit.scheduler.scheduler_kit import WEIGHTS, defaults, plugin, profile_of

_RESOURCES = [{"name": "cpu", "weight": 3}, {"name": "memory"}, {"name": GPU, "weight": 2}]
_SHAPE = [{"utilization": 0, "score": 8}, {"utilization": 70, "score": 1}]
ARGUMENTS: dict[str, dict[str, Any]] = {
    "least": {},
    "most": {
        "NodeResourcesFit": {
            "scoringStrategy": {"type": "MostAllocated", "resources": _RESOURCES},
            "ignoredResources": [GPU],
        },
        "NodeResourcesBalancedAllocation": {
            "resources": [{"name": name} for name in ("cpu", "memory", STORAGE, GPU)]
        },
    },
    "ratio": {
        "NodeResourcesFit": {
            "scoringStrategy": {
                "type": "RequestedToCapacityRatio",
                "resources": _RESOURCES,
                "requestedToCapacityRatio": {"shape": _SHAPE},
            }
        }
    },
}


# Changes between decisions


@dataclass
class World:
    """A cluster, who is promised what, and the cursor."""

    cache: ClusterCache
    nominated: Nominator = field(default_factory=Nominator)
    assumed: list[Pod] = field(default_factory=list)
    promised: list[Pod] = field(default_factory=list)
    cursor: int = 0

    def change(self, action: str, what: Any) -> None:
        if action in ("set", "remove", "add", "delete"):
            change_cache(self.cache, action, what)
        elif action == "forget":
            if self.assumed:
                self.cache.forget(self.assumed.pop(what % len(self.assumed)).uid)
        elif action == "promise":
            name, other = what
            self.nominated.add(other, name)
            self.promised.append(other)
        elif self.promised:
            assert action == "break promise"
            self.nominated.delete(self.promised.pop(what % len(self.promised)))

    def assume(self, pod: Pod, node: str) -> None:
        if self.cache.node_of(pod.uid) is None:
            self.assumed.append(self.cache.assume(pod, node))


_places = st.integers(0, 20)
_changes = st.one_of(
    nodes().map(lambda node: ("set", node)),
    nodes().map(lambda node: ("set", node)),
    st.sampled_from(NODE_NAMES).map(lambda name: ("remove", name)),
    pods(standing=True).map(lambda pod: ("add", pod)),
    _places.map(lambda place: ("delete", place)),
    _places.map(lambda place: ("forget", place)),
)
_promises = st.one_of(
    st.tuples(st.sampled_from(NODE_NAMES), pods(), st.sampled_from([None, -1, 1])).map(
        lambda drawn: ("promise", (drawn[0], changed(drawn[1], priority=drawn[2], node_name="")))
    ),
    _places.map(lambda place: ("break promise", place)),
)
_askers = st.tuples(pods(), st.sampled_from([None, -1, 1]), st.sampled_from(["", *NODE_NAMES])).map(
    lambda drawn: changed(drawn[0], priority=drawn[1], nominated_node_name=drawn[2])
)
#: (changes, which of the pods asks, whether it is then placed)
_turns = st.lists(
    st.tuples(st.lists(_changes, max_size=4), st.integers(0, 2), st.booleans()),
    min_size=1,
    max_size=8,
)


def _shown(decision: Decision) -> dict[str, Any]:
    """Everything that a decision says, texts and scores included."""
    sheet, diagnosis = decision.scores, decision.diagnosis
    table = decision.cycle.table
    return {
        "node": decision.node,
        "status": decision.status,
        "message": decision.message,
        "cursor": decision.cursor,
        "evaluated": decision.evaluated_nodes,
        "feasible": decision.feasible_nodes,
        "plugins": decision.unschedulable_plugins,
        "scores": None
        if sheet is None
        else (sheet.rows.tolist(), [(name, s.tolist()) for name, s in sheet.by_plugin]),
        "statuses": None
        if diagnosis is None
        else [diagnosis.status_of(row) for row in table.live_rows.tolist()],
    }


def _new(asker: Pod, number: int) -> Pod:
    """The same pod once more, as a controller would make it."""
    return changed(asker, name=f"pod-{number}", uid=f"uid-{number}")


@examples(60)
@given(
    cache=clusters(),
    askers=st.lists(_askers, min_size=3, max_size=3),
    turns=_turns,
    strategy=st.sampled_from(sorted(ARGUMENTS)),
    limit=st.sampled_from([700, 1 << 20]),
    cached_first=st.booleans(),
)
def test_the_shape_cache_changes_nothing(
    cache: ClusterCache,
    askers: list[Pod],
    turns: list[tuple[list[tuple[str, Any]], int, bool]],
    strategy: str,
    limit: int,
    cached_first: bool,
) -> None:
    world = World(cache)
    args = ARGUMENTS[strategy]
    profiles = [
        profile_of(*defaults(args), columns=ColumnCache(limit_bytes=limit)),
        profile_of(*defaults(args), columns=ColumnCache(limit_bytes=0)),
    ]
    if not cached_first:
        profiles.reverse()
    for number, (changes, place, is_placed) in enumerate(turns):
        for action, what in changes:
            world.change(action, what)
        # Each shape twice and once more: a column is kept from its second use on.
        for again in range(3):
            asker = _new(askers[place], 10 * number + again)
            first, second = (
                decide(
                    cache.table,
                    compile_pod(asker),
                    profile,
                    cursor=world.cursor,
                    nominated=world.nominated,
                )
                for profile in profiles
            )
            assert _shown(first) == _shown(second)
            world.cursor = first.cursor
            if is_placed and first.node is not None:
                world.assume(asker, first.node)


def test_the_cache_of_that_test_is_used() -> None:
    """Else it would prove nothing: columns are kept, refreshed and thrown away."""
    columns = ColumnCache()
    profile = profile_of(*defaults(), columns=columns)
    cache = ClusterCache()
    for name in NODE_NAMES:
        cache.set_node(make_node(name))
    for number in range(4):
        pod = make_pod()
        decision = decide(cache.table, compile_pod(pod), profile)
        assert decision.node is not None
        cache.assume(pod, decision.node)
        assert (columns.hits > 0) == (number >= 2)


# Against the reference


def _compare(decision: Decision, expected: Outcome) -> None:
    totals = None
    if decision.scores is not None:
        sheet = decision.scores
        names = [sheet.table.names[row] for row in sheet.rows]
        totals = dict(zip(names, sheet.totals.tolist(), strict=True))
    shown = Outcome(
        decision.node,
        decision.message,
        decision.cursor,
        decision.evaluated_nodes if decision.node else 0,
        decision.feasible_nodes,
        decision.unschedulable_plugins,
        totals,
    )
    assert shown == expected


def _decide_both(
    world: World, asker: Pod, plugins: Iterable[Plugin], weights: Mapping[str, int], percentage: int
) -> Decision:
    plugins = list(plugins)
    info = compile_pod(asker)
    expected = Reference(
        world.cache.table,
        info,
        plugins,
        weights=weights,
        percentage=percentage,
        cursor=world.cursor,
        nominated=world.nominated,
    ).run()
    profile = profile_of(*plugins, weights=weights, percentage=percentage)
    decision = decide(
        world.cache.table, info, profile, cursor=world.cursor, nominated=world.nominated
    )
    _compare(decision, expected)
    world.cursor = decision.cursor
    return decision


@examples(80)
@given(
    cache=clusters(),
    askers=st.lists(_askers, min_size=3, max_size=3),
    promises=st.lists(_promises, max_size=4),
    turns=_turns,
    strategy=st.sampled_from(sorted(ARGUMENTS)),
)
def test_in_tree_plugins_decide_as_the_reference_does(
    cache: ClusterCache,
    askers: list[Pod],
    promises: list[tuple[str, Any]],
    turns: list[tuple[list[tuple[str, Any]], int, bool]],
    strategy: str,
) -> None:
    world = World(cache)
    plugins = defaults(ARGUMENTS[strategy])
    for action, what in promises:
        world.change(action, what)
    for number, (changes, place, is_placed) in enumerate(turns):
        for action, what in changes:
            world.change(action, what)
        asker = _new(askers[place], number)
        decision = _decide_both(world, asker, plugins, WEIGHTS, 100)
        if is_placed and decision.node is not None:
            world.assume(asker, decision.node)


_statuses = st.sampled_from(
    [unschedulable("a"), unschedulable("b", "a"), unresolvable("c"), unresolvable(), None, None]
)
_verdicts = st.dictionaries(st.sampled_from(NODE_NAMES), _statuses)
_scores = st.dictionaries(st.sampled_from(NODE_NAMES), st.integers(0, 100).map(lambda s: s // 9))
_narrowed = st.frozensets(st.sampled_from([*NODE_NAMES, "elsewhere"])).map(PreFilterResult)
_pre_filters = st.one_of(
    st.just(None),
    st.just(SKIP),
    st.just(PreFilterResult()),
    _narrowed,
    st.sampled_from([unschedulable("later"), unresolvable("never")]),
)


@st.composite
def _toys(draw: st.DrawFn) -> list[Plugin]:
    """A few plugins with any answers that are allowed."""
    made = []
    for name in draw(st.permutations("ABC")):
        methods: dict[str, Any] = {}
        if draw(st.booleans()):
            methods["pre_filter"] = draw(_pre_filters)
        if draw(st.booleans()):
            methods["filter"] = _by_name(draw(_verdicts))
        if draw(st.booleans()):
            methods["score"] = draw(_scores)
            if draw(st.booleans()):
                methods["pre_score"] = draw(st.sampled_from([None, SKIP]))
        made.append(plugin(name, **methods))
    return made


def _by_name(verdicts: dict[str, Status | None]) -> Any:
    return lambda pod, node: verdicts.get(node.name)


@examples(250)
@given(
    names=st.lists(st.sampled_from(NODE_NAMES), unique=True, min_size=1),
    toys=_toys(),
    weights=st.dictionaries(st.sampled_from("ABC"), st.integers(1, 5)),
    cursor=st.integers(0, 10),
    nominated_node=st.sampled_from(["", *NODE_NAMES]),
)
def test_any_plugins_decide_as_the_reference_does(
    names: list[str], toys: list[Plugin], weights: dict[str, int], cursor: int, nominated_node: str
) -> None:
    cache = ClusterCache()
    for name in names:
        cache.set_node(make_node(name))
    world = World(cache, cursor=cursor % len(names))
    _decide_both(world, make_pod(nominated_node=nominated_node), toys, weights, 100)


@examples(15)
@given(seed=st.integers(0, 2**32), percentage=st.sampled_from([0, 1, 30, 70, 99, 100]))
def test_sampling_goes_on_as_the_reference_does(seed: int, percentage: int) -> None:
    source = random.Random(seed)
    world = World(ClusterCache())
    total = source.randint(95, 330)
    for number in range(total):
        world.cache.set_node(
            make_node(
                f"n{number}",
                cpu=source.choice(["1", "2", "4"]),
                zone=source.choice([None, "z1", "z2", "z3"]),
                unschedulable=source.random() < 0.2,
            )
        )
    plugins = defaults()
    for number in range(6):
        if source.random() < 0.3:
            world.cache.remove_node(f"n{source.randrange(total)}")
        asker = make_pod(f"p{number}", cpu=source.choice(["100m", "1500m", "3", "9"]))
        decision = _decide_both(world, asker, plugins, WEIGHTS, percentage)
        if decision.node is not None:
            world.assume(asker, decision.node)
