"""What kube-scheduler's plugins read, for the page docs/parity.md.

Only facts about kube-scheduler and reasons for differences are here. Names, points, weights,
arguments and defaults come from the code (`parity_page.py`), and a plugin that does not exist is
"not yet" in every row, whatever is written here. What must stay true: a difference names the file
whose `DIVERGES:` comment tells it.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

Status = Literal["same", "differs on purpose", "not yet"]

SAME: Final = "same"
DIFFERS: Final = "differs on purpose"
NOT_YET: Final = "not yet"


class Fact(NamedTuple):
    """A field, or several that belong together, and how we treat it."""

    reads: str
    status: Status = SAME
    note: str = ""
    #: The source file with the reason, for a difference.
    told_in: str = ""


def differs(reads: str, note: str, told_in: str) -> Fact:
    return Fact(reads, DIFFERS, note, told_in)


def missing(reads: str, note: str) -> Fact:
    return Fact(reads, NOT_YET, note)


_PV = "PersistentVolume"
_PVC = "PersistentVolumeClaim"

PLUGINS: Final[dict[str, tuple[Fact, ...]]] = {
    "SchedulingGates": (Fact("pod `spec.schedulingGates`"),),
    "PrioritySort": (Fact("pod `spec.priority`"), Fact("time of the last attempt")),
    "NodeUnschedulable": (Fact("node `spec.unschedulable`"), Fact("pod `spec.tolerations`")),
    "NodeName": (Fact("pod `spec.nodeName`"),),
    "TaintToleration": (
        Fact("node `spec.taints`"),
        Fact("pod `spec.tolerations`: key, operator, value, effect"),
        missing("operators `Lt` and `Gt`", "alpha upstream (TaintTolerationComparisonOperators)"),
    ),
    "NodeAffinity": (
        Fact("pod `spec.nodeSelector`"),
        Fact("pod `spec.affinity.nodeAffinity`: required terms, matchExpressions and matchFields"),
        Fact("pod `spec.affinity.nodeAffinity`: preferred terms and weights"),
        Fact("node `metadata.labels`, `metadata.name`"),
    ),
    "NodePorts": (
        Fact("pod `ports`: hostPort, hostIP, protocol; of containers and sidecars"),
        differs("ports of standing pods", "counted, not a set", "cluster/ports.py"),
    ),
    "NodeResourcesFit": (
        Fact("pod requests of containers, init containers, sidecars"),
        Fact("pod `spec.resources.requests` (pod level)"),
        Fact("pod `spec.overhead`"),
        Fact("status of resized containers and pods, `PodResizePending`"),
        Fact("node `status.allocatable`: cpu, memory, ephemeral-storage, pods, scalar resources"),
        differs("amounts beyond an int64", "saturate, do not wrap", "cluster/exact_sums.py"),
        differs("scores of very large nodes", "exact", "framework/integers.py"),
        differs(
            "hint of a node's change",
            "honours ignored resources",
            "plugins/node_resources_fit/plugin.py",
        ),
        Fact("extended resources backed by a DeviceClass: up to DynamicResources"),
        differs(
            "scores by devices",
            "devices that change are matched again",
            "plugins/dra/class_totals.py",
        ),
    ),
    "VolumeRestrictions": (
        Fact("pod volumes: gcePersistentDisk, awsElasticBlockStore, iscsi, rbd"),
        Fact(f"{_PVC} `spec.accessModes`: ReadWriteOncePod"),
    ),
    "NodeVolumeLimits": (
        Fact(f"pod volumes: {_PVC}s, ephemeral and migrated inline volumes"),
        Fact("CSINode `spec.drivers`: allocatable count, migrated plugins"),
        Fact("VolumeAttachment: attacher, node, volume"),
        Fact(f"{_PV}, StorageClass: driver and handle"),
    ),
    "VolumeBinding": (
        Fact(f"{_PVC}: phase, volumeName, class, size, modes, selector, selected node, deletion"),
        Fact(f"{_PV}: capacity, class, modes, claimRef, node affinity, attributes class"),
        Fact("StorageClass: provisioner, binding mode, allowed topologies"),
        Fact("CSIDriver `storageCapacity`, CSIStorageCapacity"),
        Fact("CSINode: migrated plugins"),
        missing("score by storage capacity", "alpha upstream (StorageCapacityScoring)"),
    ),
    "VolumeZone": (
        Fact(f"{_PV} zone and region labels, of both generations, sets of zones"),
        Fact(f"{_PVC}, StorageClass: whether the volume is still to be bound"),
        Fact("node zone and region labels"),
    ),
    "PodTopologySpread": (
        Fact("pod `spec.topologySpreadConstraints`: maxSkew, topologyKey, whenUnsatisfiable"),
        Fact("pod constraints: labelSelector, matchLabelKeys"),
        Fact("pod constraints: minDomains, nodeAffinityPolicy, nodeTaintsPolicy"),
        Fact("Service, ReplicationController, ReplicaSet, StatefulSet: selectors by default"),
        Fact("standing pods: namespace, labels, deletion"),
        Fact("node labels and taints"),
    ),
    "InterPodAffinity": (
        Fact("pod `spec.affinity.podAffinity` and `podAntiAffinity`, required"),
        Fact("pod terms: preferred, with weights"),
        Fact("pod terms: labelSelector, namespaces, namespaceSelector"),
        Fact("the same of standing pods (symmetry)"),
        Fact("Namespace `metadata.labels`"),
        Fact("node labels by topologyKey"),
    ),
    "DynamicResources": (
        Fact("pods without `spec.resourceClaims`: skipped, scored 0"),
        Fact("pod `spec.resourceClaims`, `status.resourceClaimStatuses`"),
        Fact("ResourceClaim, ResourceSlice, DeviceClass (resource.k8s.io/v1)"),
        Fact("requests: exact and all, alternatives, CEL selectors, admin access, tolerations"),
        Fact("constraints, shared counters, consumable capacity, device taints"),
        Fact("binding conditions of devices"),
        Fact("extended resources backed by a DeviceClass, `status.extendedResourceClaimStatus`"),
        Fact(
            "kube-scheduler's own test tables: 65 of 86 cases of the plugin, 13 of 14 of its hints",
            note="20 need a gate off its default, 1 cancels a Filter, 1 is a hint for deletions",
        ),
        differs(
            "classes of one extended resource",
            "the answer does not depend on the order of their changes",
            "cluster/extended_resources.py",
        ),
        differs(
            "a claim for extended resources that was left behind",
            "the pod is tried again when it is gone",
            "plugins/dra/extended_claims.py",
        ),
        differs(
            "a device that two claims hold",
            "taken until both are gone",
            "plugins/dra/allocated.py",
        ),
        differs(
            "a claim that was created again during PreBind",
            "not allocated; the pod is tried again",
            "plugins/dra/claim_writes.py",
        ),
        differs(
            "DeviceTaintRule (resource.k8s.io/v1beta2), with the gate DRADeviceTaintRules",
            "same taints; every change of a rule wakes pods; ignored if the server lacks the kind",
            "scheduler/event_handlers.py",
        ),
    ),
    "DefaultPreemption": (
        Fact("pod `spec.priority`, `spec.preemptionPolicy`"),
        Fact("pod `status.nominatedNodeName`"),
        Fact("PodDisruptionBudget"),
    ),
    "NodeResourcesBalancedAllocation": (
        Fact("pod requests, as NodeResourcesFit"),
        Fact("node `status.allocatable`"),
    ),
    "ImageLocality": (
        Fact("images of containers, init containers and image volumes"),
        Fact("node `status.images`: names and size"),
        differs("number of nodes that have an image", "always current", "cluster/images.py"),
    ),
    "DefaultBinder": (Fact("POST `pods/binding`"),),
    "NodeDeclaredFeatures": (
        Fact("node `status.declaredFeatures`"),
        Fact("pod restart rules, `hostNetwork`, `hostUsers`"),
    ),
}

#: Arguments that are not simply the same, by plugin and name.
ARGUMENTS: Final[dict[str, Fact]] = {
    "VolumeBinding.shape": Fact("", SAME, "refused, as its feature is off"),
}

#: Fields of the configuration that are not simply the same.
CONFIGURATION: Final[dict[str, Fact]] = {
    "percentageOfNodesToScore": differs(
        "", "100 by default; an explicit 0 is adaptive, as upstream", "config/types.py"
    ),
    "clientConnection.qps": differs("", "no limit at the default values", "config/types.py"),
    "clientConnection.burst": differs("", "no limit at the default values", "config/types.py"),
    "clientConnection.acceptContentTypes": Fact("", SAME, "accepted; requests are JSON"),
    "clientConnection.contentType": Fact("", SAME, "accepted; requests are JSON"),
    "leaderElection.resourceName": differs(
        "", "the first profile's name if that is not default-scheduler", "cli/run.py"
    ),
    "parallelism": Fact("", SAME, "accepted; decisions are those of parallelism 1"),
    "enableContentionProfiling": Fact("", NOT_YET, "accepted; there is no profile of blocking"),
    "delayCacheUntilActive": Fact("", NOT_YET, "accepted; the cache is filled before leading"),
    "profiles[].tieBreak": differs("", "ours alone: heap or random", "config/types.py"),
    "profiles[].tieBreakSeed": differs("", "ours alone", "config/types.py"),
    "profiles[].plugins.placementGenerate": differs("", "refused", "config/validation.py"),
    "profiles[].plugins.placementScore": differs("", "refused", "config/validation.py"),
    "extenders[].urlPrefix": differs(
        "", "neither proxies nor redirects", "scheduler/extender_client.py"
    ),
    "extenders[].nodeCacheCapable": differs(
        "", "whole nodes that come back are scored as they are", "scheduler/extender_requests.py"
    ),
}

#: Parts of the scheduler besides plugins and configuration.
SCHEDULER: Final[tuple[Fact, ...]] = (
    Fact("number of nodes to find, where the search starts, zones in turn"),
    differs("order of a node that comes back at once", "moves to the end", "cluster/table.py"),
    Fact("choice among the best: the heap's order"),
    Fact("nominated node first; nominated pods count"),
    Fact("one feasible node is not scored"),
    Fact("texts of events and of the PodScheduled condition"),
    Fact("queueing hints, backoff, requeue by events"),
    differs("sweep of unschedulable pods", "when due, not every 30 s", "queue/queue.py"),
    differs("backoff windows", "of the monotonic clock", "queue/backoff.py"),
    differs("memory of repeated events", "bounded", "api/recorder.py"),
    differs("losing the lease", "at once when another holds it", "api/lease.py"),
    differs("a leader that was frozen", "writes nothing, and ends", "api/lease.py"),
    differs(
        "a binding without an answer", "sent again, its place kept", "scheduler/binding_retries.py"
    ),
    missing("opportunistic batching", "inert upstream in the default profile"),
    missing("pod groups and gangs", "alpha upstream"),
)
