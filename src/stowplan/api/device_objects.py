"""Devices and the claims for them: ResourceSlice, DeviceClass, ResourceClaim (resource.k8s.io/v1).

The fields that a scheduler reads, by the rules of `api.objects`. Opaque driver configuration is
kept unread, because an allocation copies it into the claim.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stowplan.api.objects import Condition, Int64, NodeSelector, ObjectMeta, Quantities, Wire

Quantity = str | int | float


class DeviceAttribute(Wire, frozen=True):
    """One of four kinds of values."""

    int_value: Int64 | None = msgspec.field(default=None, name="int")
    bool_value: bool | None = msgspec.field(default=None, name="bool")
    string_value: str | None = msgspec.field(default=None, name="string")
    version_value: str | None = msgspec.field(default=None, name="version")


class CapacityRange(Wire, frozen=True):
    min: Quantity | None = None
    max: Quantity | None = None
    step: Quantity | None = None


class CapacityRequestPolicy(Wire, frozen=True):
    default: Quantity | None = None
    valid_values: tuple[Quantity, ...] | None = None
    valid_range: CapacityRange | None = None


class DeviceCapacity(Wire, frozen=True):
    value: Quantity = "0"
    request_policy: CapacityRequestPolicy | None = None


class Counter(Wire, frozen=True):
    value: Quantity = "0"


class CounterSet(Wire, frozen=True):
    name: str = ""
    counters: dict[str, Counter] | None = None


class DeviceCounterConsumption(Wire, frozen=True):
    counter_set: str = ""
    counters: dict[str, Counter] | None = None


class DeviceTaint(Wire, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class Device(Wire, frozen=True):
    name: str = ""
    attributes: dict[str, DeviceAttribute] | None = None
    capacity: dict[str, DeviceCapacity] | None = None
    consumes_counters: tuple[DeviceCounterConsumption, ...] | None = None
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: tuple[DeviceTaint, ...] | None = None
    binds_to_node: bool | None = None
    binding_conditions: tuple[str, ...] | None = None
    binding_failure_conditions: tuple[str, ...] | None = None
    allow_multiple_allocations: bool | None = None


class ResourcePool(Wire, frozen=True):
    name: str = ""
    generation: Int64 = 0
    resource_slice_count: Int64 = 0


class ResourceSliceSpec(Wire, frozen=True):
    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    devices: tuple[Device, ...] | None = None
    per_device_node_selection: bool | None = None
    shared_counters: tuple[CounterSet, ...] | None = None


class ResourceSlice(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceSliceSpec = ResourceSliceSpec()


class CELDeviceSelector(Wire, frozen=True):
    expression: str = ""


class DeviceSelector(Wire, frozen=True):
    cel: CELDeviceSelector | None = None


class DeviceClassConfiguration(Wire, frozen=True):
    opaque: dict[str, Any] | None = None


class DeviceClassSpec(Wire, frozen=True):
    selectors: tuple[DeviceSelector, ...] | None = None
    config: tuple[DeviceClassConfiguration, ...] | None = None
    extended_resource_name: str | None = None


class DeviceClass(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceClassSpec = DeviceClassSpec()


class DeviceToleration(Wire, frozen=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None


class CapacityRequirements(Wire, frozen=True):
    requests: Quantities | None = None


class DeviceRequestDetails(Wire, frozen=True):
    """What one request, or one alternative of it, asks for."""

    name: str = ""
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] | None = None
    allocation_mode: str = ""
    count: Int64 = 0
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] | None = None
    capacity: CapacityRequirements | None = None


class DeviceRequest(Wire, frozen=True):
    name: str = ""
    exactly: DeviceRequestDetails | None = None
    first_available: tuple[DeviceRequestDetails, ...] | None = None


class DeviceConstraint(Wire, frozen=True):
    requests: tuple[str, ...] | None = None
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaimConfiguration(Wire, frozen=True):
    requests: tuple[str, ...] | None = None
    opaque: dict[str, Any] | None = None


class DeviceClaim(Wire, frozen=True):
    requests: tuple[DeviceRequest, ...] | None = None
    constraints: tuple[DeviceConstraint, ...] | None = None
    config: tuple[DeviceClaimConfiguration, ...] | None = None


class ResourceClaimSpec(Wire, frozen=True):
    devices: DeviceClaim = DeviceClaim()


class AllocatedDevice(Wire, frozen=True, omit_defaults=True):
    """A device that a claim got, as the claim's status has it."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] | None = None
    binding_conditions: tuple[str, ...] | None = None
    binding_failure_conditions: tuple[str, ...] | None = None
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: dict[str, Quantity] | None = None


class AllocationConfiguration(Wire, frozen=True, omit_defaults=True):
    source: str = ""
    requests: tuple[str, ...] | None = None
    opaque: dict[str, Any] | None = None


class AllocatedDevices(Wire, frozen=True, omit_defaults=True):
    results: tuple[AllocatedDevice, ...] | None = None
    config: tuple[AllocationConfiguration, ...] | None = None


class AllocationResult(Wire, frozen=True, omit_defaults=True):
    devices: AllocatedDevices = AllocatedDevices()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None


class ClaimConsumer(Wire, frozen=True):
    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class DeviceStatus(Wire, frozen=True):
    """What a driver reports about a device that a claim got."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = msgspec.field(default=None, name="shareID")
    conditions: tuple[Condition, ...] | None = None
    data: dict[str, Any] | None = None
    network_data: dict[str, Any] | None = None


class ResourceClaimStatus(Wire, frozen=True):
    allocation: AllocationResult | None = None
    reserved_for: tuple[ClaimConsumer, ...] | None = None
    devices: tuple[DeviceStatus, ...] | None = None


class ClaimMeta(ObjectMeta, frozen=True):
    finalizers: tuple[str, ...] | None = None


class ResourceClaim(Wire, frozen=True):
    metadata: ClaimMeta = ClaimMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class ResourceClaimTemplateSpec(Wire, frozen=True):
    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(Wire, frozen=True):
    """What claims of pods are made from; no scheduler reads it, recordings do."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


class DeviceTaintSelector(Wire, frozen=True):
    """Devices whose driver, pool and name are these; None matches any."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(Wire, frozen=True):
    device_selector: DeviceTaintSelector | None = None
    taint: DeviceTaint = DeviceTaint()


class DeviceTaintRule(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()


class ContainerExtendedResourceRequest(Wire, frozen=True):
    """Which request of the pod's claim gives a container an extended resource."""

    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""
