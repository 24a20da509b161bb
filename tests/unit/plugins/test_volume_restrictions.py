"""VolumeRestrictions: kube-scheduler's cases, and that the index behind them forgets nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stowplan.api.objects import Pod
from stowplan.cluster.pod_info import compile_pod
from stowplan.cluster.views import Overlay
from stowplan.errors import PluginError
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import FilterStep
from stowplan.framework.status import SKIP, unresolvable, unschedulable
from stowplan.plugins.volume_restrictions import VolumeRestrictions
from stowplan.queue.events import ActionType, Hint
from stowplan.testing import node, pod
from tests.unit.plugins.plugin_kit import hint, in_place
from tests.unit.plugins.volume_kit import claim, fits, judged, made_for, put, using

DISK_TAKEN = unschedulable("node(s) had no available disk").by("VolumeRestrictions")
CLAIM_TAKEN = unschedulable(
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
    "already in-use by another pod"
).by("VolumeRestrictions")


def gce(name: str, *, read_only: bool = False) -> dict[str, Any]:
    return {"gcePersistentDisk": {"pdName": name, "readOnly": read_only}}


def aws(name: str, *, read_only: bool = False) -> dict[str, Any]:
    return {"awsElasticBlockStore": {"volumeID": name, "readOnly": read_only}}


def iscsi(iqn: str, *, read_only: bool = False, portal: str = "x") -> dict[str, Any]:
    return {"iscsi": {"targetPortal": portal, "iqn": iqn, "lun": 0, "readOnly": read_only}}


def rbd(*monitors: str, image: str = "i", pool: str = "p", read_only: bool = False) -> Any:
    source = {"monitors": monitors, "pool": pool, "image": image, "readOnly": read_only}
    return {"rbd": source}


@pytest.mark.parametrize(
    ("wanted", "taken", "is_free"),
    [
        pytest.param(gce("a"), gce("a"), False, id="gce"),
        pytest.param(gce("a"), gce("b"), True, id="gce-other"),
        pytest.param(gce("a", read_only=True), gce("a", read_only=True), True, id="gce-readers"),
        pytest.param(gce("a", read_only=True), gce("a"), False, id="gce-reader-and-writer"),
        pytest.param(gce("a"), gce("a", read_only=True), False, id="gce-writer-and-reader"),
        pytest.param(aws("a"), aws("a"), False, id="aws"),
        pytest.param(aws("a"), aws("b"), True, id="aws-other"),
        pytest.param(aws("a", read_only=True), aws("a", read_only=True), False, id="aws-readers"),
        pytest.param(aws("a"), gce("a"), True, id="another-cloud"),
        pytest.param(iscsi("a"), iscsi("a", portal="y"), False, id="iscsi"),
        pytest.param(iscsi("a"), iscsi("b"), True, id="iscsi-other"),
        pytest.param(iscsi("a", read_only=True), iscsi("a", read_only=True), True, id="iscsi-read"),
        pytest.param(rbd("m", "n"), rbd("n", "o"), False, id="rbd-one-monitor-in-common"),
        pytest.param(rbd("m"), rbd("n"), True, id="rbd-no-monitor-in-common"),
        pytest.param(rbd("m"), rbd("m", image="j"), True, id="rbd-other-image"),
        pytest.param(rbd("m"), rbd("m", pool="q"), True, id="rbd-other-pool"),
        pytest.param(rbd("m", read_only=True), rbd("m", read_only=True), True, id="rbd-readers"),
        pytest.param(rbd(), rbd(), True, id="rbd-without-monitors"),
    ],
)
def test_disks(wanted: dict[str, Any], taken: dict[str, Any], is_free: bool) -> None:
    cache = in_place([node("n"), node("free")], [using("data", taken, node="n")])
    answers = judged(made_for(VolumeRestrictions, cache), using({"emptyDir": {}}, wanted), cache)
    assert isinstance(answers, dict)
    assert answers["free"].is_success
    assert answers["n"] == DISK_TAKEN or is_free
    assert answers["n"].is_success is is_free


def test_a_disk_is_free_when_all_who_had_it_are_gone() -> None:
    writer, reader = using(gce("a"), node="n"), using(gce("a", read_only=True), node="n")
    cache = in_place([node("n")], [writer, reader])
    plugin = made_for(VolumeRestrictions, cache)
    assert fits(plugin, using(gce("a", read_only=True)), cache) == {"n": False}
    cache.remove_pod(writer.uid)
    assert fits(plugin, using(gce("a", read_only=True)), cache) == {"n": True}
    assert fits(plugin, using(gce("a")), cache) == {"n": False}
    cache.remove_pod(reader.uid)
    assert fits(plugin, using(gce("a")), cache) == {"n": True}
    assert len(cache.table.used_volumes) == 0


def test_what_cannot_clash_is_skipped() -> None:
    cache = put(in_place([node("n")]), claim("data"))
    plugin = made_for(VolumeRestrictions, cache)
    assert judged(plugin, pod(), cache) == SKIP
    assert judged(plugin, using({"emptyDir": {}}), cache) == SKIP
    assert judged(plugin, using("data", {"ephemeral": {}}), cache) == SKIP


def test_a_missing_claim() -> None:
    cache = put(in_place([node("n")]), claim("mine", namespace="other"))
    answer = judged(made_for(VolumeRestrictions, cache), using(gce("a"), "mine"), cache)
    assert answer == unresolvable('persistentvolumeclaim "mine" not found')


class TestClaimsForOnePod:
    alone = claim("alone", mode="ReadWriteOncePod")

    def test_one_pod_in_the_cluster(self) -> None:
        user = using("alone", node="a")
        cache = put(in_place([node("a"), node("b")], [user]), self.alone)
        plugin = made_for(VolumeRestrictions, cache)
        assert judged(plugin, using("alone"), cache) == {"a": CLAIM_TAKEN, "b": CLAIM_TAKEN}
        cache.remove_pod(user.uid)
        assert judged(plugin, using("alone"), cache) == SKIP

    def test_other_modes_and_namespaces_do_not_matter(self) -> None:
        standing = [using("shared", node="a"), using("alone", node="a", namespace="other")]
        cache = put(in_place([node("a")], standing), self.alone, claim("shared"))
        assert judged(made_for(VolumeRestrictions, cache), using("alone", "shared"), cache) == SKIP

    def test_a_pod_on_an_unknown_node_does_not_count(self) -> None:
        cache = put(in_place([node("a")], [using("alone", node="ghost")]), self.alone)
        plugin = made_for(VolumeRestrictions, cache)
        assert judged(plugin, using("alone"), cache) == SKIP
        cache.set_node(node("ghost"))
        assert fits(plugin, using("alone"), cache) == {"a": False, "ghost": False}

    def test_the_disk_is_named_first(self) -> None:
        standing = [using("alone", node="a"), using(gce("d"), node="b")]
        cache = put(in_place([node("a"), node("b")], standing), self.alone)
        answers = judged(made_for(VolumeRestrictions, cache), using("alone", gce("d")), cache)
        assert answers == {"a": CLAIM_TAKEN, "b": DISK_TAKEN}

    def test_what_if(self) -> None:
        """Victims give claims back; upstream counts them, whatever their namespace is."""
        user = using("alone", node="a")
        cache = put(in_place([node("a")], [user]), self.alone)
        plugin = made_for(VolumeRestrictions, cache)
        cycle = Cycle(cache.table, compile_pod(using("alone")))
        assert plugin.pre_filter(cycle) is None
        step, row = FilterStep(plugin), cache.table.row_of["a"]
        changed = cycle.clone()
        plugin.what_if(changed, compile_pod(user), row, -1)
        assert step.status_of_row(changed, row).is_success
        assert step.status_of_row(cycle, row) == CLAIM_TAKEN
        plugin.what_if(changed, compile_pod(using("alone", namespace="other")), row, 1)
        assert step.status_of_row(changed, row) == CLAIM_TAKEN


def test_what_if_of_disks() -> None:
    victim = using(gce("d"), node="a")
    cache = in_place([node("a"), node("b"), node("c")], [victim, using(gce("d"), node="c")])
    table = cache.table
    a, b, c = (table.row_of[name] for name in "abc")
    overlay = Overlay(table, {b: [compile_pod(using(gce("d")))]}, {a: [table.pods[a][victim.uid]]})
    plugin = made_for(VolumeRestrictions, cache)
    cycle, step = Cycle(table, compile_pod(using(gce("d")))), FilterStep(plugin)
    assert plugin.pre_filter(cycle) is None
    column = np.zeros(table.capacity, np.int32)
    step.fill(cycle, table.live_rows, column, overlay)
    assert column[[a, b, c]].tolist() == [0, 1, 1]


def test_without_prefilter_it_gives_up_as_upstream_does() -> None:
    cache = in_place([node("n")])
    step = FilterStep(made_for(VolumeRestrictions, cache))
    cycle = Cycle(cache.table, compile_pod(pod()))
    with pytest.raises(PluginError, match='cannot read "PreFilterVolumeRestrictions"'):
        step.fill(cycle, slice(None), np.zeros(cache.table.capacity, np.int32))


@pytest.mark.parametrize(
    ("deleted", "expected"),
    [
        pytest.param(using(gce("a"), node="n"), Hint.QUEUE, id="had-the-disk"),
        pytest.param(using(gce("b"), node="n"), Hint.SKIP, id="had-another"),
        pytest.param(using(gce("a"), namespace="other"), Hint.SKIP, id="another-namespace"),
        pytest.param(using("mine"), Hint.QUEUE, id="had-the-claim"),
        pytest.param(using("other"), Hint.SKIP, id="had-another-claim"),
        pytest.param(pod(), Hint.SKIP, id="had-nothing"),
        pytest.param("not a pod", Hint.QUEUE, id="unknown"),
    ],
)
def test_comes_back_when_a_pod_leaves(deleted: Pod, expected: Hint) -> None:
    plugin, mine = VolumeRestrictions(), using(gce("a"), "mine", {"emptyDir": {}})
    assert hint(plugin, "Pod", ActionType.DELETE, mine, deleted, None) is expected


def test_comes_back_with_its_claim_or_a_new_node() -> None:
    plugin, mine = VolumeRestrictions(), using("mine", {"ephemeral": {}})
    kind = "PersistentVolumeClaim"
    for new, expected in (
        (claim("mine"), Hint.QUEUE),
        (claim("mine", namespace="other"), Hint.SKIP),
        (claim("other"), Hint.SKIP),
    ):
        assert hint(plugin, kind, ActionType.ADD, mine, None, new) is expected
    assert hint(plugin, kind, ActionType.UPDATE, mine, claim("mine"), claim("mine")) is None
    assert hint(plugin, "Node", ActionType.ADD, mine, None, node()) is Hint.QUEUE
    assert hint(plugin, "Node", ActionType.UPDATE_NODE_LABEL, mine, node(), node()) is None
