"""The audit and the scheduler, which share no code, agree on random clusters.

Clusters come from the parity generators, whose answers are compared with kube-scheduler's own code
elsewhere. Rule by rule the audit must find a problem on exactly the nodes that the plugin rejects,
so it is neither blind nor loose; and where the scheduler places pods one after another, the audit
of that history must find nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any, TypeAlias

import msgspec
from hypothesis import assume, given
from hypothesis import strategies as st

from stowplan.api.objects import Pod
from stowplan.audit import Options, Report, Revision, audit_history, decode_item
from stowplan.audit.facts import PodFacts, node_facts, pod_facts
from stowplan.audit.neighbours import neighbour_problems
from stowplan.audit.rules import problems
from stowplan.audit.world import World
from stowplan.cluster.pod_info import compile_pod
from stowplan.scheduler.cycle import decide
from tests.examples import examples
from tests.parity import ours
from tests.parity.generate.case import Scene
from tests.parity.generate.configurations import configuration

Json: TypeAlias = dict[str, Any]

#: The plugins that a kind of finding stands for, and the kinds.
RULES = {
    "NodeUnschedulable": {"unschedulable"},
    "TaintToleration": {"taint"},
    "NodeAffinity": {"node-affinity"},
    "NodePorts": {"host-port"},
    "NodeResourcesFit": {"overcommit"},
    "PodTopologySpread": {"spread"},
    "InterPodAffinity": {"affinity", "anti-affinity"},
    "VolumeZone": {"volume-zone"},
}
#: Bound claims only: the audit judges pods whose claims were bound for them.
VOLUMES = {"VolumeBinding": {"volume-affinity"}, "VolumeRestrictions": {"rwop"}}
#: A selector that the generators write now and then; an API server lets no new pod have it.
_INVALID = "not a value!"
SEEDS = st.integers(0, 10**9)


def plain_case(scene: Scene) -> Json:
    """A case with kube-scheduler's default profile: an audit knows no arguments of plugins."""
    case = {**scene.case(plain=True), "config": configuration(), "nominated": []}
    assume(_INVALID not in str(case))
    choose_namespaces_as_documented(case)
    known = {each["metadata"]["name"] for each in case["objects"] if each["kind"] == "Namespace"}
    for name in {"default", "prod", "test"} - known:
        labels = {"kubernetes.io/metadata.name": name}
        made = {"kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        case["objects"].append({"apiVersion": "v1", **made})
    return case


def choose_namespaces_as_documented(value: Any) -> None:
    """Replace selectors of namespaces that only exclude some.

    kube-scheduler lets those of the pod that it places match all namespaces. The documentation
    does not, and nor does the audit.
    """
    if isinstance(value, list):
        for each in value:
            choose_namespaces_as_documented(each)
    elif isinstance(value, dict):
        wanted = (value.get("namespaceSelector") or {}).get("matchExpressions") or ()
        if any(each["operator"] in ("NotIn", "DoesNotExist") for each in wanted):
            value["namespaceSelector"] = {"matchLabels": {"stage": "prod"}}
        for each in value.values():
            choose_namespaces_as_documented(each)


def audited(case: Json) -> World:
    world = World()
    for thing in (*case["nodes"], *case["objects"], *case["pods"]):
        if thing["kind"] not in ("Node", "Pod", *_KINDS):
            continue
        item = decode_item(thing["kind"], msgspec.json.encode(thing))
        if item.kind == "Node":
            world.set_node(item.name, node_facts(item))
        elif item.kind == "Pod":
            world.set_pod(pod_facts(item))
        else:
            world.set_other(item)
    return world


_KINDS = ("Namespace", "PersistentVolumeClaim", "PersistentVolume", "StorageClass", "CSINode")


def facts_of(pod: Json) -> PodFacts:
    return pod_facts(decode_item("Pod", msgspec.json.encode(pod)))


def rejected(world: ours.World, plugin: str) -> set[str]:
    """The nodes that a plugin rejects for the case's pod."""
    said = world.filter(plugin, ours.COLUMNS) or world.filter(plugin, ours.PER_NODE)
    assert said is not None
    code = said.get("prefilter", {}).get("code", "Success")
    if code == "Skip":
        return set()
    if code != "Success":
        return set(world.order)
    refused = {name for name, verdict in said["nodes"].items() if verdict["code"] != "Success"}
    return refused | (set(world.order) - set(said.get("only", world.order)))


def audit_kinds(world: World, pod: PodFacts) -> Iterator[tuple[str, set[str]]]:
    """The problems of a pod that stands nowhere, by node."""
    world.tallies.acquire(pod)
    for node in world.nodes.values():
        found = problems(world, pod, node, None) + neighbour_problems(world, pod, node, None)
        yield node.name, {each.kind for each in found}
    world.tallies.release(pod)


@given(SEEDS)
@examples(120)
def test_each_rule_rejects_the_same_nodes_as_its_plugin(seed: int) -> None:
    case = plain_case(Scene(seed))
    theirs = ours.World(case)
    world, pod = audited(case), facts_of(case["pod"])
    by_node = dict(audit_kinds(world, pod))
    unbound = {name for name, kinds in by_node.items() if "volume-unbound" in kinds}
    volumes = {} if unbound or has_moved_volumes(case) else VOLUMES
    for plugin, kinds in {**RULES, **volumes}.items():
        expected = rejected(theirs, plugin)
        found = {name for name, has in by_node.items() if has & kinds}
        if plugin == "TaintToleration":
            # A cordon and its taint are one finding.
            found |= {name for name in expected if "unschedulable" in by_node[name]}
        if plugin == "VolumeRestrictions" and has_disks(case["pod"]):
            continue
        if plugin == "VolumeZone" and (unbound or _has_ephemeral_volumes(case["pod"])):
            continue
        assert found == expected, (plugin, found ^ expected, seed)


def has_moved_volumes(case: Json) -> bool:
    """True if volumes name an in-tree driver, whose place the audit reads from zone labels only."""
    return any(
        source in each["spec"]
        for each in case["objects"]
        if each["kind"] == "PersistentVolume"
        for source in ("gcePersistentDisk", "awsElasticBlockStore", "azureDisk", "cinder")
    )


def _has_ephemeral_volumes(pod: Json) -> bool:
    """kube-scheduler's VolumeZone does not look at them; the audit does."""
    return any("ephemeral" in volume for volume in pod["spec"].get("volumes") or ())


def has_disks(pod: Json) -> bool:
    """True for volumes in the pod's own spec, which the audit does not judge."""
    inline = ("gcePersistentDisk", "awsElasticBlockStore", "iscsi", "rbd")
    return any(name in volume for volume in pod["spec"].get("volumes") or () for name in inline)


class Play:
    """A scheduler without preemption places pods one after another, in one cluster."""

    def __init__(self, seed: int) -> None:
        scene = Scene(seed)
        case = plain_case(scene)
        assume(not has_moved_volumes(case))
        self._theirs = ours.World(case)
        self.before = [*map(_put, (*case["nodes"], *case["objects"], *case["pods"]))]
        #: Bound pods, in the order of decisions.
        self.placed: list[Json] = []
        waiting = []
        for number in range(10):
            made = scene.pod(easy=number % 2 == 0, dressed=0.6)
            made["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
            made["spec"].pop("nodeName", None)
            choose_namespaces_as_documented(made)
            if _INVALID in str(made) or _has_ephemeral_volumes(made):
                continue
            self.before.append(_put(made))
            waiting.append(made)
        while (placed := self._place_one(waiting)) is not None:
            self.placed.append(placed)

    def _place_one(self, waiting: list[Json]) -> Json | None:
        """Bind the first of the pods that the scheduler finds a node for."""
        for made in waiting:
            pod = msgspec.convert(made, Pod)
            if pod.spec.scheduling_gates or pod.is_terminating:
                continue
            table, profile = self._theirs.cache.table, self._theirs.profile
            decision = decide(table, compile_pod(pod), profile)
            if decision.node:
                waiting.remove(made)
                bound = {**made, "spec": {**made["spec"], "nodeName": decision.node}}
                self._theirs.cache.add_pod(msgspec.convert(bound, Pod))
                return bound
        return None

    def audit(self, bound: list[Json], in_flight_s: float) -> Report:
        """Audit the history in which pods were bound in this order, a day before its end."""
        end: Json = {"kind": "StorageClass", "metadata": {"name": "end"}}
        end["metadata"]["creationTimestamp"] = "2026-01-02T00:00:00Z"
        history = (*self.before, *map(_put, bound), _put(end))
        revisions = [each for each in history if each.kind in _AUDITED]
        # A scheduler's PreBind and controllers bind volumes; there are none here.
        unasked = frozenset({"no-event", "volume-unbound"})
        options = Options(ignore=unasked, in_flight_s=in_flight_s)
        return audit_history(revisions, options=options)


@given(SEEDS)
@examples(40)
def test_the_history_of_a_scheduler_is_clean(seed: int) -> None:
    """Those pods that find no place wait, and fit nowhere in the end."""
    play = Play(seed)
    assert play.audit(play.placed, 0.0).findings == [], seed


@given(SEEDS)
@examples(40)
def test_bindings_may_overtake_each_other(seed: int) -> None:
    """What was decided one after another may take effect in any order within a short time."""
    play = Play(seed)
    Random(seed).shuffle(play.placed)
    assert play.audit(play.placed, 5.0).findings == [], seed


_AUDITED = ("Node", "Pod", *_KINDS)


def _put(thing: Json) -> Revision:
    meta = thing["metadata"]
    raw = msgspec.Raw(msgspec.json.encode(thing))
    return Revision(1, thing["kind"], meta.get("namespace", ""), meta["name"], raw)
