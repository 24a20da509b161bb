"""InterPodAffinity's hints: which events bring a rejected pod back."""

from __future__ import annotations

import pytest

from stowplan.api.objects import Pod
from stowplan.queue.events import ActionType, Hint
from stowplan.testing import node, pod
from tests.unit.plugins.affinity_kit import Json, affinity_plugin, app, wishing
from tests.unit.plugins.plugin_kit import hint

WEB, DB = {"app": "web"}, {"app": "db"}
BAD: Json = {"labelSelector": {"matchLabels": {"app": "no good"}}, "topologyKey": "zone"}
NEAR, FAR = wishing(near=[app("web")]), wishing(far=[app("web")])


def after_pod(rejected: Pod, old: Pod | None, new: Pod | None) -> Hint | None:
    action = ActionType.UPDATE_POD_LABEL
    if old is None or new is None:
        action = ActionType.ADD if old is None else ActionType.DELETE
    return hint(affinity_plugin(), "Pod", action, rejected, old, new)


def after_node(rejected: Pod, old: Json | None, new: Json) -> Hint | None:
    action = ActionType.ADD if old is None else ActionType.UPDATE_NODE_LABEL
    before = None if old is None else node("n", labels=old)
    return hint(affinity_plugin(), "Node", action, rejected, before, node("n", labels=new))


def test_registered_events() -> None:
    plugin = affinity_plugin()
    assert hint(plugin, "Node", ActionType.UPDATE_NODE_TAINT, NEAR, None, None) is None
    assert hint(plugin, "Pod", ActionType.UPDATE_POD_TOLERATION, NEAR, None, None) is None
    assert hint(plugin, "Namespace", ActionType.ADD, NEAR, None, None) is None
    assert [str(each.event.label) for each in plugin.events()] == ["Pod", "Node"]


def test_own_labels_changed() -> None:
    rejected = wishing(uid="me", labels=WEB)
    assert after_pod(rejected, rejected, wishing(uid="me", labels=DB)) is Hint.QUEUE


def test_pods_without_a_place_do_not_matter() -> None:
    assert after_pod(NEAR, None, pod(labels=WEB)) is Hint.SKIP
    assert after_pod(FAR, pod(labels=WEB), None) is Hint.SKIP
    assert after_pod(NEAR, pod(labels=DB), pod(labels=WEB)) is Hint.SKIP
    assert after_pod(NEAR, None, pod(labels=WEB, nominated_node="n")) is Hint.QUEUE


@pytest.mark.parametrize(
    ("rejected", "labels", "expected"),
    [
        (NEAR, WEB, Hint.QUEUE),
        (NEAR, DB, Hint.SKIP),
        (FAR, WEB, Hint.SKIP),
        (FAR, DB, Hint.SKIP),
        # All of the terms, by one pod.
        (wishing(near=[app("web"), app("db")]), WEB, Hint.SKIP),
        (wishing(near=[app("web"), app("web", "host")]), WEB, Hint.QUEUE),
        (pod(), WEB, Hint.SKIP),
    ],
)
def test_pod_came(rejected: Pod, labels: Json, expected: Hint) -> None:
    assert after_pod(rejected, None, pod(node="n", labels=labels)) is expected


@pytest.mark.parametrize(
    ("rejected", "old", "new", "expected"),
    [
        (NEAR, DB, WEB, Hint.QUEUE),
        (NEAR, WEB, {**WEB, "x": "y"}, Hint.SKIP),
        (NEAR, WEB, DB, Hint.SKIP),
        (FAR, WEB, DB, Hint.QUEUE),
        (FAR, DB, WEB, Hint.SKIP),
        # Upstream asks whether it stops to match all of the terms.
        (wishing(far=[app("web"), app("db")]), WEB, DB, Hint.SKIP),
    ],
)
def test_pod_changed_its_labels(rejected: Pod, old: Json, new: Json, expected: Hint) -> None:
    before, after = (pod("p", uid="p", node="n", labels=labels) for labels in (old, new))
    assert after_pod(rejected, before, after) is expected


@pytest.mark.parametrize(
    ("rejected", "gone", "expected"),
    [
        (FAR, pod(node="n", labels=WEB), Hint.QUEUE),
        (FAR, pod(node="n", labels=DB), Hint.SKIP),
        (NEAR, pod(node="n", labels=WEB), Hint.SKIP),
        (pod(labels=WEB), wishing(node="n", far=[app("web")]), Hint.QUEUE),
        (pod(labels=WEB), wishing(node="n", far=[app("db")]), Hint.SKIP),
        # Upstream asks for all of the terms of the pod that went.
        (pod(labels=WEB), wishing(node="n", far=[app("web"), app("db")]), Hint.SKIP),
        (pod(labels=WEB), wishing(node="n", near=[app("web")]), Hint.SKIP),
        (pod(labels=WEB), wishing(node="n", far=[BAD]), Hint.QUEUE),
    ],
)
def test_pod_went(rejected: Pod, gone: Pod, expected: Hint) -> None:
    assert after_pod(rejected, gone, None) is expected


def test_namespaces_are_not_looked_up() -> None:
    other = pod(node="n", labels=WEB, namespace="other")
    assert after_pod(NEAR, None, other) is Hint.SKIP
    named = wishing(near=[app("web", namespaces=["other"])])
    assert after_pod(named, None, other) is Hint.QUEUE
    everywhere = wishing(near=[app("web", namespaceSelector={})])
    assert after_pod(everywhere, None, other) is Hint.QUEUE
    chosen = wishing(near=[app("web", namespaceSelector={"matchLabels": {"stage": "prod"}})])
    assert after_pod(chosen, None, other) is Hint.SKIP


def test_unreadable_terms_always_come_back() -> None:
    for rejected in (wishing(near=[BAD]), wishing(far=[BAD])):
        assert after_pod(rejected, None, pod(node="n")) is Hint.QUEUE
        assert after_node(rejected, {}, {}) is Hint.QUEUE
    assert after_pod(wishing(likes=[(1, BAD)]), None, pod(node="n")) is Hint.SKIP


@pytest.mark.parametrize(
    ("rejected", "old", "new", "expected"),
    [
        (NEAR, None, {"zone": "a"}, Hint.QUEUE),
        (NEAR, None, {}, Hint.SKIP),
        (NEAR, {}, {"zone": "a"}, Hint.QUEUE),
        (NEAR, {"zone": ""}, {"zone": "a"}, Hint.QUEUE),
        (NEAR, {"zone": "a"}, {}, Hint.SKIP),
        (NEAR, {"zone": "a"}, {"zone": "a", "x": "y"}, Hint.SKIP),
        (FAR, None, {}, Hint.QUEUE),
        (FAR, {}, {"zone": "a"}, Hint.SKIP),
        (FAR, {"zone": "a"}, {}, Hint.QUEUE),
        (FAR, {"zone": "a"}, {"zone": "b"}, Hint.QUEUE),
        (FAR, {"zone": "a"}, {"zone": "a", "x": "y"}, Hint.SKIP),
        (pod(), None, {"zone": "a"}, Hint.SKIP),
    ],
)
def test_node_came_or_changed(rejected: Pod, old: Json | None, new: Json, expected: Hint) -> None:
    assert after_node(rejected, old, new) is expected


def test_strange_objects_bring_the_pod_back() -> None:
    plugin = affinity_plugin()
    for resource, action in (("Pod", ActionType.ADD), ("Node", ActionType.ADD)):
        assert hint(plugin, resource, action, NEAR, None, "something") is Hint.QUEUE
