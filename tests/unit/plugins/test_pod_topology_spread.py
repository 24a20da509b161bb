"""PodTopologySpread: hard constraints, what-if pods and errors."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.pod_info import compile_pod
from stowplan.framework.cycle import Cycle
from stowplan.testing import node, pod
from tests.unit.plugins.plugin_kit import in_place
from tests.unit.plugins.spread_kit import (
    FITS,
    FOO,
    HOST,
    LACKS,
    SKEWED,
    SOFT,
    ZONE,
    filtered,
    plugin_of,
    spread,
    started,
    verdicts,
)

NAMES = ["a", "b", "x", "y"]


def cluster(*counts: int, **labels: str) -> ClusterCache:
    """Nodes a, b in zone 1 and x, y in zone 2, with so many pods that carry the label foo."""
    nodes = [node(name, zone=zone) for name, zone in zip(NAMES, "1122", strict=True)]
    standing = [
        pod(node=name, labels={"foo": "", **labels})
        for name, count in zip(NAMES, counts, strict=True)
        for _ in range(count)
    ]
    return in_place(nodes, standing)


def incoming(*constraints: dict[str, Any], **more: Any) -> Any:
    return pod(**{"labels": {"foo": ""}, "topology_spread_constraints": list(constraints), **more})


def answers(cache: ClusterCache, *constraints: dict[str, Any], **more: Any) -> list[str]:
    return list(filtered(incoming(*constraints, **more), cache).values())


@pytest.mark.parametrize(
    ("counts", "constraint", "expected"),
    [
        pytest.param((0, 0, 0, 0), spread(), [FITS] * 4, id="empty cluster"),
        pytest.param((2, 1, 0, 3), spread(), [FITS] * 4, id="level zones"),
        pytest.param((2, 1, 1, 0), spread(), [SKEWED, SKEWED, FITS, FITS], id="fuller zone"),
        pytest.param((2, 1, 1, 0), spread(skew=3), [FITS] * 4, id="larger skew"),
        pytest.param((2, 1, 0, 3), spread(HOST), [SKEWED, SKEWED, FITS, SKEWED], id="by node"),
        pytest.param((2, 1, 0, 3), spread(HOST, skew=2), [SKEWED, FITS, FITS, SKEWED], id="2"),
        pytest.param((1, 0, 1, 0), spread(minDomains=2), [FITS] * 4, id="enough domains"),
        pytest.param((1, 0, 1, 0), spread(minDomains=3), [SKEWED] * 4, id="too few domains"),
        pytest.param((1, 0, 1, 0), spread(labelSelector=None), [FITS] * 4, id="no selector"),
        pytest.param((9, 0, 0, 0), spread(labelSelector={}), [FITS] * 4, id="empty selector"),
        pytest.param((0, 0, 0, 0), spread("rack"), [LACKS] * 4, id="label that nobody has"),
        pytest.param(
            (0, 0, 0, 0), spread(minDomains=3, skew=1), [FITS] * 4, id="itself is within the skew"
        ),
    ],
)
def test_one_constraint(
    counts: tuple[int, ...], constraint: dict[str, Any], expected: list[str]
) -> None:
    assert answers(cluster(*counts), constraint) == expected


def test_a_pod_that_does_not_match_itself_takes_no_room() -> None:
    cache = cluster(1, 0, 0, 0)
    assert answers(cache, spread()) == [SKEWED, SKEWED, FITS, FITS]
    assert answers(cache, spread(), labels={"bar": ""}) == [FITS] * 4


def test_who_counts() -> None:
    """Neither terminating pods nor those of another namespace do."""
    cache = cluster(0, 0, 0, 0)
    cache.add_pod(pod(node="a", labels={"foo": ""}, terminating=True))
    cache.add_pod(pod(node="a", labels={"foo": ""}, namespace="other"))
    assert answers(cache, spread()) == [FITS] * 4
    cache.add_pod(pod(node="a", labels={"foo": ""}))
    assert answers(cache, spread()) == [SKEWED, SKEWED, FITS, FITS]


def test_pods_on_unknown_nodes_do_not_count() -> None:
    cache = cluster(1, 0, 1, 0)
    for number in range(100):
        # Enough of them to make the table grow.
        cache.add_pod(pod(node=f"gone-{number}", labels={"foo": ""}))
    assert answers(cache, spread()) == [FITS] * 4
    cache.remove_node("a")
    assert answers(cache, spread()) == [FITS, SKEWED, SKEWED]


def test_the_first_broken_constraint_speaks() -> None:
    cache = cluster(2, 0, 0, 0)
    cache.set_node(node("bare", zone="1"))
    skew_first = answers(cache, spread(), spread("rack"))
    assert skew_first == [LACKS] * 5, "no node has all labels, so there is no domain to be full"
    cache.set_node(node("racked", zone="2", labels={"rack": "r"}))
    cache.set_node(node("also", zone="1", labels={"rack": "r"}))
    cache.add_pod(pod(node="also", labels={"foo": ""}))
    assert answers(cache, spread(), spread("rack", skew=9)) == [
        SKEWED, SKEWED, LACKS, LACKS, SKEWED, FITS, SKEWED,
    ]  # fmt: skip
    assert answers(cache, spread("rack", skew=9), spread()) == [
        LACKS, LACKS, LACKS, LACKS, LACKS, FITS, SKEWED,
    ]  # fmt: skip


def test_hard_and_soft_ones_are_told_apart() -> None:
    assert answers(cluster(3, 0, 0, 0), spread(HOST, SOFT), spread(skew=9)) == [FITS] * 4


def test_domains_are_values_not_nodes() -> None:
    cache = in_place(
        [node("a", labels={HOST: "twin"}), node("b", labels={HOST: "twin"}), node("c")],
        [pod(node="a", labels={"foo": ""})],
    )
    assert answers(cache, spread(HOST)) == [SKEWED, SKEWED, FITS]


def test_empty_value_is_a_domain() -> None:
    cache = in_place(
        [node("a", zone=""), node("b", zone="1"), node("c")], [pod(node="a", labels={"foo": ""})]
    )
    assert answers(cache, spread()) == [SKEWED, FITS, LACKS]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        # The only zone that takes part is also the emptiest one.
        pytest.param(None, FITS, id="by default"),
        pytest.param("Honor", FITS, id="honoured"),
        pytest.param("Ignore", SKEWED, id="ignored"),
    ],
)
@pytest.mark.parametrize("way", ["selector", "affinity"])
def test_node_affinity_policy(policy: str | None, expected: str, way: str) -> None:
    cache = cluster(0, 0, 1, 0)
    more: dict[str, Any] = {"node_selector": {ZONE: "2"}}
    if way == "affinity":
        term = {"matchExpressions": [{"key": ZONE, "operator": "NotIn", "values": ["1"]}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        more = {"affinity": {"nodeAffinity": required}}
    found = answers(cache, spread(nodeAffinityPolicy=policy), **more)
    assert found == [FITS, FITS, expected, expected]


@pytest.mark.parametrize(
    ("policy", "tolerations", "expected"),
    [
        pytest.param(None, [], SKEWED, id="by default"),
        pytest.param("Ignore", [], SKEWED, id="ignored"),
        pytest.param("Honor", [], FITS, id="honoured"),
        pytest.param("Honor", ["k:NoSchedule"], SKEWED, id="tolerated"),
    ],
)
def test_node_taints_policy(policy: str | None, tolerations: list[str], expected: str) -> None:
    cache = cluster(0, 0, 1, 0)
    for name in "ab":
        cache.set_node(node(name, zone="1", taints=["k=v:NoSchedule", "soft:PreferNoSchedule"]))
    found = answers(cache, spread(nodeTaintsPolicy=policy), tolerations=tolerations)
    assert found == [FITS, FITS, expected, expected]


def test_node_changes_are_seen() -> None:
    """Sums are kept between attempts, and follow labels, taints and nodes."""
    cache = cluster(1, 0, 0, 0)
    constraint = spread(nodeTaintsPolicy="Honor")
    assert answers(cache, constraint) == [SKEWED, SKEWED, FITS, FITS]
    cache.set_node(node("a", zone="2"))
    assert answers(cache, constraint) == [SKEWED, FITS, SKEWED, SKEWED]
    cache.set_node(node("b", zone="1", taints=["k:NoExecute"]))
    assert answers(cache, constraint) == [FITS] * 4
    cache.set_node(node("z", zone="3"))
    assert answers(cache, constraint) == [SKEWED, FITS, SKEWED, SKEWED, FITS]
    cache.remove_node("z")
    assert answers(cache, constraint) == [FITS] * 4


@pytest.mark.parametrize(
    ("keys", "selector", "expected"),
    [
        pytest.param(["v"], FOO, [FITS] * 4, id="other versions do not count"),
        pytest.param(["w"], FOO, [SKEWED, SKEWED, FITS, FITS], id="a label that the pod lacks"),
        pytest.param([], FOO, [SKEWED, SKEWED, FITS, FITS], id="none"),
        pytest.param(["v"], {}, [FITS] * 4, id="with an empty selector"),
        pytest.param(["foo"], {}, [SKEWED, SKEWED, FITS, FITS], id="which then counts"),
        pytest.param(["foo"], None, [FITS] * 4, id="nothing stays nothing"),
    ],
)
def test_match_label_keys(keys: list[str], selector: Any, expected: list[str]) -> None:
    cache = cluster(1, 0, 0, 0, v="1")
    constraint = spread(matchLabelKeys=keys, labelSelector=selector)
    assert answers(cache, constraint, labels={"foo": "", "v": "2"}) == expected


# What if


def test_what_if_is_kept_apart() -> None:
    cache = cluster(1, 0, 1, 0)
    plugin = plugin_of(cache)
    cycle = started(plugin, incoming(spread()), cache)
    row = cache.table.row_of["a"]
    other = compile_pod(pod(labels={"foo": ""}))
    assert list(verdicts(plugin, cycle).values()) == [FITS] * 4
    more = cycle.clone()
    plugin.what_if(more, other, row, 1)
    assert list(verdicts(plugin, more).values()) == [SKEWED, SKEWED, FITS, FITS]
    less = more.clone()
    plugin.what_if(less, other, row, -1)
    plugin.what_if(less, other, row, -1)
    assert list(verdicts(plugin, less).values()) == [FITS, FITS, SKEWED, SKEWED]
    assert list(verdicts(plugin, more).values()) == [SKEWED, SKEWED, FITS, FITS]
    assert list(verdicts(plugin, cycle).values()) == [FITS] * 4


@pytest.mark.parametrize(
    ("other", "counts"),
    [
        pytest.param({"labels": {"foo": ""}}, True, id="its like"),
        pytest.param({"labels": {"bar": ""}}, False, id="another kind"),
        pytest.param({"labels": {"foo": ""}, "namespace": "other"}, False, id="other namespace"),
        pytest.param({"labels": {"foo": ""}, "terminating": True}, True, id="terminating"),
    ],
)
def test_who_counts_when_coming(other: dict[str, Any], counts: bool) -> None:
    """Unlike those that stand there, terminating pods do."""
    cache = cluster(0, 0, 0, 0)
    plugin = plugin_of(cache)
    cycle = started(plugin, incoming(spread()), cache)
    plugin.what_if(cycle, compile_pod(pod(**other)), cache.table.row_of["a"], 1)
    assert verdicts(plugin, cycle)["b"] == (SKEWED if counts else FITS)


def test_victims_that_were_never_counted_are_subtracted() -> None:
    """Upstream's quirk: a count sinks below zero, and all other domains look too full."""
    cache = cluster(1, 0, 1, 0)
    plugin = plugin_of(cache)
    victim = compile_pod(pod(labels={"bar": ""}, terminating=True))
    cycle = started(plugin, incoming(spread(labelSelector={}), labels={}), cache)
    assert list(verdicts(plugin, cycle).values()) == [FITS] * 4
    plugin.what_if(cycle, victim, cache.table.row_of["a"], -1)
    assert list(verdicts(plugin, cycle).values()) == [FITS, FITS, SKEWED, SKEWED]


def test_a_node_that_takes_no_part_counts_nobody() -> None:
    cache = cluster(0, 0, 0, 0)
    plugin = plugin_of(cache)
    cycle = started(plugin, incoming(spread(), node_selector={ZONE: "2"}), cache)
    other = compile_pod(pod(labels={"foo": ""}))
    plugin.what_if(cycle, other, cache.table.row_of["a"], 1)
    assert list(verdicts(plugin, cycle).values()) == [FITS] * 4


# Nothing to do, and errors


def test_skips_without_hard_constraints() -> None:
    cache = cluster(0, 0, 0, 0)
    for asking in (pod(), incoming(spread(action=SOFT)), pod(topology_spread_constraints=[])):
        status = plugin_of(cache).pre_filter(Cycle(cache.table, compile_pod(asking)))
        assert status is not None
        assert status.is_skip


def test_invalid_selectors_are_errors_where_they_are_used() -> None:
    wrong = {"matchExpressions": [{"key": "foo", "operator": "Like", "values": ["x"]}]}
    reason = '"Like" is not a valid label selector operator'
    cache = cluster(0, 0, 0, 0)
    plugin = plugin_of(cache)
    hard = Cycle(cache.table, compile_pod(incoming(spread(labelSelector=wrong))))
    status = plugin.pre_filter(hard)
    assert status.code.label == "Error"
    assert status.message == (
        "get constraints from pod: obtaining pod's hard topology spread constraints: " + reason
    )
    assert plugin.pre_score(hard, cache.table.live_rows).is_skip
    soft = Cycle(cache.table, compile_pod(incoming(spread(action=SOFT, labelSelector=wrong))))
    assert plugin.pre_filter(soft).is_skip
    status = plugin.pre_score(soft, cache.table.live_rows)
    assert status.code.label == "Error"
    assert status.message == (
        "calculating preScoreState: obtaining pod's soft topology spread constraints: " + reason
    )
