"""Kubernetes objects, cut down to the fields that a scheduler reads.

msgspec skips every other field for free while decoding. Go's API server may write `null` for an
empty list or map, so those are `X | None` here and read as `value or ()`. Quantities stay strings:
they are parsed once, where an object is compiled (`cluster.pod_info`, `cluster.node_row`).
Structs are frozen: an object that came from the API is never changed, only replaced.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import msgspec

Labels: TypeAlias = dict[str, str]
Quantities: TypeAlias = dict[str, str | int | float]
#: Integers of the API. Others are malformed, as they are for an API server.
Int32: TypeAlias = Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
Int64: TypeAlias = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class Wire(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True, gc=False):
    """Base of every wire struct: camelCase names, defaults left out when encoded."""


class OwnerReference(Wire, frozen=True):
    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool | None = None


class ObjectMeta(Wire, frozen=True):
    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: Int64 = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: Labels | None = None
    annotations: Labels | None = None
    owner_references: tuple[OwnerReference, ...] | None = None


class ObjectReference(Wire, frozen=True):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    resource_version: str = ""
    field_path: str = ""


class Named(Wire, frozen=True):
    """Anything of which only the name is read."""

    name: str = ""


class Condition(Wire, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    last_probe_time: str | None = None
    observed_generation: Int64 = 0


# Selectors


class LabelSelectorRequirement(Wire, frozen=True):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class LabelSelector(Wire, frozen=True):
    match_labels: Labels | None = None
    match_expressions: tuple[LabelSelectorRequirement, ...] | None = None


class NodeSelectorTerm(Wire, frozen=True):
    match_expressions: tuple[LabelSelectorRequirement, ...] | None = None
    match_fields: tuple[LabelSelectorRequirement, ...] | None = None


class NodeSelector(Wire, frozen=True):
    node_selector_terms: tuple[NodeSelectorTerm, ...] | None = None


# Pods


class ResourceRequirements(Wire, frozen=True):
    requests: Quantities | None = None
    limits: Quantities | None = None


class ContainerPort(Wire, frozen=True):
    container_port: Int32 = 0
    host_port: Int32 = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = ""


class RestartRule(Wire, frozen=True):
    action: str = ""


class Container(Wire, frozen=True):
    name: str = ""
    image: str = ""
    resources: ResourceRequirements | None = None
    ports: tuple[ContainerPort, ...] | None = None
    restart_policy: str | None = None
    restart_policy_rules: tuple[RestartRule, ...] | None = None


class Toleration(Wire, frozen=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None


class PreferredSchedulingTerm(Wire, frozen=True):
    weight: Int32 = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Wire, frozen=True):
    required: NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[PreferredSchedulingTerm, ...] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(Wire, frozen=True):
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] | None = None
    namespace_selector: LabelSelector | None = None
    topology_key: str = ""
    match_label_keys: tuple[str, ...] | None = None
    mismatch_label_keys: tuple[str, ...] | None = None


class WeightedPodAffinityTerm(Wire, frozen=True):
    weight: Int32 = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Wire, frozen=True):
    """Also the shape of podAntiAffinity."""

    required: tuple[PodAffinityTerm, ...] | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[WeightedPodAffinityTerm, ...] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Wire, frozen=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Wire, frozen=True):
    max_skew: Int32 = 1
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] | None = None


class ClaimVolume(Wire, frozen=True):
    claim_name: str = ""
    read_only: bool = False


class GcePersistentDisk(Wire, frozen=True):
    pd_name: str = ""
    read_only: bool = False


class DiskWithId(Wire, frozen=True):
    """The shape of awsElasticBlockStore, cinder and portworxVolume, as far as it is read."""

    volume_id: str = msgspec.field(default="", name="volumeID")


class Iscsi(Wire, frozen=True):
    iqn: str = ""
    read_only: bool = False


class Rbd(Wire, frozen=True):
    monitors: tuple[str, ...] | None = None
    pool: str = ""
    image: str = ""
    read_only: bool = False


class AzureDisk(Wire, frozen=True):
    disk_uri: str = msgspec.field(default="", name="diskURI")
    kind: str | None = None


class AzureFile(Wire, frozen=True):
    secret_name: str = ""
    share_name: str = ""
    secret_namespace: str | None = None


class VsphereVolume(Wire, frozen=True):
    volume_path: str = ""


class InlineCsi(Wire, frozen=True):
    driver: str = ""


class Volume(Wire, frozen=True):
    """A pod's volume, with the sources that scheduling reads."""

    name: str = ""
    persistent_volume_claim: ClaimVolume | None = None
    ephemeral: dict[str, Any] | None = None
    image: dict[str, Any] | None = None
    gce_persistent_disk: GcePersistentDisk | None = None
    aws_elastic_block_store: DiskWithId | None = None
    iscsi: Iscsi | None = None
    rbd: Rbd | None = None
    azure_disk: AzureDisk | None = None
    azure_file: AzureFile | None = None
    cinder: DiskWithId | None = None
    vsphere_volume: VsphereVolume | None = None
    portworx_volume: DiskWithId | None = None
    csi: InlineCsi | None = None


class PodResourceClaim(Wire, frozen=True):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSpec(Wire, frozen=True):
    node_name: str = ""
    scheduler_name: str = ""
    containers: tuple[Container, ...] | None = None
    init_containers: tuple[Container, ...] | None = None
    node_selector: Labels | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] | None = None
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] | None = None
    overhead: Quantities | None = None
    resources: ResourceRequirements | None = None
    priority: Int32 | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    scheduling_gates: tuple[Named, ...] | None = None
    volumes: tuple[Volume, ...] | None = None
    resource_claims: tuple[PodResourceClaim, ...] | None = None
    host_network: bool = False
    host_users: bool | None = None
    termination_grace_period_seconds: Int64 | None = None


class ContainerStatus(Wire, frozen=True):
    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: Quantities | None = None


class PodResourceClaimStatus(Wire, frozen=True):
    """The claim that was made for one of the pod's `resource_claims`."""

    name: str = ""
    resource_claim_name: str | None = None


class PodStatus(Wire, frozen=True):
    phase: str = ""
    conditions: tuple[Condition, ...] | None = None
    nominated_node_name: str = ""
    start_time: str | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None
    resources: ResourceRequirements | None = None
    allocated_resources: Quantities | None = None
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] | None = None
    extended_resource_claim_status: dict[str, Any] | None = None

    @property
    def reported_resources(self) -> tuple[ContainerStatus, ...]:
        """The statuses that say what their container holds, init containers first."""
        statuses = (*(self.init_container_statuses or ()), *(self.container_statuses or ()))
        return tuple([each for each in statuses if each.resources is not None])


class Pod(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def key(self) -> str:
        """`namespace/name`, as logs, events and messages name a pod."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def priority(self) -> int:
        return self.spec.priority or 0

    @property
    def is_terminating(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def is_finished(self) -> bool:
        return self.status.phase in ("Succeeded", "Failed")


# Nodes


class Taint(Wire, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Wire, frozen=True):
    unschedulable: bool = False
    taints: tuple[Taint, ...] | None = None


class ContainerImage(Wire, frozen=True):
    names: tuple[str, ...] | None = None
    size_bytes: Int64 = 0


class NodeStatus(Wire, frozen=True):
    allocatable: Quantities | None = None
    capacity: Quantities | None = None
    conditions: tuple[Condition, ...] | None = None
    images: tuple[ContainerImage, ...] | None = None
    declared_features: tuple[str, ...] | None = None


class Node(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def is_ready(self) -> bool:
        """What the kubelet says of itself; placing pods goes by taints instead."""
        conditions = self.status.conditions or ()
        return any(c.type == "Ready" and c.status == "True" for c in conditions)


class Namespace(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


# What the API server answers, and the lease


class StatusCause(Wire, frozen=True):
    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(Wire, frozen=True):
    name: str = ""
    kind: str = ""
    causes: tuple[StatusCause, ...] | None = None
    retry_after_seconds: Int32 = 0


class Status(Wire, frozen=True):
    """metav1.Status: what the API server answers when there is no object to show."""

    status: str = ""
    message: str = ""
    reason: str = ""
    code: Int32 = 0
    details: StatusDetails | None = None


class LeaseSpec(Wire, frozen=True):
    holder_identity: str | None = None
    lease_duration_seconds: Int32 | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: Int32 | None = None


class Lease(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()
