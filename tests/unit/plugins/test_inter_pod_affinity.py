"""InterPodAffinity's filter: kube-scheduler's own cases, and the corners of namespaces."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.api.objects import Pod
from stowplan.api.resources import NAMESPACES
from stowplan.cluster.pod_info import compile_pod
from stowplan.cluster.views import Overlay
from stowplan.errors import ConfigError
from stowplan.framework.plugin import points_of
from stowplan.framework.status import SKIP, SUCCESS, Code, Status
from stowplan.plugins.inter_pod_affinity import InterPodAffinity
from stowplan.testing import node, pod
from tests.unit.plugins.affinity_kit import (
    AFFINITY,
    ANTI,
    EXISTING,
    NODES,
    WEB,
    about,
    affinity_plugin,
    app,
    cluster,
    filtered,
    namespace,
    wishing,
)
from tests.unit.plugins.plugin_kit import in_place


def web(where: str = "a1", **more: Any) -> Pod:
    return pod(node=where, labels=WEB, **more)


def refused(answers: dict[str, Status] | Status, why: Status) -> set[str]:
    """The nodes that fail for one reason; any other answer would be a surprise."""
    assert isinstance(answers, dict)
    assert set(answers.values()) <= {why, SUCCESS}
    return {name for name, status in answers.items() if status == why}


def test_extension_points() -> None:
    assert points_of(InterPodAffinity) == {"preFilter", "filter", "preScore", "score"}
    assert InterPodAffinity.looks_up == (NAMESPACES,)


# Skip


def test_nothing_to_say_about_pods_without_affinity() -> None:
    assert filtered(pod(labels=WEB), cluster(web())) == SKIP
    assert filtered(pod(affinity={"nodeAffinity": {}}), cluster(web())) == SKIP


def test_nothing_to_say_if_no_standing_pods_terms_speak_of_it() -> None:
    cache = cluster(wishing(far=[app("db")], node="a1"), wishing(near=[app("web")], node="a1"))
    assert filtered(pod(labels=WEB), cache) == SKIP


def test_preferred_terms_do_not_filter() -> None:
    cache = cluster(wishing(dislikes=[(5, app("web"))], node="a1"))
    assert filtered(wishing(dislikes=[(5, app("web"))], labels=WEB), cache) == SKIP


def test_terms_of_pods_whose_node_lacks_the_key_count_for_nothing() -> None:
    cache = cluster(wishing(far=[app("web", "rack")], node="a1"))
    assert filtered(pod(labels=WEB), cache) == SKIP
    cache.add_pod(wishing(far=[app("web")], node="bare"))
    cache.add_pod(wishing(far=[app("web")], node="gone"))
    assert filtered(pod(labels=WEB), cache) == SKIP


# Affinity


def test_affinity_to_pods_in_the_same_zone() -> None:
    answers = filtered(wishing(near=[app("web")]), cluster(web("a1")))
    assert refused(answers, AFFINITY) == {"b1", "bare"}


def test_nodes_must_have_every_key() -> None:
    wants = wishing(near=[app("web"), app("web", "rack")])
    assert refused(filtered(wants, cluster(web())), AFFINITY) == {"a1", "a2", "b1", "bare"}
    both = wishing(near=[app("web"), app("web", "host")])
    assert refused(filtered(both, cluster(web())), AFFINITY) == {"a2", "b1", "bare"}


def test_one_pod_must_match_all_terms() -> None:
    front = {"app": "web", "tier": "front"}
    wants = wishing(near=[app("web"), about(("tier", "In", ["front"]))])
    two = cluster(web("a1"), pod(node="a2", labels={"tier": "front"}))
    assert refused(filtered(wants, two), AFFINITY) == {"a1", "a2", "b1", "bare"}
    one = cluster(web("a1"), pod(node="b1", labels=front))
    assert refused(filtered(wants, one), AFFINITY) == {"a1", "a2", "bare"}


def test_terminating_pods_count() -> None:
    answers = filtered(wishing(near=[app("web")]), cluster(web("b1", terminating=True)))
    assert refused(answers, AFFINITY) == {"a1", "a2", "bare"}


def test_a_nil_selector_matches_nobody_and_an_empty_one_everybody() -> None:
    nobody = wishing(near=[{"topologyKey": "zone"}], labels=WEB)
    assert refused(filtered(nobody, cluster(web())), AFFINITY) == {"a1", "a2", "b1", "bare"}
    anybody = wishing(near=[{"topologyKey": "zone", "labelSelector": {}}])
    assert refused(filtered(anybody, cluster(pod(node="b1"))), AFFINITY) == {"a1", "a2", "bare"}


def test_first_pod_of_its_kind_goes_anywhere_with_the_key() -> None:
    first = wishing(near=[app("web"), app("web", "host")], labels=WEB)
    assert refused(filtered(first, cluster()), AFFINITY) == {"bare"}
    # One in the same cluster, even on another node, is one too many; one without a place is not.
    assert refused(filtered(first, cluster(web("b1"))), AFFINITY) == {"a1", "a2", "bare"}
    assert refused(filtered(first, cluster(web("bare"), web("gone"))), AFFINITY) == {"bare"}


def test_first_pod_must_match_all_of_its_own_terms() -> None:
    wants = wishing(near=[app("web"), app("db")], labels=WEB)
    assert refused(filtered(wants, cluster()), AFFINITY) == {"a1", "a2", "b1", "bare"}
    elsewhere = wishing(near=[app("web", namespaces=["prod"])], labels=WEB)
    assert refused(filtered(elsewhere, cluster()), AFFINITY) == {"a1", "a2", "b1", "bare"}


def test_exception_is_void_if_any_key_finds_a_pod() -> None:
    """A pod on a node that has one of two keys is counted for that key alone."""
    cache = in_place([*NODES, node("half", labels={"host": "half"})], [web("half")])
    first = wishing(near=[app("web"), app("web", "host")], labels=WEB)
    assert refused(filtered(first, cache), AFFINITY) == {"a1", "a2", "b1", "bare", "half"}


# Anti-affinity


def test_anti_affinity_to_pods_in_the_same_zone() -> None:
    answers = filtered(wishing(far=[app("web")]), cluster(web("a1")))
    assert refused(answers, ANTI) == {"a1", "a2"}


def test_any_anti_affinity_term_is_enough() -> None:
    cache = cluster(web("b1"), pod(node="a1", labels={"app": "db"}))
    answers = filtered(wishing(far=[app("web"), app("db", "host")]), cache)
    assert refused(answers, ANTI) == {"a1", "b1"}


def test_anti_affinity_without_the_key_is_no_objection() -> None:
    cache = cluster(web("a1"), web("bare"))
    assert refused(filtered(wishing(far=[app("web", "rack")]), cache), ANTI) == set()


def test_anti_affinity_of_standing_pods() -> None:
    cache = cluster(
        wishing(far=[app("web")], node="a1"),
        wishing(far=[app("web", "host")], node="b1"),
        wishing(far=[app("db")], node="b1"),
    )
    assert refused(filtered(pod(labels=WEB), cache), EXISTING) == {"a1", "a2", "b1"}
    db = filtered(pod(labels={"app": "db"}), cache)
    assert refused(db, EXISTING) == {"b1"}


def test_affinity_is_asked_first_then_its_own_then_others_anti_affinity() -> None:
    cache = cluster(
        wishing(far=[app("new")], node="a1", labels={"app": "old"}),
        wishing(far=[app("new")], node="b1", labels={"app": "older"}),
    )
    new = {"app": "new"}
    own = filtered(wishing(far=[app("old")], labels=new), cache)
    assert own == {"a1": ANTI, "a2": ANTI, "b1": EXISTING, "bare": SUCCESS}
    all_of_it = filtered(wishing(near=[app("older")], far=[app("old")], labels=new), cache)
    assert all_of_it == {"a1": AFFINITY, "a2": AFFINITY, "b1": EXISTING, "bare": AFFINITY}


def test_domains_are_label_values_even_of_host_names() -> None:
    twins = [node(name, labels={"host": "same"}) for name in ("one", "two")]
    cache = in_place(twins, [web("one")])
    assert refused(filtered(wishing(far=[app("web", "host")]), cache), ANTI) == {"one", "two"}


def test_counts_follow_the_cluster() -> None:
    cache = cluster(web("a1", uid="w"))
    plugin, wants = affinity_plugin(cache), wishing(far=[app("web")])
    assert refused(filtered(wants, cache, plugin), ANTI) == {"a1", "a2"}
    cache.set_node(node("a2", labels={"zone": "b"}))
    assert refused(filtered(wants, cache, plugin), ANTI) == {"a1"}
    cache.remove_pod("w")
    cache.add_pod(web("b1"))
    assert refused(filtered(wants, cache, plugin), ANTI) == {"a2", "b1"}
    cache.remove_node("b1")
    assert refused(filtered(wants, cache, plugin), ANTI) == set()


# Namespaces


PROD = {"namespaceSelector": {"matchLabels": {"stage": "prod"}}}
NOT_PROD = {
    "namespaceSelector": {
        "matchExpressions": [{"key": "stage", "operator": "NotIn", "values": ["prod"]}]
    }
}


def test_namespaces_that_are_named() -> None:
    cache = cluster(web("a1", namespace="prod"))
    assert refused(filtered(wishing(far=[app("web")]), cache), ANTI) == set()
    named = wishing(far=[app("web", namespaces=["test", "prod"])])
    assert refused(filtered(named, cache), ANTI) == {"a1", "a2"}


def test_selectors_of_namespaces_follow_the_namespaces() -> None:
    cache = cluster(web("a1", namespace="one"), web("b1", namespace="two"))
    plugin = affinity_plugin(cache, namespace("one", stage="prod"), namespace("two"))
    wants = wishing(far=[app("web", "host", **PROD)])
    assert refused(filtered(wants, cache, plugin), ANTI) == {"a1"}
    cache.catalog[NAMESPACES].set(namespace("two", stage="prod"))
    assert refused(filtered(wants, cache, plugin), ANTI) == {"a1", "b1"}
    cache.catalog[NAMESPACES].remove("one")
    assert refused(filtered(wants, cache, plugin), ANTI) == {"b1"}


def test_namespaces_that_are_named_come_on_top_of_those_that_are_chosen() -> None:
    cache = cluster(web("a1", namespace="one"), web("b1", namespace="two"), web("bare"))
    plugin = affinity_plugin(cache, namespace("one", stage="prod"), namespace("two"))
    wants = wishing(far=[app("web", "host", namespaces=["two"], **PROD)])
    assert refused(filtered(wants, cache, plugin), ANTI) == {"a1", "b1"}


def test_an_empty_selector_of_namespaces_is_all_of_them() -> None:
    cache = cluster(web("a1", namespace="never-heard-of"))
    wants = wishing(far=[app("web", namespaceSelector={})])
    assert refused(filtered(wants, cache), ANTI) == {"a1", "a2"}


def test_own_selector_of_what_namespaces_lack_is_all_of_them() -> None:
    """Kube-scheduler's quirk: it compares with no labels, whatever labels the namespace has."""
    cache = cluster(web("a1", namespace="one"), web("b1", namespace="two"))
    plugin = affinity_plugin(cache, namespace("one", stage="prod"), namespace("two"))
    wants = wishing(far=[app("web", "host", **NOT_PROD)])
    assert refused(filtered(wants, cache, plugin), ANTI) == {"a1", "b1"}


def test_standing_pods_selectors_see_the_incoming_pods_namespace() -> None:
    cache = cluster(
        wishing(far=[app("web", "host", **PROD)], node="a1"),
        wishing(far=[app("web", "host", **NOT_PROD)], node="b1"),
    )
    plugin = affinity_plugin(cache, namespace("one", stage="prod"), namespace("two", stage="x"))
    for name, nodes in (("one", {"a1"}), ("two", {"b1"}), ("never-heard-of", {"b1"})):
        incoming = pod(labels=WEB, namespace=name)
        assert refused(filtered(incoming, cache, plugin), EXISTING) == nodes


# What if


def test_nominated_pods_count_around_their_node() -> None:
    cache = cluster()
    row = cache.table.row_of["a1"]
    wants = wishing(far=[app("web")], labels=WEB)
    for other in (web(), wishing(far=[app("web", "host")])):
        overlay = Overlay(cache.table, {row: [compile_pod(other)]})
        why = ANTI if other.metadata.labels else EXISTING
        assert refused(filtered(wants, cache, None, overlay), why) == {"a1"}
    # Where its affinity is fulfilled by a pod that is not there yet.
    near = wishing(near=[app("web")])
    overlay = Overlay(cache.table, {row: [compile_pod(web())]})
    assert refused(filtered(near, cache, None, overlay), AFFINITY) == {"a2", "b1", "bare"}


def test_nominated_pods_end_the_exception_for_the_first_of_a_kind() -> None:
    cache = cluster()
    rows = [cache.table.row_of[name] for name in ("a1", "b1")]
    first = wishing(near=[app("web", "host"), app("web")], labels=WEB)
    here = Overlay(cache.table, {rows[0]: [compile_pod(web())]})
    assert refused(filtered(first, cache, None, here), AFFINITY) == {"bare"}
    cache.add_pod(web("b1", uid="w"))
    gone = Overlay(cache.table, {}, {rows[1]: list(cache.table.pods[rows[1]].values())})
    # Without the only one, its own node is one where there is none yet.
    assert refused(filtered(first, cache, None, gone), AFFINITY) == {"a1", "a2", "bare"}


def test_victims_no_longer_count() -> None:
    cache = cluster(web("a1"), web("a2"), wishing(far=[app("web")], node="b1"))
    table = cache.table
    overlay = Overlay(
        table,
        {},
        {
            table.row_of[name]: list(table.pods[table.row_of[name]].values())
            for name in ("a1", "b1")
        },
    )
    wants = wishing(far=[app("web", "host")], labels=WEB)
    assert filtered(wants, cache, None, overlay) == {
        "a1": SUCCESS,
        "a2": ANTI,
        "b1": SUCCESS,
        "bare": SUCCESS,
    }


# Pods that cannot be read, and arguments


def test_invalid_terms_are_never_scheduled() -> None:
    bad = {"labelSelector": {"matchLabels": {"app": "no good"}}, "topologyKey": "zone"}
    said = filtered(wishing(near=[bad], dislikes=[(1, bad)]), cluster())
    assert isinstance(said, Status)
    assert said.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    first, _, second = said.message.partition(", preferredAntiAffinityTerms: ")
    assert first.startswith("parsing pod: [requiredAffinityTerms: values[0][app]: Invalid value")
    assert second.endswith("]")


def test_invalid_terms_of_standing_pods_count_for_nothing() -> None:
    bad = {"labelSelector": {"matchLabels": {"app": "no good"}}, "topologyKey": "zone"}
    cache = cluster(wishing(far=[app("web"), bad], node="a1"))
    assert filtered(pod(labels=WEB), cache) == SKIP


@pytest.mark.parametrize("weight", [-1, 101])
def test_weight_of_hard_affinity_has_a_range(weight: int) -> None:
    with pytest.raises(ConfigError, match=r"not in valid range \[0, 100\]") as caught:
        affinity_plugin(hardPodAffinityWeight=weight)
    assert f"hardPodAffinityWeight: Invalid value: {weight}" in str(caught.value)
