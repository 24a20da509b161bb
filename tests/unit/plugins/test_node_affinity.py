"""NodeAffinity: kube-scheduler's own cases, and the corners of its arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stowplan.api.objects import Pod
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.pod_info import compile_pod
from stowplan.errors import ConfigError, PluginError
from stowplan.framework.cycle import Cycle
from stowplan.framework.plugin import Plugin, PreFilterResult
from stowplan.framework.profile import make_plugin
from stowplan.framework.status import SKIP, SUCCESS, Code, Status
from stowplan.plugins.node_affinity import NodeAffinity
from stowplan.queue.events import ActionType, Hint
from stowplan.testing import node, pod
from tests.unit.plugins.plugin_kit import hint, in_place, made, run_filter, run_scores

Json = dict[str, Any]

POD_MISMATCH = Status(
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
    ("node(s) didn't match Pod's node affinity/selector",),
    "NodeAffinity",
)
ENFORCED_MISMATCH = Status(
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
    ("node(s) didn't match scheduler-enforced node affinity",),
    "NodeAffinity",
)
CONFLICT = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("pod affinity terms conflict",))


def expression(key: str, operator: str, *values: str) -> Json:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def labels(*expressions: Json) -> Json:
    """A term about labels."""
    return {"matchExpressions": list(expressions)}


def named(*names: str) -> Json:
    """A term whose fields name a node, each a different one."""
    return {"matchFields": [expression("metadata.name", "In", name) for name in names]}


def required(*terms: Json) -> Json:
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}


def preferred(*weighted: tuple[int, Json]) -> Json:
    terms = [{"weight": weight, "preference": term} for weight, term in weighted]
    return {"preferredDuringSchedulingIgnoredDuringExecution": terms}


def wanting(affinity: Json, **spec: Any) -> Pod:
    return pod(affinity={"nodeAffinity": affinity}, **spec)


def adding(affinity: Json) -> Plugin:
    return made("NodeAffinity", {"addedAffinity": affinity})


def answer(asker: Pod, own: Json, name: str = "n", plugin: Plugin | None = None) -> Status:
    """What Filter says of a node with these labels."""
    cache = in_place([node(name, labels=own)])
    return run_filter(plugin or made("NodeAffinity"), asker, cache)[name]


def pre_filter(asker: Pod, plugin: Plugin | None = None) -> PreFilterResult | Status | None:
    plugin = plugin or made("NodeAffinity")
    assert isinstance(plugin, NodeAffinity)
    return plugin.pre_filter(Cycle(ClusterCache().table, compile_pod(asker)))


# Filter


@pytest.mark.parametrize(
    ("selector", "own", "fits"),
    [
        ({"foo": "bar"}, {}, False),
        ({"foo": "bar"}, {"foo": "bar"}, True),
        ({"foo": "bar"}, {"foo": "bar", "baz": "blah"}, True),
        ({"foo": "bar", "baz": "blah"}, {"foo": "bar"}, False),
        ({}, {}, True),
        # Nothing is checked, as the labels themselves were.
        ({"foo": "not a value"}, {"foo": "bar"}, False),
    ],
)
def test_node_selector(selector: Json, own: Json, fits: bool) -> None:
    assert answer(pod(node_selector=selector), own) == (SUCCESS if fits else POD_MISMATCH)


@pytest.mark.parametrize(
    ("terms", "own", "fits"),
    [
        ([labels(expression("foo", "In", "bar", "value2"))], {"foo": "bar"}, True),
        ([labels(expression("foo", "In", "value1", "value2"))], {"foo": "bar"}, False),
        ([labels(expression("kernel", "Gt", "0204"))], {"kernel": "0206"}, True),
        ([labels(expression("kernel", "Gt", "206"))], {"kernel": "0206"}, False),
        # A negative bound is no label value, and so makes the term invalid.
        ([labels(expression("kernel", "Lt", "-3"))], {"kernel": "-4"}, False),
        ([labels(expression("kernel", "Lt", "7"))], {"kernel": "6"}, True),
        ([labels(expression("kernel", "Lt", "7"))], {"kernel": "six"}, False),
        ([labels(expression("kernel", "Lt", "7"))], {}, False),
        ([labels(expression("mem", "NotIn", "DDR", "DDR2"))], {"mem": "DDR3"}, True),
        ([labels(expression("mem", "NotIn", "DDR", "DDR2"))], {"mem": "DDR2"}, False),
        ([labels(expression("mem", "NotIn", "DDR"))], {}, True),
        ([labels(expression("GPU", "Exists"))], {"GPU": "K1"}, True),
        ([labels(expression("GPU", "Exists"))], {}, False),
        ([labels(expression("GPU", "DoesNotExist"))], {}, True),
        ([labels(expression("GPU", "DoesNotExist"))], {"GPU": ""}, False),
        ([labels()], {"foo": "bar"}, False),
        ([{}], {"foo": "bar"}, False),
        ([], {"foo": "bar"}, False),
        (
            [labels(expression("GPU", "Exists"), expression("GPU", "NotIn", "AMD", "INTER"))],
            {"GPU": "K1"},
            True,
        ),
        (
            [labels(expression("GPU", "Exists"), expression("GPU", "In", "AMD", "INTER"))],
            {"GPU": "K1"},
            False,
        ),
        (
            [
                labels(expression("foo", "In", "bar")),
                labels(expression("other", "In", "wrong")),
            ],
            {"foo": "bar"},
            True,
        ),
        # An invalid term matches nothing; those beside it still may.
        ([labels(expression("foo", "NotIn", "bad: ___@#$%^"))], {"foo": "bar"}, False),
        (
            [labels(expression("foo", "Like", "b*")), labels(expression("foo", "Exists"))],
            {"foo": "bar"},
            True,
        ),
    ],
)
def test_required_terms(terms: list[Json], own: Json, fits: bool) -> None:
    assert answer(wanting(required(*terms)), own) == (SUCCESS if fits else POD_MISMATCH)


@pytest.mark.parametrize(("value", "fits"), [("bar", True), ("barrrrrr", False)])
def test_node_selector_and_terms_must_both_hold(value: str, fits: bool) -> None:
    asker = wanting(required(labels(expression("foo", "Exists"))), node_selector={"foo": "bar"})
    assert answer(asker, {"foo": value}) == (SUCCESS if fits else POD_MISMATCH)


_bar = labels(expression("foo", "In", "bar"))
_not_bar = labels(expression("foo", "In", "not-match-to-bar"))
_two_values = {"matchFields": [expression("metadata.name", "In", "node1", "node2")]}
_not_named = {"matchFields": [expression("metadata.name", "NotIn", "node2")]}
_other_field = {"matchFields": [expression("spec.unschedulable", "In", "true")]}
_not_other_field = {"matchFields": [expression("spec.unschedulable", "NotIn", "true")]}


@pytest.mark.parametrize(
    ("terms", "name", "prepared", "fits"),
    [
        ([named("node1")], "node1", {"node1"}, True),
        ([named("node1")], "node2", {"node1"}, False),
        ([named("node1", "node2"), _bar], "node2", None, True),
        ([named("node1") | _bar], "node2", {"node1"}, False),
        ([named("node1") | _bar], "node1", {"node1"}, True),
        ([named("node1"), _not_bar], "node2", None, False),
        ([named("node1"), named("node2")], "node2", {"node1", "node2"}, True),
        ([named("node1", "node2")], "node2", set(), False),
        # PreFilter narrows by all values, though a field with more than one matches nothing.
        ([_two_values], "node1", {"node1", "node2"}, False),
        ([_not_named], "node1", None, True),
        ([_not_named], "node2", None, False),
        ([_other_field], "node1", None, False),
        ([_not_other_field], "node1", None, True),
        ([named("node1"), {}], "node1", None, True),
        ([], "node1", None, False),
    ],
)
def test_fields(terms: list[Json], name: str, prepared: set[str] | None, fits: bool) -> None:
    asker = wanting(required(*terms))
    result = pre_filter(asker)
    if prepared is None:
        assert result is None
    else:
        assert result == (PreFilterResult(frozenset(prepared)) if prepared else CONFLICT)
    status = answer(asker, {"foo": "bar"}, name)
    assert status == (SUCCESS if fits else POD_MISMATCH)


@pytest.mark.parametrize(
    ("asker", "skips"),
    [
        (pod(), True),
        (wanting({}), True),
        (wanting(preferred((1, _bar))), True),
        (pod(node_selector={"foo": "bar"}), False),
        (pod(node_selector={}), False),
        (wanting(required()), False),
    ],
)
def test_pre_filter_skips_a_pod_that_requires_nothing(asker: Pod, skips: bool) -> None:
    assert pre_filter(asker) == (SKIP if skips else None)
    # What the scheduler adds is asked of every pod.
    assert pre_filter(asker, adding(required(_bar))) is None
    assert pre_filter(asker, adding(preferred((1, _bar)))) == (SKIP if skips else None)


def test_added_affinity() -> None:
    zone = wanting(required(labels(expression("zone", "In", "foo"))))
    elsewhere = wanting(required(labels(expression("zone", "In", "bar"))))
    own = {"zone": "foo"}
    by_name = adding(required(named("node2")))
    assert answer(zone, own, "node2", by_name) == SUCCESS
    assert answer(elsewhere, own, "node2", by_name) == POD_MISMATCH
    # The scheduler's own terms are named first.
    assert answer(elsewhere, own, "node1", by_name) == ENFORCED_MISMATCH
    by_label = adding(required(labels(expression("zone", "In", "bar"))))
    assert answer(pod(), own, "node2", by_label) == ENFORCED_MISMATCH
    assert answer(pod(), own, "node2", adding(required())) == ENFORCED_MISMATCH


# Score

_foo = labels(expression("foo", "In", "bar"))
_key = labels(expression("key", "In", "value"))
_all_three = labels(
    expression("foo", "In", "bar"),
    expression("key", "In", "value"),
    expression("az", "In", "az1"),
)
_LABELS: list[Json] = [
    {"foo": "bar"},
    {"key": "value"},
    {"az": "az1"},
    {"abc": "az11", "def": "az22"},
    {"foo": "bar", "key": "value", "az": "az1"},
]
_ONE = preferred((2, _foo))
_THREE = preferred((2, _foo), (4, _key), (5, _all_three))


@pytest.mark.parametrize(
    ("asker", "added", "places", "expected"),
    [
        (pod(), {}, [1, 2, 3], None),
        (wanting(required(_foo)), {}, [1], None),
        (wanting(_ONE), {}, [4, 2, 3], [0, 0, 0]),
        (wanting(_ONE), {}, [1, 2, 3], [100, 0, 0]),
        (wanting(_THREE), {}, [1, 5, 2], [18, 100, 36]),
        (pod(), _ONE, [1, 2], [100, 0]),
        (wanting(_ONE), preferred((3, _key)), [1, 2, 5], [40, 60, 100]),
        (pod(), required(_foo), [1, 2], None),
        # Neither weighs anything; but the pod has preferences, so nobody skips.
        (wanting(preferred((0, _foo), (7, {}))), {}, [1, 2], [0, 0]),
        (wanting(preferred()), {}, [1, 2], [0, 0]),
        # The same term twice counts twice.
        (wanting(preferred((1, _foo), (1, _foo), (1, _key))), {}, [1, 2, 5], [66, 33, 100]),
        (wanting(preferred((1, named("n1")), (3, _key))), {}, [1, 2, 5], [33, 100, 100]),
    ],
)
def test_scores(asker: Pod, added: Json, places: list[int], expected: list[int] | None) -> None:
    cache = in_place(node(f"n{place}", labels=_LABELS[place - 1]) for place in places)
    assert run_scores(adding(added), asker, cache) == expected


_BROKEN = preferred((2, _foo), (2, labels(expression("invalid key", "In", "bar"))))
_BROKEN_TEXT = (
    '[1].matchExpressions[0].key: Invalid value: "invalid key": name part must consist of '
    "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


def test_an_invalid_preference_is_an_error() -> None:
    plugin = made("NodeAffinity")
    assert isinstance(plugin, NodeAffinity)
    cache = in_place([node("n1")])
    cycle = Cycle(cache.table, compile_pod(wanting(_BROKEN)))
    assert plugin.pre_score(cycle, cache.table.live_rows) == Status(Code.ERROR, (_BROKEN_TEXT,))
    # Without PreScore, Score finds it out.
    with pytest.raises(PluginError) as caught:
        plugin.score_columns(cycle, slice(None), np.zeros(cache.table.capacity, np.int64))
    assert _BROKEN_TEXT in str(caught.value)


def test_an_invalid_preference_without_weight_is_not_read() -> None:
    broken = wanting(preferred((0, labels(expression("invalid key", "In", "bar"))), (1, _foo)))
    cache = in_place([node("n1", labels={"foo": "bar"}), node("n2")])
    assert run_scores(made("NodeAffinity"), broken, cache) == [100, 0]


# Coming back


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, {}, Hint.SKIP),
        (None, {"foo": "bar"}, Hint.QUEUE),
        ({}, {"k": "v"}, Hint.SKIP),
        ({"foo": "bar"}, {"k": "v"}, Hint.SKIP),
        ({}, {"foo": "bar"}, Hint.QUEUE),
        ({"foo": "bar"}, {"foo": "bar", "k": "v"}, Hint.SKIP),
    ],
)
@pytest.mark.parametrize("plugin", [made("NodeAffinity"), adding(required(_bar))])
def test_a_node_that_begins_to_match_wakes_the_pod(
    plugin: Plugin, old: Json | None, new: Json, expected: Hint
) -> None:
    asker = wanting(required(_bar))
    action = ActionType.ADD if old is None else ActionType.UPDATE_NODE_LABEL
    before = None if old is None else node("n", labels=old)
    assert hint(plugin, "Node", action, asker, before, node("n", labels=new)) is expected


def test_what_is_no_node_wakes_the_pod() -> None:
    plugin, asker = made("NodeAffinity"), wanting(required(_bar))
    assert hint(plugin, "Node", ActionType.ADD, asker, None, "no node") is Hint.QUEUE
    update = ActionType.UPDATE_NODE_LABEL
    assert hint(plugin, "Node", update, asker, "no node", node()) is Hint.QUEUE


def test_a_node_that_the_scheduler_does_not_allow_wakes_nobody() -> None:
    plugin = adding(required(labels(expression("pool", "In", "a"))))
    asker = pod(node_selector={"foo": "bar"})
    new = node("n", labels={"foo": "bar"})
    assert hint(plugin, "Node", ActionType.ADD, asker, None, new) is Hint.SKIP
    # As upstream: the pod's terms held before, and nothing else is compared.
    allowed = node("n", labels={"foo": "bar", "pool": "a"})
    assert hint(plugin, "Node", ActionType.UPDATE_NODE_LABEL, asker, new, allowed) is Hint.SKIP


def test_an_invalid_term_leaves_it_open_whether_a_node_matches() -> None:
    plugin = made("NodeAffinity")
    asker = wanting(required(labels(expression("a b", "Exists"))), node_selector={"foo": "bar"})
    hopeless, open_ = node("n"), node("n", labels={"foo": "bar"})
    assert hint(plugin, "Node", ActionType.ADD, asker, None, hopeless) is Hint.SKIP
    assert hint(plugin, "Node", ActionType.ADD, asker, None, open_) is Hint.QUEUE


@pytest.mark.parametrize(
    "action", [ActionType.DELETE, ActionType.UPDATE_NODE_TAINT, ActionType.UPDATE_NODE_ALLOCATABLE]
)
def test_other_changes_of_nodes_are_not_registered(action: ActionType) -> None:
    plugin, asker = made("NodeAffinity"), wanting(required(_bar))
    assert hint(plugin, "Node", action, asker, node("n"), node("n")) is None


# Arguments and signature


def test_invalid_added_affinity_names_every_mistake_and_its_place() -> None:
    affinity = required(labels(expression("invalid/label/key", "In", "v"))) | preferred(
        (1, {"matchFields": [expression("metadata.name", "In", "node-1", "node-2")]})
    )
    path = "profiles[0].pluginConfig[1].args"
    with pytest.raises(ConfigError) as caught:
        make_plugin(NodeAffinity, {"addedAffinity": affinity}, path=path, file="a.yaml")
    first, second = str(caught.value).splitlines()
    assert first.startswith(
        f"a.yaml: {path}.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution"
        '.nodeSelectorTerms[0].matchExpressions[0].key: Invalid value: "invalid/label/key": '
        "a valid label key must consist of"
    )
    assert second == (
        f"a.yaml: {path}.addedAffinity.preferredDuringSchedulingIgnoredDuringExecution"
        '[0].matchFields[0].values: Invalid value: ["node-1","node-2"]: must have one element'
    )


def test_unknown_fields_of_added_affinity_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"addedAffinity\.required: unknown field"):
        adding({"required": {}})


def test_pods_that_ask_for_the_same_share_a_signature() -> None:
    plugin = made("NodeAffinity")

    def sign(asker: Pod) -> Any:
        return plugin.sign(compile_pod(asker))

    both: Json = {"node_selector": {"a": "1", "b": "2"}}
    turned: Json = {"node_selector": {"b": "2", "a": "1"}}
    terms = required(_bar) | _THREE
    assert hash(sign(wanting(terms, **both))) == hash(sign(wanting(terms, cpu="2", **turned)))
    assert sign(wanting(terms, **both)) == sign(wanting(terms, cpu="2", **turned))
    signatures = [
        sign(asker)
        for asker in (
            pod(),
            pod(**both),
            wanting(required(_bar)),
            wanting(required(_not_bar)),
            wanting(_ONE),
            wanting(preferred((3, _foo))),
        )
    ]
    assert len(set(signatures)) == len(signatures)
