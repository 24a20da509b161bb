"""InterPodAffinity's filter columns: who may share one, and until when."""

from __future__ import annotations

from collections.abc import Hashable

from stowplan.api.objects import Pod
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.pod_info import compile_pod
from stowplan.framework.cycle import Cycle
from stowplan.framework.plugin import NOT_KEPT
from stowplan.framework.status import SKIP
from stowplan.testing import node, pod
from tests.unit.plugins.affinity_kit import affinity_plugin, app, wishing
from tests.unit.plugins.plugin_kit import in_place

WEB = {"app": "web"}
LONE = wishing(far=[app("web", "host")], labels=WEB)
ZONED = wishing(far=[app("web", "zone")], labels=WEB)
NEAR = wishing(near=[app("web", "zone")])


def cluster(*pods: Pod, hosts: int = 4) -> ClusterCache:
    """Every node has a host of its own, and two share a zone."""
    return in_place(
        [
            node(f"n{number}", labels={"host": f"h{number}", "zone": f"z{number // 2}"})
            for number in range(hosts)
        ],
        pods,
    )


def met(incoming: Pod, cache: ClusterCache) -> Hashable:
    cycle = Cycle(cache.table, compile_pod(incoming))
    plugin = affinity_plugin(cache)
    assert plugin.pre_filter(cycle) is None, "it is not skipped"
    return plugin.surroundings(cycle)


def test_where_no_two_nodes_share_a_domain_placed_pods_change_their_own_row_alone() -> None:
    cache = cluster()
    before = met(LONE, cache)
    cache.add_pod(pod(node="n1", labels=WEB))
    assert met(LONE, cache) == before


def test_terms_of_others_are_met_as_well() -> None:
    cache = cluster()
    before = met(LONE, cache)
    cache.add_pod(wishing(far=[app("web", "host")], labels=WEB, node="n0"))
    spoken_of = met(LONE, cache)
    assert spoken_of != before
    cache.add_pod(wishing(far=[app("web", "host")], labels=WEB, node="n1"))
    assert met(LONE, cache) == spoken_of, "the same term once more"
    assert met(pod(labels=WEB), cache) not in (before, spoken_of), "has no term of its own"


def test_what_else_is_written_on_a_pod_does_not_matter() -> None:
    cache = cluster(wishing(far=[app("web", "host")], labels=WEB, node="n0"))
    first, second = (
        met(wishing(far=[app("web", "host")], labels={**WEB, "pod-index": index}), cache)
        for index in "01"
    )
    assert first == second


def test_in_shared_domains_it_matters_whether_there_are_any() -> None:
    for asking in (ZONED, NEAR):
        cache = cluster(pod(node="n0", labels=WEB))
        before = met(asking, cache)
        cache.add_pod(pod(node="n1", labels=WEB))
        assert met(asking, cache) == before, "another in the same zone"
        cache.add_pod(pod(node="n2", labels=WEB))
        assert met(asking, cache) != before, "the first in its zone"


def test_the_first_of_its_kind_is_told_apart() -> None:
    first = wishing(near=[app("web", "zone")], labels=WEB)
    cache = cluster()
    assert met(first, cache) != met(NEAR, cache)


def test_two_labels_are_two_things() -> None:
    cache = in_place([node("n0", labels={"host": "a", "serial": "1"}), node("n1")], ())
    by_host, by_serial = (
        met(wishing(far=[app("web", key)], labels=WEB), cache) for key in ("host", "serial")
    )
    assert by_host != by_serial


def test_hosts_that_share_a_name_are_a_domain() -> None:
    cache = cluster()
    apart = met(LONE, cache)
    cache.set_node(node("n3", labels={"host": "h0"}))
    shared = met(LONE, cache)
    assert shared != apart
    cache.add_pod(pod(node="n0", labels=WEB))
    assert met(LONE, cache) != shared


def test_a_pod_that_is_skipped_meets_nothing() -> None:
    cache = cluster()
    cycle = Cycle(cache.table, compile_pod(pod()))
    plugin = affinity_plugin(cache)
    assert plugin.pre_filter(cycle) is SKIP
    assert plugin.surroundings(cycle) is NOT_KEPT


def test_too_much_to_come_again_is_not_kept() -> None:
    cache = cluster(pod(node="n0", labels=WEB), hosts=200)
    assert met(NEAR, cache) is NOT_KEPT, "a hundred zones"
    assert met(LONE, cache) is not NOT_KEPT, "rows speak for themselves"
    many = [
        wishing(far=[app("web", "host", namespaces=["default", f"ns{number}"])], node="n1")
        for number in range(20)
    ]
    assert met(pod(labels=WEB), cluster(*many[:3])) is not NOT_KEPT
    assert met(pod(labels=WEB), cluster(*many)) is NOT_KEPT
