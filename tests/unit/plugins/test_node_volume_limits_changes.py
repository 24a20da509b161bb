"""NodeVolumeLimits over time: the counts follow whatever changes, and when pods come back."""

from __future__ import annotations

import pytest

from stowplan.api.resources import (
    CSI_NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
)
from stowplan.plugins.node_volume_limits import NodeVolumeLimits
from stowplan.queue.events import ActionType, Hint
from stowplan.testing import node, pod
from tests.unit.plugins.plugin_kit import hint
from tests.unit.plugins.test_node_volume_limits import (
    BOUND,
    DISKS,
    EBS,
    SHARED_DISK,
    csi,
    limited,
    one_node,
)
from tests.unit.plugins.volume_kit import (
    attachment,
    claim,
    csi_node,
    fits,
    made_for,
    put,
    storage_class,
    using,
)

# Whatever changes is noticed


def test_the_counts_follow_every_change() -> None:
    standing = using("a", node="n")
    cache = one_node(standing, objects=(*BOUND, limited(1)))
    plugin, mine = made_for(NodeVolumeLimits, cache), using("b")

    def has_room() -> bool:
        return fits(plugin, mine, cache)["n"]

    assert not has_room()
    put(cache, limited(2))
    assert has_room()
    put(cache, limited(1))
    cache.remove_pod(standing.uid)
    assert has_room()
    cache.add_pod(standing)
    assert not has_room()
    put(cache, csi("pv-a", "other.example.com"))
    assert has_room()
    cache.catalog[PERSISTENT_VOLUMES].remove("pv-a")
    put(cache, claim("a", "pv-a", storage_class="late"))
    assert has_room()
    put(cache, storage_class("late", DISKS))
    assert not has_room()
    cache.catalog[STORAGE_CLASSES].remove("late")
    assert has_room()
    put(cache, claim("a", "pv-b"))
    assert has_room()
    put(cache, csi("pv-a"), claim("a", "pv-a"))
    assert not has_room()
    cache.catalog[PERSISTENT_VOLUME_CLAIMS].remove("a", "default")
    assert has_room()
    put(cache, claim("a", "pv-a"))
    cache.catalog[CSI_NODES].remove("n")
    assert has_room()


def test_nodes_that_go_and_come_back_with_other_limits() -> None:
    cache = one_node(objects=(*BOUND, limited(0)))
    plugin, mine = made_for(NodeVolumeLimits, cache), using("b")
    assert fits(plugin, mine, cache)["n"] is False
    cache.remove_node("n")
    cache.catalog[CSI_NODES].remove("n")
    cache.set_node(node("n"))
    assert fits(plugin, mine, cache)["n"] is True
    cache.remove_node("n")
    assert "n" not in fits(plugin, mine, cache)
    put(cache, limited(0))
    cache.set_node(node("n"))
    assert fits(plugin, mine, cache)["n"] is False
    cache.remove_node("n")
    cache.set_node(node("m"))
    assert fits(plugin, mine, cache)["m"] is True


def test_a_table_that_grows() -> None:
    cache = one_node(objects=(*BOUND, limited(0)))
    plugin, mine = made_for(NodeVolumeLimits, cache), using("b")
    assert fits(plugin, mine, cache)["n"] is False
    for number in range(100):
        cache.set_node(node(f"n{number}"))
    put(cache, csi_node("n99", disks_example_com=0))
    answers = fits(plugin, mine, cache)
    assert {name for name, is_free in answers.items() if not is_free} == {"n", "n99"}


# Coming back


@pytest.mark.parametrize(
    ("deleted", "expected"),
    [
        pytest.param(using("a", node="n"), Hint.QUEUE, id="had-a-claim"),
        pytest.param(using({"ephemeral": {}}, node="n"), Hint.QUEUE, id="had-an-ephemeral"),
        pytest.param(using(EBS, nominated_node="n"), Hint.QUEUE, id="had-a-disk"),
        pytest.param(using({"emptyDir": {}}, node="n"), Hint.SKIP, id="had-nothing-that-counts"),
        pytest.param(using("a"), Hint.SKIP, id="stood-nowhere"),
        pytest.param(pod(node="n"), Hint.SKIP, id="had-nothing"),
        pytest.param("not a pod", Hint.QUEUE, id="unknown"),
    ],
)
def test_comes_back_when_a_pod_leaves(deleted: object, expected: Hint) -> None:
    assert hint(NodeVolumeLimits(), "Pod", ActionType.DELETE, using("b"), deleted, None) is expected


def test_comes_back_when_something_is_detached() -> None:
    plugin, gone = NodeVolumeLimits(), attachment("v", "n", "ebs.csi.aws.com", "pv")
    cinder = {"cinder": {"volumeID": "d"}}
    for mine, expected in (
        (using("a"), Hint.QUEUE),
        (using(EBS), Hint.QUEUE),
        (using(SHARED_DISK), Hint.QUEUE),
        (using(cinder), Hint.SKIP),
        (using({"ephemeral": {}}), Hint.SKIP),
        (pod(), Hint.SKIP),
    ):
        kind = "storage.k8s.io/VolumeAttachment"
        assert hint(plugin, kind, ActionType.DELETE, mine, gone, None) is expected


def test_comes_back_when_a_limit_is_raised() -> None:
    plugin, kind, mine = NodeVolumeLimits(), "storage.k8s.io/CSINode", using("a")
    assert hint(plugin, kind, ActionType.ADD, mine, None, limited()) is Hint.QUEUE
    for old, new, expected in (
        (limited(1), limited(2), Hint.QUEUE),
        (limited(2), limited(2), Hint.SKIP),
        (limited(2), limited(1), Hint.SKIP),
        (limited(None), limited(1), Hint.QUEUE),
        (limited(1), limited(None), Hint.SKIP),
        (csi_node("n"), limited(0), Hint.SKIP),
        (csi_node("n"), limited(1), Hint.QUEUE),
    ):
        assert hint(plugin, kind, ActionType.UPDATE, mine, old, new) is expected


def test_comes_back_with_its_claim() -> None:
    plugin, kind = NodeVolumeLimits(), "PersistentVolumeClaim"
    mine = using("a", {"ephemeral": {}}, name="p")
    for new, expected in (
        (claim("a"), Hint.QUEUE),
        (claim("p-v1"), Hint.QUEUE),
        (claim("p-v0"), Hint.SKIP),
        (claim("a", namespace="other"), Hint.SKIP),
    ):
        assert hint(plugin, kind, ActionType.ADD, mine, None, new) is expected
    assert hint(plugin, kind, ActionType.UPDATE, mine, claim("a"), claim("a")) is None
