"""PodTopologySpread: soft constraints, and the defaults deduced from Services and owners."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.api.objects import LabelSelector, LabelSelectorRequirement, ObjectMeta, OwnerReference
from stowplan.api.resources import (
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    SERVICES,
    STATEFUL_SETS,
    Resource,
)
from stowplan.api.workload_objects import (
    OwnerSpec,
    ReplicaSet,
    ReplicationController,
    SelectingSpec,
    StatefulSet,
)
from stowplan.cluster.cache import ClusterCache
from stowplan.errors import ConfigError
from stowplan.framework.profile import make_plugin
from stowplan.plugins.pod_topology_spread import PodTopologySpread
from stowplan.plugins.pod_topology_spread.scoring import Landscape, go_log
from stowplan.testing import node, pod
from tests.unit.plugins.plugin_kit import in_place
from tests.unit.plugins.spread_kit import (
    FITS,
    FOO,
    HARD,
    HOST,
    SKEWED,
    SOFT,
    ZONE,
    filtered,
    plugin_of,
    scored,
    service,
    spread,
    with_services,
)


def cluster(counts: dict[str, int], zones: str = "") -> ClusterCache:
    """Nodes with so many pods that carry the label foo; `zones` has a letter for each, or none."""
    places = zip(counts, zones or [None] * len(counts), strict=True)
    nodes = [node(name, zone=zone) for name, zone in places]
    standing = [
        pod(node=name, labels={"foo": ""}) for name, count in counts.items() for _ in range(count)
    ]
    return in_place(nodes, standing)


def soft(*constraints: dict[str, Any], **more: Any) -> Any:
    return pod(**{"labels": {"foo": ""}, "topology_spread_constraints": list(constraints), **more})


@pytest.mark.parametrize(
    ("counts", "skew", "expected"),
    [
        pytest.param([0, 0], 1, [100, 100], id="no pods"),
        pytest.param([1, 1], 1, [100, 100], id="level"),
        pytest.param([2, 1, 0, 3], 1, [20, 60, 100, 0], id="four nodes"),
        pytest.param([2, 1, 0, 3], 2, [33, 66, 100, 16], id="watered down"),
        pytest.param([4, 3, 2, 1], 3, [44, 66, 77, 100], id="and more so"),
    ],
)
def test_by_node(counts: list[int], skew: int, expected: list[int]) -> None:
    cache = cluster(dict(zip("abxy", counts, strict=False)))
    assert scored(soft(spread(HOST, SOFT, skew=skew)), cache) == expected


def test_zones_and_nodes_have_a_say() -> None:
    cache = cluster({"a": 2, "b": 1, "x": 0, "y": 3}, "1122")
    assert scored(soft(spread(ZONE, SOFT)), cache) == [100, 100, 100, 100]
    both = soft(spread(ZONE, SOFT), spread(HOST, SOFT))
    assert scored(both, cache) == [60, 80, 100, 40]
    assert scored(both, cache, ["a", "x"]) == [57, 100]


def test_counts_come_from_all_nodes_sizes_from_the_feasible_ones() -> None:
    cache = cluster({"a": 0, "b": 4, "x": 1, "y": 0}, "1122")
    assert scored(soft(spread(ZONE, SOFT)), cache, ["a", "x"]) == [16, 100]


def test_hostnames_need_not_differ() -> None:
    cache = cluster({"a": 1, "b": 0, "c": 2})
    for name in "ab":
        cache.set_node(node(name, labels={HOST: "twin"}))
    assert scored(soft(spread(HOST, SOFT)), cache) == [33, 100, 0]


def test_nodes_without_a_label_are_ignored() -> None:
    cache = cluster({"a": 1, "b": 2, "c": 0})
    cache.set_node(node("a", zone="1"))
    cache.set_node(node("b", zone="2"))
    assert scored(soft(spread(ZONE, SOFT)), cache) == [100, 33, 0]
    assert scored(soft(spread(ZONE, SOFT)), cache, ["c"]) == [0]
    assert scored(soft(spread("rack", SOFT)), cache) == [0, 0, 0]


def test_what_is_known_of_the_rows_holds_for_these_nodes_alone() -> None:
    cache = cluster({"a": 1, "b": 2, "c": 0}, "xxy")
    table = cache.table
    rows = table.order
    known = Landscape(table, rows, (ZONE,))
    assert (known.size, known.domain_count(ZONE)) == (3, 2)
    assert known.is_of(table, rows, (ZONE,))
    assert not known.is_of(table, rows.copy(), (ZONE,))
    assert not known.is_of(table, rows, (HOST, ZONE))
    cache.add_pod(pod(node="a"))
    assert known.is_of(table, rows, (ZONE,))
    cache.set_node(node("b", zone="z"))
    assert not known.is_of(table, rows, (ZONE,))
    assert Landscape(table, rows, (ZONE,)).domain_count(ZONE) == 3
    cache.set_node(node("b"))
    assert Landscape(table, rows, (ZONE,)).size == 2
    assert Landscape(table, rows, ()).domain_count(ZONE) == 3
    cache.set_node(node("c", zone=""))
    assert Landscape(table, rows, ()).domain_count(ZONE) == 2, "empty and missing are one"


def test_pods_on_unknown_nodes_may_widen_the_table_between_two_pods() -> None:
    cache = cluster({"a": 1, "b": 0})
    table, rows = cache.table, cache.table.order
    known = Landscape(table, rows, (ZONE,))
    while table.capacity == len(known.ignored if known.ignored is not None else ()):
        cache.add_pod(pod(node=f"ghost-{table.capacity}-{len(table.row_of)}"))
    assert not known.is_of(table, rows, (ZONE,))


@pytest.mark.parametrize(
    "constraint",
    [spread(ZONE, SOFT, labelSelector=None), spread(ZONE, SOFT, labelSelector={})],
    ids=["no selector", "empty selector"],
)
def test_nobody_counts(constraint: dict[str, Any]) -> None:
    assert scored(soft(constraint), cluster({"a": 5, "b": 0}, "12")) == [100, 100]


def test_inclusion_policies() -> None:
    cache = cluster({"a": 0, "b": 3, "x": 1}, "112")
    cache.set_node(node("b", zone="1", taints=["k:NoSchedule"], labels={"disk": "hdd"}))
    feasible = ["a", "x"]
    assert scored(soft(spread(ZONE, SOFT)), cache, feasible) == [25, 100]
    honoring = soft(spread(ZONE, SOFT, nodeTaintsPolicy="Honor"))
    assert scored(honoring, cache, feasible) == [100, 0]
    term = {"matchExpressions": [{"key": "disk", "operator": "DoesNotExist"}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    affinity = {"nodeAffinity": required}
    assert scored(soft(spread(ZONE, SOFT), affinity=affinity), cache, feasible) == [100, 0]
    ignoring = spread(ZONE, SOFT, nodeAffinityPolicy="Ignore")
    assert scored(soft(ignoring, affinity=affinity), cache, feasible) == [25, 100]


def test_logarithm_is_go_s() -> None:
    """Where C's differs in the last bit, and where it does not. Values printed by Go."""
    expected = {
        2: "0x1.62e42fefa39efp-1",
        3: "0x1.193ea7aad030ap+0",
        14: "0x1.51cca16d7bba8p+1",
        48: "0x1.ef8383c50bb74p+1",
        176: "0x1.4ae935b3cb89ep+2",
        5002: "0x1.10901f6dc84b9p+3",
    }
    assert {number: go_log(number).hex() for number in expected} == expected


# Default constraints

OWNERS: dict[str, tuple[str, Resource[Any], Any]] = {
    "ReplicaSet": ("apps/v1", REPLICA_SETS, ReplicaSet),
    "StatefulSet": ("apps/v1", STATEFUL_SETS, StatefulSet),
}


def controlled_by(kind: str, version: str, *, controller: bool | None = True) -> OwnerReference:
    return OwnerReference(kind=kind, api_version=version, name="own", controller=controller)


def test_services_speak_for_a_pod() -> None:
    cache = cluster({"a": 2, "b": 0}, "12")
    asking = pod(labels={"foo": "", "bar": ""})
    assert scored(asking, cache) is None
    with_services(cache, service("s", {"foo": ""}))
    assert scored(asking, cache) == [50, 100]
    assert scored(pod(labels={"bar": ""}), cache) is None, "not of that service"
    assert scored(pod(labels={"foo": ""}, namespace="other"), cache) is None
    with_services(cache, service("t", {"bar": "", "foo": ""}))
    assert scored(asking, cache) == [100, 100], "both services' labels are wanted now"
    cache.catalog[SERVICES].remove("t", "default")
    assert scored(asking, cache) == [50, 100]


@pytest.mark.parametrize("selector", [None, {}], ids=["none", "empty"])
def test_service_that_selects_nothing(selector: dict[str, str] | None) -> None:
    cache = with_services(cluster({"a": 2, "b": 0}), service("s", selector))
    assert scored(pod(labels={"foo": ""}), cache) is None


def test_own_constraints_come_instead_of_the_defaults() -> None:
    cache = with_services(cluster({"a": 2, "b": 0}, "12"), service("s", {"foo": ""}))
    assert scored(soft(spread(ZONE, HARD)), cache) is None


def test_nodes_without_a_zone_take_part_in_system_defaults() -> None:
    """And as upstream has it, they are one domain with nodes whose zone is empty."""
    cache = with_services(cluster({"a": 0, "b": 1, "c": 0}), service("s", {"foo": ""}))
    assert scored(pod(labels={"foo": ""}), cache) == [100, 50, 100]
    cache.set_node(node("c", zone=""))
    assert scored(pod(labels={"foo": ""}), cache) == [100, 71, 28]
    cache.set_node(node("b", zone="1"))
    assert scored(pod(labels={"foo": ""}), cache) == [100, 22, 55]


@pytest.mark.parametrize("kind", OWNERS)
def test_owners_selector_is_added(kind: str) -> None:
    version, resource, made = OWNERS[kind]
    cache = cluster({"a": 2, "b": 0})
    cache.add_pod(pod(node="b", labels={"foo": "", "x": "y"}))
    owner = controlled_by(kind, version)
    asking = pod(labels={"foo": "", "x": "y"}, owner=owner)
    assert scored(asking, cache) is None, "the owner is not known"
    wanted = LabelSelectorRequirement(key="x", operator="Exists")
    meta = ObjectMeta(name="own", namespace="default")
    selector = LabelSelector(match_expressions=(wanted,))
    cache.catalog[resource].set(made(metadata=meta, spec=OwnerSpec(selector=selector)))
    assert scored(asking, cache) == [100, 66]
    with_services(cache, service("s", {"foo": ""}))
    assert scored(asking, cache) == [100, 66], "both must hold"
    wrong = LabelSelector(match_expressions=(LabelSelectorRequirement(key="x", operator="Like"),))
    cache.catalog[resource].set(made(metadata=meta, spec=OwnerSpec(selector=wrong)))
    assert scored(asking, cache) == [60, 100], "one that cannot be read is passed over"
    cache.catalog[resource].set(made(metadata=meta, spec=OwnerSpec()))
    assert scored(asking, cache) == [60, 100], "and so is none"


def test_replication_controllers_labels_win_over_services() -> None:
    cache = with_services(cluster({"a": 2, "b": 0}), service("s", {"foo": ""}))
    cache.add_pod(pod(node="b", labels={"foo": "bar"}))
    made = ReplicationController(
        metadata=ObjectMeta(name="own", namespace="default"),
        spec=SelectingSpec(selector={"foo": "bar"}),
    )
    cache.catalog[REPLICATION_CONTROLLERS].set(made)
    owner = controlled_by("ReplicationController", "v1")
    assert scored(pod(labels={"foo": ""}, owner=owner), cache) == [100, 66]


@pytest.mark.parametrize(
    "owner",
    [
        controlled_by("ReplicaSet", "apps/v1", controller=False),
        controlled_by("ReplicaSet", "apps/v1", controller=None),
        controlled_by("ReplicaSet", "apps/v1beta2"),
        controlled_by("ReplicaSet", "v1"),
        controlled_by("ReplicaSet", "a/apps/v1"),
        controlled_by("DaemonSet", "apps/v1"),
    ],
    ids=lambda owner: f"{owner.kind} {owner.api_version} {owner.controller}",
)
def test_owners_that_do_not_matter(owner: OwnerReference) -> None:
    cache = cluster({"a": 2, "b": 0})
    selector = LabelSelector(match_labels={"foo": ""})
    meta = ObjectMeta(name="own", namespace="default")
    made = ReplicaSet(metadata=meta, spec=OwnerSpec(selector=selector))
    cache.catalog[REPLICA_SETS].set(made)
    assert scored(pod(labels={"foo": ""}, owner=owner), cache) is None


LISTED: dict[str, Any] = {
    "defaultingType": "List",
    "defaultConstraints": [
        {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": HARD},
        {"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": SOFT, "matchLabelKeys": ["x"]},
    ],
}


def test_listed_defaults() -> None:
    cache = with_services(cluster({"a": 1, "b": 0}, "12"), service("s", {"foo": ""}))
    asking = pod(labels={"foo": "", "x": "y"})
    assert list(filtered(asking, cache, **LISTED).values()) == [SKEWED, FITS]
    assert scored(asking, cache, **LISTED) == [0, 100]
    assert scored(asking, cache, defaultingType="List") is None


def test_a_listed_default_may_want_no_domain_at_all() -> None:
    """Nobody checks it there: the emptiest of no domains holds as many pods as can be."""
    cache = with_services(cluster({"a": 1, "b": 0}, "12"), service("s", {"foo": ""}))
    constraint = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": HARD,
        "minDomains": 0,
        "nodeTaintsPolicy": "Honor",
    }
    for name, zone in zip("ab", "12", strict=True):
        cache.set_node(node(name, zone=zone, taints=["k:NoSchedule"]))
    args = {"defaultingType": "List", "defaultConstraints": [constraint]}
    assert list(filtered(pod(labels={"foo": ""}), cache, **args).values()) == [FITS, FITS]


def test_arguments_are_checked_all_at_once() -> None:
    path = "pluginConfig[PodTopologySpread].args"
    constraint = {"maxSkew": 0, "topologyKey": "a/b/c", "labelSelector": FOO}
    args = {"defaultingType": "Lists", "defaultConstraints": [constraint]}
    with pytest.raises(ConfigError) as caught:
        make_plugin(PodTopologySpread, args)
    lines = str(caught.value).splitlines()
    assert [line.partition(": ")[0] for line in lines] == [
        f"{path}.defaultingType",
        f"{path}.defaultConstraints[0].maxSkew",
        f"{path}.defaultConstraints[0].topologyKey",
        f"{path}.defaultConstraints[0].whenUnsatisfiable",
        f"{path}.defaultConstraints[0].labelSelector",
    ]
    with pytest.raises(ConfigError, match=r"when \.defaultConstraints are not empty"):
        make_plugin(PodTopologySpread, {**LISTED, "defaultingType": "System"})


def test_looks_up_what_it_reads() -> None:
    assert set(plugin_of(ClusterCache()).looks_up) == {
        SERVICES,
        REPLICATION_CONTROLLERS,
        REPLICA_SETS,
        STATEFUL_SETS,
    }
