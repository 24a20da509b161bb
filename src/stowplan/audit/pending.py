"""Pods that are pending although some node has a place for them.

Pods of one shape get one answer. A place that a pod of the same or a higher priority is nominated
for does not count as free. Whether pods with resource claims or unbound volumes fit is not judged.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

import msgspec

from stowplan.api.objects import Volume
from stowplan.api.resources import CSI_NODES
from stowplan.api.storage_objects import PersistentVolumeSpec
from stowplan.audit.amounts import CPU
from stowplan.audit.facts import NodeFacts, PodFacts
from stowplan.audit.findings import Finding, Options, shown_time
from stowplan.audit.items import seconds
from stowplan.audit.neighbours import neighbour_problems
from stowplan.audit.rules import CLAIM, VOLUME, is_bound, problems
from stowplan.audit.world import World

#: Nodes to look at in all; beyond it pods are counted as not checked.
_BUDGET: Final = 2_000_000
_Shape: TypeAlias = bytes
_NO_NAMESPACES: Final = "affinity by labels of namespaces that were not read"
_CSI_NODE: Final = CSI_NODES.kind
_encode = msgspec.json.Encoder(order="deterministic").encode


class PendingPods:
    """Looks for places; `notes` says what was not looked at."""

    def __init__(self, world: World, options: Options, progress: Callable[[str], None]) -> None:
        self._world = world
        self._options = options
        self._progress = progress
        self._budget = _BUDGET
        self._answers: dict[_Shape, NodeFacts | None] = {}
        self._skipped: Counter[str] = Counter()
        self._nominated: defaultdict[str, list[PodFacts]] = defaultdict(list)
        free = {name: self._free_cpu(node) for name, node in world.nodes.items()}
        self._nodes = sorted(world.nodes.values(), key=lambda node: -free[node.name])
        self._free = free
        self._limited = world.limited_drivers()
        # Anti-affinity of pods that stand concerns every other pod.
        standing = (pod for pod in world.pods.values() if pod.occupies)
        knows = all(world.knows_namespaces(*pod.anti) for pod in standing)
        self._blind = "" if knows else _NO_NAMESPACES

    def findings(self) -> list[Finding]:
        waiting = [pod for pod in self._world.pods.values() if pod.is_pending]
        for pod in waiting:
            if pod.pod.status.nominated_node_name:
                self._nominated[pod.pod.status.nominated_node_name].append(pod)
        found = []
        for number, pod in enumerate(waiting):
            self._progress(f"pending pod {number + 1} of {len(waiting)}")
            finding = self._look(pod)
            if finding is not None:
                found.append(finding)
        return found

    def notes(self) -> list[str]:
        return [
            f"{count} pending pod{'s' if count > 1 else ''} not checked for a place: {reason}"
            for reason, count in sorted(self._skipped.items())
        ]

    def _look(self, pod: PodFacts) -> Finding | None:
        options, now = self._options, self._world.now
        since = _waiting_since(pod)
        if pod.pod.spec.scheduling_gates or not options.wants_pod(pod.scheduler):
            return None
        if now - since < options.grace_s or (options.since_s and now - since > options.since_s):
            return None
        reason = self._blind or _not_judged(self._world, pod, self._limited)
        if reason:
            self._skipped[reason] += 1
            return None
        node = self._place(pod)
        if node is None or now - self._world.eased_at.get(node.name, 0.0) < options.grace_s:
            return None
        waits = f"pending for {int(now - since)} s" if since else "pending, since when is unknown"
        text = f"{waits}, and {node.name} has a place for it"
        return Finding(
            kind="pending",
            pod=pod.key,
            uid=pod.uid,
            node=node.name,
            scheduler=pod.scheduler,
            message=text,
            time=shown_time(since),
            revision=pod.revision,
        )

    def _place(self, pod: PodFacts) -> NodeFacts | None:
        shape = _shape(pod)
        if shape not in self._answers:
            found = self._first(pod, (each for each in self._nodes))
            if self._budget <= 0:
                self._skipped["too many different pods for the time of an audit"] += 1
                return None
            self._answers[shape] = found
        return self._answers[shape]

    def _first(self, pod: PodFacts, nodes: Iterable[NodeFacts]) -> NodeFacts | None:
        wanted = pod.requested.get(CPU, 0)
        for node in nodes:
            if wanted and self._free[node.name] < wanted:
                return None  # the nodes are in the order of their free CPU
            self._budget -= 1
            if self._budget <= 0:
                return None
            rivals = self._nominated.get(node.name, ())
            if any(
                each.key != pod.key and each.pod.priority >= pod.pod.priority for each in rivals
            ):
                continue
            if not problems(self._world, pod, node, None) and not neighbour_problems(
                self._world, pod, node, None
            ):
                return node
        return None

    def _free_cpu(self, node: NodeFacts) -> int:
        return node.allocatable.get(CPU, 0) - self._world.held[node.name].get(CPU, 0)


def _waiting_since(pod: PodFacts) -> float:
    """When a scheduler could first see the pod, or last reported that it found no place."""
    times = [seconds(pod.pod.metadata.creation_timestamp)]
    times += [
        seconds(each.last_transition_time)
        for each in pod.pod.status.conditions or ()
        if each.type == "PodScheduled"
    ]
    return max(times)


def _not_judged(world: World, pod: PodFacts, limited: set[str]) -> str:
    spec = pod.pod.spec
    if spec.resource_claims:
        return "resource claims"
    if not world.knows_namespaces(*pod.affinity, *pod.anti):
        return _NO_NAMESPACES
    if pod.claims and world.unread & {CLAIM, VOLUME}:
        return "claims or volumes that were not read"
    for name in pod.claims:
        claim = world.claims.get((pod.namespace, name))
        if claim is None or not is_bound(world, pod, name):
            return "claims that are not bound yet"
        if claim.metadata.deletion_timestamp is not None:
            return "claims that are being deleted"
    volumes = [volume for _, volume in world.bound_volumes(pod) if volume is not None]
    if _CSI_NODE in world.unread and any(each.spec.csi is not None for each in volumes):
        return "volumes of CSI drivers: no CSINodes were read"
    if any(each.spec.csi is not None and each.spec.csi.driver in limited for each in volumes):
        return "volumes of drivers that limit their number"
    if any(_is_in_tree(each.spec) for each in volumes) or any(
        _is_in_tree(each) or each.iscsi or each.rbd or each.csi for each in spec.volumes or ()
    ):
        return "disks of in-tree drivers, or in the pod's own spec"
    containers = (*(spec.containers or ()), *(spec.init_containers or ()))
    rules = (rule for each in containers for rule in each.restart_policy_rules or ())
    if (spec.host_network and spec.host_users is False) or any(
        rule.action == "RestartAllContainers" for rule in rules
    ):
        return "features that nodes declare"
    return ""


def _is_in_tree(source: Volume | PersistentVolumeSpec) -> bool:
    """True for disks of drivers that CSI drivers replace; those can limit their number."""
    return bool(
        source.gce_persistent_disk
        or source.aws_elastic_block_store
        or source.azure_disk
        or source.cinder
        or source.vsphere_volume
        or source.portworx_volume
    )


def _shape(pod: PodFacts) -> _Shape:
    """What decides where a pod fits; pods of one template share it."""
    meta = pod.pod.metadata
    return _encode((pod.scheduler, meta.namespace, meta.labels, pod.pod.spec, pod.pod.priority))
