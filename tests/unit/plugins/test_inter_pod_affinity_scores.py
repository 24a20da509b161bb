"""InterPodAffinity's scores: whose terms count how much, and what comes of it."""

from __future__ import annotations

from stowplan.cluster.cache import ClusterCache
from stowplan.framework.status import SKIP, Code, Status
from stowplan.testing import pod
from tests.unit.plugins.affinity_kit import (
    WEB,
    Json,
    affinity_plugin,
    app,
    cluster,
    namespace,
    normalized,
    raw_scores,
    wishing,
)


def scores(a1: int, a2: int, b1: int) -> dict[str, int]:
    return {"a1": a1, "a2": a2, "b1": b1, "bare": 0}


def ignoring(cache: ClusterCache) -> Json | Status:
    """Scores of a plain pod where others' preferences are to be ignored."""
    plugin = affinity_plugin(cache, ignorePreferredTermsOfExistingPods=True)
    return raw_scores(pod(labels=WEB), cache, plugin)


def test_nothing_to_say_without_terms_that_find_a_pod() -> None:
    cache = cluster(pod(node="a1", labels=WEB), wishing(likes=[(5, app("db"))], node="a1"))
    assert raw_scores(pod(labels=WEB), cache) == SKIP
    assert raw_scores(wishing(likes=[(5, app("other"))], labels=WEB), cache) == SKIP
    # Nor if the pods stand where the topology key is missing.
    assert raw_scores(wishing(likes=[(5, app("web", "rack"))]), cache) == SKIP
    assert (
        raw_scores(pod(labels={"app": "x"}), cluster(wishing(likes=[(1, app("x"))], node="bare")))
        == SKIP
    )


def test_own_preferences() -> None:
    cache = cluster(
        pod(node="a1", labels=WEB),
        pod(node="a2", labels=WEB),
        pod(node="b1", labels={"app": "db"}),
        pod(node="bare", labels=WEB),
    )
    likes = wishing(likes=[(5, app("web")), (7, app("web", "host"))], dislikes=[(2, app("db"))])
    assert raw_scores(likes, cache) == scores(17, 17, -2)


def test_preferences_of_standing_pods() -> None:
    cache = cluster(
        wishing(likes=[(5, app("web"))], node="a1"),
        wishing(likes=[(5, app("web"))], node="a2"),
        wishing(dislikes=[(3, app("web", "host"))], node="a2"),
        wishing(dislikes=[(100, app("db", "host"))], node="b1"),
    )
    assert raw_scores(pod(labels=WEB), cache) == scores(10, 7, 0)


def test_required_affinity_of_standing_pods_counts_by_the_arguments() -> None:
    cache = cluster(wishing(near=[app("web"), app("web", "host")], node="a1"))
    assert raw_scores(pod(labels=WEB), cache) == scores(2, 1, 0)
    heavy = affinity_plugin(cache, hardPodAffinityWeight=50)
    assert raw_scores(pod(labels=WEB), cache, heavy) == scores(100, 50, 0)
    weightless = affinity_plugin(cache, hardPodAffinityWeight=0)
    assert raw_scores(pod(labels=WEB), cache, weightless) == SKIP


def test_required_anti_affinity_does_not_score() -> None:
    cache = cluster(wishing(far=[app("web")], node="a1"))
    assert raw_scores(pod(labels=WEB), cache) == SKIP


def test_terms_that_cancel_each_other_out_are_not_absent() -> None:
    cache = cluster(pod(node="a1", labels=WEB))
    torn = wishing(likes=[(5, app("web"))], dislikes=[(5, app("web"))])
    assert raw_scores(torn, cache) == scores(0, 0, 0)


def test_terminating_pods_count_and_ghosts_do_not() -> None:
    cache = cluster(pod(node="a1", labels=WEB, terminating=True), pod(node="gone", labels=WEB))
    assert raw_scores(wishing(likes=[(5, app("web"))]), cache) == scores(5, 5, 0)


def test_others_preferences_can_be_ignored() -> None:
    cache = cluster(wishing(likes=[(5, app("web"))], near=[app("web", "host")], node="a1"))
    assert raw_scores(pod(labels=WEB), cache) == scores(6, 5, 0)
    assert ignoring(cache) == SKIP
    # One that has preferences of its own sees the others' all the same.
    own = wishing(dislikes=[(1, app("nobody"))], labels=WEB)
    plugin = affinity_plugin(cache, ignorePreferredTermsOfExistingPods=True)
    assert raw_scores(own, cache, plugin) == scores(6, 5, 0)


def test_namespaces() -> None:
    prod: Json = {"namespaceSelector": {"matchLabels": {"stage": "prod"}}}
    cache = cluster(
        pod(node="a1", labels=WEB, namespace="one"),
        wishing(likes=[(10, app("web", "host", **prod))], node="b1"),
    )
    plugin = affinity_plugin(cache, namespace("one", stage="prod"))
    likes = [(5, app("web", "host", **prod))]
    assert raw_scores(wishing(likes=likes, labels=WEB), cache, plugin) == scores(5, 0, 0)
    inside = wishing(likes=likes, labels=WEB, namespace="one")
    assert raw_scores(inside, cache, plugin) == scores(5, 0, 10)


def test_unreadable_pods_fail_the_attempt() -> None:
    bad = {"labelSelector": {"matchLabels": {"app": "no good"}}, "topologyKey": "zone"}
    said = raw_scores(wishing(likes=[(1, bad)]), cluster())
    assert isinstance(said, Status)
    assert said.code is Code.ERROR
    assert said.message.startswith("failed to parse pod: preferredAffinityTerms: values[0][app]")


def test_scores_are_scaled_between_lowest_and_highest() -> None:
    assert normalized(0, 5, 10) == [0, 50, 100]
    assert normalized(-10, -5, -9) == [0, 100, 20]
    assert normalized(7, 7) == [0, 0]
    assert normalized(0, 0) == [0, 0]


def test_scaling_truncates_in_floating_point_as_go_does() -> None:
    # 100 * (29/100) is a hair below 29 in float64, and 100 * (57/100) below 57.
    assert normalized(0, 29, 57, 100) == [0, 28, 56, 100]
    assert normalized(0, 1, 2, 3) == [0, 33, 66, 100]
