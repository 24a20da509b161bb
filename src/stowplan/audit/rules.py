"""The hard rules that a pod and its node must meet: what a scheduler's filters check.

Each function yields the problems of one pod on one node, given the world without that pod, or with
it: a pod is never in its own way. `moment` says how far back a scheduler may have looked when it
decided. A problem that others caused since then is not the scheduler's fault, and is not yielded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from stowplan.api.objects import Taint
from stowplan.api.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from stowplan.api.storage_objects import PersistentVolume
from stowplan.audit.amounts import PODS, Amounts, added, shown
from stowplan.audit.devices import RESOURCE_CLAIM
from stowplan.audit.facts import NodeFacts, PodFacts
from stowplan.audit.matching import node_matches, untolerated, wants_node
from stowplan.audit.world import World

_CORDON: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
_ZONE_LABELS: Final = {
    "topology.kubernetes.io/zone": "failure-domain.beta.kubernetes.io/zone",
    "topology.kubernetes.io/region": "failure-domain.beta.kubernetes.io/region",
}


#: Kinds without which volumes cannot be judged.
CLAIM: Final = PERSISTENT_VOLUME_CLAIMS.kind
VOLUME: Final = PERSISTENT_VOLUMES.kind


class Problem(NamedTuple):
    kind: str
    message: str
    #: The field of the node that the rule reads, as managedFields name it.
    field: str = ""


@dataclass(frozen=True)
class Moment:
    """What a scheduler may have seen when it decided on a pod."""

    #: Changes by others since then may have come too late for it.
    since: float
    #: Pods that it may have placed already, and that were bound afterwards or not at all.
    in_flight: Sequence[PodFacts] = ()

    def excuses(self, pod: PodFacts, other: PodFacts) -> bool:
        """True if `other` may have come or changed without the scheduler's knowledge."""
        is_foreign = other.is_direct or other.scheduler != pod.scheduler
        return (is_foreign and other.arrived_at >= self.since) or other.changed_at >= self.since


def problems(world: World, pod: PodFacts, node: NodeFacts, moment: Moment | None) -> list[Problem]:
    """What is wrong with a pod on a node, apart from its neighbours in topology domains."""
    versions = list(world.versions(node.name, moment.since)) if moment else [node]
    lasting = [{each.kind for each in of_node_alone(world, pod, old)} for old in versions[1:]]
    found = [
        problem
        for problem in of_node_alone(world, pod, node)
        if all(problem.kind in kinds for kinds in lasting)
    ]
    found += of_room(world, pod, node, versions, moment)
    found += of_ports(world, pod, node, moment)
    found += of_single_use(world, pod, moment)
    found += of_devices(world, pod, moment)
    return found


def of_node_alone(world: World, pod: PodFacts, node: NodeFacts) -> list[Problem]:
    """What no other pod has a part in."""
    return [*of_node(pod, node), *of_volumes(world, pod, node)]


def of_node(pod: PodFacts, node: NodeFacts) -> Iterator[Problem]:
    """Cordon, taints, nodeSelector and node affinity."""
    spec = pod.pod.spec
    taints: Iterable[Taint] = node.taints
    if node.is_unschedulable and untolerated([_CORDON], spec.tolerations):
        yield Problem("unschedulable", "the node is cordoned", "f:unschedulable")
        # A cordon also shows as this taint; one finding is enough.
        taints = [each for each in taints if each != _CORDON]
    taint = untolerated(taints, spec.tolerations)
    if taint:
        value = f"={taint.value}" if taint.value else ""
        text = f"taint {taint.key}{value}:{taint.effect} is not tolerated"
        yield Problem("taint", text, "f:taints")
    if not wants_node(spec, node.labels, node.name):
        text = "the node does not match nodeSelector or required node affinity"
        yield Problem("node-affinity", text, "f:labels")


def of_room(
    world: World,
    pod: PodFacts,
    node: NodeFacts,
    versions: Sequence[NodeFacts],
    moment: Moment | None,
) -> Iterator[Problem]:
    """Resources and the number of pods."""
    here = world.on_node[node.name]
    held = dict(world.held[node.name])
    if pod.key in here:
        added(held, here[pod.key].held, -1)
    count = len(here) - (pod.key in here)
    strict = list(shortages(pod, node.allocatable, held, count))
    if not strict or moment is None:
        yield from strict
        return
    for other in here.values():
        if other.key != pod.key and moment.excuses(pod, other):
            added(held, other.held, -1)
            if other.before is not None and other.before.node and other.arrived_at < moment.since:
                added(held, other.before.held)
            else:
                count -= 1
    most: dict[str, int] = {}
    for version in versions:
        for name, amount in version.allocatable.items():
            most[name] = max(most.get(name, 0), amount)
    yield from shortages(pod, most, held, count)


def shortages(
    pod: PodFacts, allocatable: Amounts, held: Mapping[str, int], count: int
) -> Iterator[Problem]:
    """The resources of which a node with these pods has too little for one more."""
    if count + 1 > allocatable.get(PODS, 0):
        yield Problem("overcommit", f"pods: {count} + 1 of {allocatable.get(PODS, 0)}")
    for name, wanted in pod.requested.items():
        there = allocatable.get(name, 0)
        if name == PODS or wanted <= 0 or held.get(name, 0) + wanted <= there:
            continue
        if name not in allocatable and pod.pod.status.extended_resource_claim_status:
            continue  # served by a resource claim
        sums = f"{shown(name, held.get(name, 0))} + {shown(name, wanted)}"
        yield Problem("overcommit", f"{name}: {sums} of {shown(name, there)}")


def of_ports(
    world: World, pod: PodFacts, node: NodeFacts, moment: Moment | None
) -> Iterator[Problem]:
    for port in pod.ports:
        for other in world.with_port(node.name, port):
            if other.key == pod.key or (moment and moment.excuses(pod, other)):
                continue
            if any(port.conflicts(each) for each in other.ports):
                yield Problem("host-port", f"{port} is also used by {other.key}")
                return


def of_single_use(world: World, pod: PodFacts, moment: Moment | None) -> Iterator[Problem]:
    """ReadWriteOncePod: one pod in the whole cluster."""
    for name in pod.claims:
        claim = world.claims.get((pod.namespace, name))
        if claim is None or "ReadWriteOncePod" not in (claim.spec.access_modes or ()):
            continue
        for other in world.using.get((pod.namespace, name), {}).values():
            if other.key != pod.key and not (moment and moment.excuses(pod, other)):
                text = f"claim {name} is ReadWriteOncePod and used by {other.key}"
                yield Problem("rwop", f"{text} on {other.node}")
                break


def of_devices(world: World, pod: PodFacts, moment: Moment | None) -> Iterator[Problem]:
    """Resource claims that are not allocated, or not reserved for the pod."""
    if RESOURCE_CLAIM not in world.unread:
        for fault in world.devices.faults_of_pod(pod.pod, moment.since if moment else None):
            yield Problem(fault.kind, fault.message)


def of_volumes(world: World, pod: PodFacts, node: NodeFacts) -> Iterator[Problem]:
    """Claims that are unbound, and volumes that cannot be used from the node."""
    if CLAIM in world.unread:
        return
    for name, volume in world.bound_volumes(pod):
        is_unread = volume is None and VOLUME in world.unread
        if not is_bound(world, pod, name) or (volume is None and not is_unread):
            yield Problem("volume-unbound", f"claim {name} is missing or not bound to a volume")
            continue
        if volume is None:
            continue
        affinity = volume.spec.node_affinity
        required = affinity.required if affinity else None
        if required and not node_matches(required, node.labels, node.name):
            text = f"the node does not match the node affinity of volume {volume.metadata.name}"
            yield Problem("volume-affinity", f"{text} (claim {name})", "f:labels")
        wrong = _wrong_zone(volume, node)
        if wrong:
            text = f"volume {volume.metadata.name} (claim {name}) is in {wrong}"
            yield Problem("volume-zone", text, "f:labels")


def is_bound(world: World, pod: PodFacts, claim_name: str) -> bool:
    claim = world.claims.get((pod.namespace, claim_name))
    if claim is None or not claim.spec.volume_name:
        return False
    return _BIND_COMPLETED in (claim.metadata.annotations or {})


def _wrong_zone(volume: PersistentVolume, node: NodeFacts) -> str:
    """The label of a volume that its node contradicts.

    A node without any zone or region label is taken to be in a cluster of one zone. A volume's
    older label is compared with the node's newer one where the node has only that.
    """
    known = {name for pair in _ZONE_LABELS.items() for name in pair}
    if not known & node.labels.keys():
        return ""
    for newer, older in _ZONE_LABELS.items():
        for name in (newer, older):
            wanted = (volume.metadata.labels or {}).get(name)
            if wanted is None:
                continue
            there = node.labels.get(name)
            if there is None and name == older:
                there = node.labels.get(newer)
            values = wanted.split("__")
            if all(values) and there not in values:
                return f"{name}={wanted}"
    return ""


def named(pods: Iterable[PodFacts]) -> str:
    """One pod by name and how many there are besides."""
    many = sorted(each.key for each in pods)
    return many[0] if len(many) == 1 else f"{many[0]} and {len(many) - 1} more"
