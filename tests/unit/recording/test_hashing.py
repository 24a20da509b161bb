"""Hashed objects: every string of every recorded kind is hashed unless this file lists it."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec
import msgspec.inspect as shapes
import pytest

from stowplan.api.objects import Node, OwnerReference, Pod
from stowplan.api.resources import PERSISTENT_VOLUMES, PODS
from stowplan.api.storage_objects import CSIDriver, PersistentVolume, PersistentVolumeClaim
from stowplan.api.workload_objects import ReplicationController, Service
from stowplan.recording.entries import KINDS
from stowplan.recording.hashing import Names
from stowplan.recording.scrub import KEPT_ANNOTATIONS, Hashed

PRICE: Final = "stowplan.io/price-per-hour"
#: Strings that stay, as `docs/record.md` says; `{}` marks the keys of a map.
STAY: Final = frozenset(
    [
        # Words that the API server checks
        *("AzureDisk.kind", "Container.restart_policy", "ContainerPort.protocol"),
        *("RestartRule.action", "PodSpec.preemption_policy", "PodStatus.phase"),
        *("Taint.effect", "Toleration.effect", "Toleration.operator", "DeviceTaint.effect"),
        *(
            "DeviceToleration.effect",
            "DeviceToleration.operator",
            "LabelSelectorRequirement.operator",
        ),
        "TopologySpreadConstraint.node_affinity_policy",
        "TopologySpreadConstraint.node_taints_policy",
        "TopologySpreadConstraint.when_unsatisfiable",
        *("PersistentVolumeClaimSpec.access_modes", "PersistentVolumeClaimSpec.volume_mode"),
        *("PersistentVolumeClaimStatus.phase", "PersistentVolumeStatus.phase"),
        *("PersistentVolumeSpec.access_modes", "PersistentVolumeSpec.volume_mode"),
        *("StorageClass.volume_binding_mode", "DeviceRequestDetails.allocation_mode"),
        "NodeStatus.declared_features",
        # Times, UIDs and versions
        *("ObjectMeta.creation_timestamp", "ObjectMeta.deletion_timestamp"),
        *("ObjectMeta.resource_version", "ObjectMeta.uid", "OwnerReference.uid"),
        *("ObjectReference.resource_version", "ObjectReference.uid", "ClaimConsumer.uid"),
        *("Condition.last_transition_time", "PodStatus.start_time", "DeviceTaint.time_added"),
        *("AllocationResult.allocation_timestamp", "PodDisruptionBudgetStatus.disrupted_pods"),
        *("AllocatedDevice.share_id", "DeviceStatus.share_id"),
        # Keys of labels and taints
        *("ObjectMeta.labels{}", "LabelSelector.match_labels{}", "PodSpec.node_selector{}"),
        *(
            "SelectingSpec.selector{}",
            "LabelSelectorRequirement.key",
            "CSINodeDriver.topology_keys",
        ),
        *("PodAffinityTerm.match_label_keys", "PodAffinityTerm.mismatch_label_keys"),
        *("PodAffinityTerm.topology_key", "TopologySpreadConstraint.match_label_keys"),
        *("TopologySpreadConstraint.topology_key", "TopologySelectorRequirement.key"),
        *("Taint.key", "Toleration.key", "DeviceTaint.key", "DeviceToleration.key"),
        # Resources and amounts
        *("ResourceRequirements.limits", "ResourceRequirements.limits{}"),
        *("ResourceRequirements.requests", "ResourceRequirements.requests{}"),
        *("ContainerStatus.allocated_resources", "ContainerStatus.allocated_resources{}"),
        *("PodStatus.allocated_resources", "PodStatus.allocated_resources{}"),
        *("PodSpec.overhead", "PodSpec.overhead{}"),
        *("NodeStatus.allocatable", "NodeStatus.allocatable{}"),
        *("NodeStatus.capacity", "NodeStatus.capacity{}"),
        *("PersistentVolumeSpec.capacity", "PersistentVolumeSpec.capacity{}"),
        *("CSIStorageCapacity.capacity", "CSIStorageCapacity.maximum_volume_size"),
        # Attributes, capacities and counters of devices, and expressions that select them
        *("Device.attributes{}", "DeviceAttribute.string_value", "DeviceAttribute.version_value"),
        *("Device.capacity{}", "DeviceCapacity.value", "CapacityRequestPolicy.default"),
        *("CapacityRequestPolicy.valid_values", "CapacityRange.min", "CapacityRange.max"),
        *("CapacityRange.step", "CapacityRequirements.requests", "CapacityRequirements.requests{}"),
        *("AllocatedDevice.consumed_capacity", "AllocatedDevice.consumed_capacity{}"),
        *("Counter.value", "CounterSet.counters{}", "DeviceCounterConsumption.counters{}"),
        *("CELDeviceSelector.expression", "DeviceConstraint.match_attribute"),
        "DeviceConstraint.distinct_attribute",
        # Schedulers, drivers and device classes
        *("PodSpec.scheduler_name", "StorageClass.provisioner", "VolumeAttachmentSpec.attacher"),
        *("InlineCsi.driver", "CSIVolumeSource.driver", "CSINodeDriver.name"),
        *("ResourceSliceSpec.driver", "AllocatedDevice.driver", "DeviceStatus.driver"),
        *("DeviceTaintSelector.driver", "DeviceRequestDetails.device_class_name"),
        "DeviceClassSpec.extended_resource_name",
        "ObjectMeta.name",  # of CSI drivers and device classes
    ]
)


class Filled:
    """An object in which every string is a name of its own, and what each name fills."""

    def __init__(self, prefix: str = "name") -> None:
        self.prefix = prefix
        self.places: dict[str, str] = {}

    def name(self, place: str) -> str:
        name = f"{self.prefix}{len(self.places):06}"
        self.places[name] = place
        return name

    def value(self, shape: shapes.Type, place: str) -> Any:
        match shape:
            case shapes.UnionType():
                return self.value(_preferred(shape.types), place)
            case shapes.VarTupleType():
                return [self.value(shape.item_type, place)]
            case shapes.DictType():
                keys = (self.name(f"{place}{{}}"), *FIELDS, *KEPT_ANNOTATIONS)
                return {key: self.value(shape.value_type, place) for key in keys}
            case shapes.StructType():
                return {
                    field.encode_name: self.value(
                        field.type, f"{_owner(shape, field)}.{field.name}"
                    )
                    for field in shape.fields
                }
            case shapes.StrType() | shapes.AnyType():
                return self.name(place)
            case shapes.BoolType():
                return True
            case shapes.IntType() | shapes.FloatType():
                return 1
        raise AssertionError(f"{place}: {shape}")

    def found_in(self, text: bytes) -> set[str]:
        names = re.findall(rf"\b{self.prefix}[0-9]{{6}}\b", text.decode())
        return {self.places[name] for name in names}


def _preferred(kinds: tuple[shapes.Type, ...]) -> shapes.Type:
    """A union's string if it has one, and anything rather than null."""
    for each in kinds:
        if isinstance(each, shapes.StrType):
            return each
    return next(each for each in kinds if not isinstance(each, shapes.NoneType))


def _owner(shape: shapes.StructType, field: shapes.Field) -> str:
    bases = (each for each in shape.cls.__mro__ if field.name in each.__annotations__)
    return next(bases).__name__


def _fields() -> frozenset[str]:
    """The names of all fields of all recorded kinds, as JSON has them."""
    found: set[str] = set()

    def walk(shape: shapes.Type) -> None:
        for name in ("types", "item_type", "value_type"):
            below = getattr(shape, name, ())
            for each in below if isinstance(below, tuple) else (below,):
                walk(each)
        if isinstance(shape, shapes.StructType):
            for field in shape.fields:
                found.add(field.encode_name)
                walk(field.type)

    for kind in KINDS:
        walk(shapes.type_info(kind.type))
    return frozenset(found)


FIELDS: Final = sorted(_fields())


def test_only_the_listed_strings_stay() -> None:
    assert {"type", "kind", "driver", "phase", "resource", "hostIP", "request"} <= {*FIELDS}
    stayed: set[str] = set()
    for kind in KINDS:
        filled = Filled()
        obj = msgspec.convert(filled.value(shapes.type_info(kind.type), kind.kind), kind.type)
        stayed |= filled.found_in(Hashed(b"key")(obj))
    assert stayed == STAY


def test_numbers_stay_only_where_nodes_are_matched_or_simulations_read_them() -> None:
    for kind in KINDS:
        filled = Filled("777")
        obj = msgspec.convert(filled.value(shapes.type_info(kind.type), kind.kind), kind.type)
        stayed = filled.found_in(Hashed(b"key")(obj)) - STAY
        wanted = {"ObjectMeta.annotations"}  # the price of a node and the run time of a pod
        match kind.kind:
            case "Node":
                wanted |= {"ObjectMeta.labels"}
            case "Pod":
                wanted |= {"PodSpec.node_selector", "LabelSelectorRequirement.values"}
            case "PersistentVolume" | "VolumeAttachment" | "ResourceSlice" | "ResourceClaim":
                wanted |= {"LabelSelectorRequirement.values"}
            case "StorageClass":
                wanted |= {"TopologySelectorRequirement.values"}
            case "CSIStorageCapacity":
                wanted |= {"LabelSelector.match_labels", "LabelSelectorRequirement.values"}
        assert stayed == wanted, kind.kind


def test_deleted_objects_have_hashed_names() -> None:
    for kind in KINDS:
        filled = Filled()
        obj = msgspec.convert(filled.value(shapes.type_info(kind.type), kind.kind), kind.type)
        found = filled.found_in(msgspec.json.encode(Hashed(b"key").identity(obj)))
        meta = {"ObjectMeta.uid", "ObjectMeta.resource_version"}
        named = {"ObjectMeta.name"} if kind.kind in ("CSIDriver", "DeviceClass") else set()
        assert found == meta | named, kind.kind


def test_names_that_are_also_those_of_fields_are_hashed() -> None:
    names = Names(b"key")
    assert [field for field in FIELDS if names.text(field) == field] == ["default"]


@pytest.mark.parametrize("kind", [Service, ReplicationController])
def test_selectors_match_what_they_matched(kind: Any) -> None:
    """A label can have the name of any field."""
    labels = dict.fromkeys(FIELDS, "payroll/a")
    hashed = Names(b"key").hashed
    selecting = hashed(msgspec.convert({"spec": {"selector": labels}}, kind))
    pod = hashed(msgspec.convert({"metadata": {"labels": labels}}, Pod))
    assert selecting.spec.selector == pod.metadata.labels
    assert set(selecting.spec.selector.values()) == {Names(b"key").text("payroll/a")}


@pytest.mark.parametrize(
    ("key", "value", "stays"),
    [
        *(("rank", text, True) for text in ("8", "-8", "+8", "007", "true", "", "9" * 18)),
        *(("rank", text, False) for text in ("1.5", "1e3", "--8", "v1", "٣", "9" * 19)),
        ("kubernetes.io/hostname", "4711", False),
        ("topology.kubernetes.io/zone", "3", True),
        *((PRICE, text, True) for text in ("2", "0.192", "1e-2")),
        (PRICE, "cheap", False),
    ],
)
def test_numbers_in_labels_of_nodes(key: str, value: str, stays: bool) -> None:
    """As `Gt` and `Lt` read them, and in prices as Python does."""
    names = Names(b"key")
    wanted = value if stays else names.text(value)
    node = names.hashed(msgspec.convert({"metadata": {"labels": {key: value}}}, Node))
    assert node.metadata.labels == {key: wanted}
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    spec = {"nodeSelector": {key: value}, "affinity": {"nodeAffinity": required}}
    pod = names.hashed(msgspec.convert({"spec": spec}, Pod))
    assert pod.spec.node_selector == {key: wanted}
    assert f'"values":["{wanted}"]' in msgspec.json.encode(pod).decode()


def test_numbers_elsewhere_are_hashed() -> None:
    """All numbers here have different digits."""
    selector = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["7001"]}]}
    by_name = {"key": "metadata.name", "operator": "In", "values": ["7002"]}
    term = {"matchFields": [by_name]}
    affinity = {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"namespaces": ["7003"], "labelSelector": selector, "namespaceSelector": selector}
            ]
        },
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}
        },
    }
    meta = {"name": "7004", "namespace": "7005", "labels": {"phone": "7006", PRICE: "7007"}}
    spec = {
        "affinity": affinity,
        "containers": [{"name": "7008"}],
        "tolerations": [{"key": "k", "value": "7009"}],
        "topologySpreadConstraints": [{"labelSelector": selector}],
    }
    hashed = Names(b"key").hashed
    pod = hashed(msgspec.convert({"metadata": meta, "spec": spec}, Pod))
    taints = [{"key": "k", "value": "7009"}]
    given = {"metadata": {"name": "7002"}, "spec": {"taints": taints}}
    node = hashed(msgspec.convert(given, Node))
    assert not re.findall(r"\b700\d\b", msgspec.json.encode([pod, node]).decode())
    assert (node.spec.taints or ())[0].value == (pod.spec.tolerations or ())[0].value


def test_only_words_of_kubernetes_stay_in_owners_and_conditions() -> None:
    names = Names(b"key")
    known = OwnerReference(kind="ReplicaSet", api_version="apps/v1", name="web", uid="u")
    other = OwnerReference(kind="PayrollRun", api_version="payroll.acme.example/v1")
    assert names.hashed(known) == msgspec.structs.replace(known, name=names.text("web"))
    hashed = names.hashed(other)
    assert hashed.kind == names.text("PayrollRun")
    assert hashed.api_version == names.text("payroll.acme.example/v1")
    conditions = [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"},
        {"type": "acme.example/Approved", "status": "True", "reason": "ApprovedByJaneDoe"},
    ]
    pod = names.hashed(msgspec.convert({"status": {"conditions": conditions}}, Pod))
    first, second = pod.status.conditions or ()
    assert (first.type, first.status, first.reason) == ("PodScheduled", "False", "Unschedulable")
    assert second.status == "True"
    assert (second.type, second.reason) == (
        names.text("acme.example/Approved"),
        names.text("ApprovedByJaneDoe"),
    )


@pytest.mark.parametrize(
    ("asked", "held", "is_same"),
    [
        ("registry.example:5000/web", "registry.example:5000/web:latest", True),
        ("registry.example/web:1", "registry.example/web:1", True),
        ("registry.example/web@sha256:ab", "registry.example/web@sha256:ab", True),
        ("registry.example/web", "registry.example/web:1", False),
    ],
)
def test_images_have_a_tag(asked: str, held: str, is_same: bool) -> None:
    """The plugin ImageLocality appends `:latest` to an image of a pod that has no tag."""
    hashed = Names(b"key").hashed
    spec = {
        "containers": [{"name": "c", "image": asked}],
        "volumes": [{"name": "v", "image": {"reference": asked}}],
    }
    pod = hashed(msgspec.convert({"spec": spec}, Pod))
    node = hashed(msgspec.convert({"status": {"images": [{"names": [held]}]}}, Node))
    (image,) = (node.status.images or ())[0].names or ()
    container, volume = (pod.spec.containers or ())[0], (pod.spec.volumes or ())[0]
    assert re.fullmatch("h[0-9a-f]{16}:hashed", container.image)
    assert (container.image == image) is is_same
    assert volume.image == {"reference": container.image}


@pytest.mark.parametrize(
    "key", ["topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"]
)
def test_zones_of_a_volume_are_hashed_one_by_one(key: str) -> None:
    names = Names(b"key")
    both = f"{names.text('us-a')}__{names.text('us-b')}"
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": ["us-a__us-b"]}]}]
    volume = names.hashed(
        msgspec.convert(
            {
                "metadata": {"labels": {key: "us-a__us-b", "team": "us-a__us-b"}},
                "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}},
            },
            PersistentVolume,
        )
    )
    assert volume.metadata.labels == {key: both, "team": names.text("us-a__us-b")}
    affinity = volume.spec.node_affinity
    assert affinity is not None
    assert affinity.required is not None
    (term,) = affinity.required.node_selector_terms or ()
    assert (term.match_expressions or ())[0].values == (both,)


def test_pods_name_the_claims_of_their_ephemeral_volumes() -> None:
    """Plugins compose such a name from two others, which they cannot do with hashes."""
    names = Names(b"key")
    template = {"spec": {"accessModes": ["ReadWriteOnce"]}}
    volumes = [
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}},
        {"name": "keys"},
    ]
    pod = names.hashed(
        msgspec.convert({"metadata": {"name": "p"}, "spec": {"volumes": volumes}}, Pod)
    )
    claim = names.hashed(
        msgspec.convert({"metadata": {"name": "p-scratch"}}, PersistentVolumeClaim)
    )
    reference = {"spec": {"claimRef": {"name": "p-scratch"}}}
    volume = names.hashed(msgspec.convert(reference, PersistentVolume))
    scratch, keys = pod.spec.volumes or ()
    assert scratch.persistent_volume_claim is not None
    assert volume.spec.claim_ref is not None
    assert scratch.persistent_volume_claim.claim_name == claim.metadata.name
    assert volume.spec.claim_ref.name == claim.metadata.name
    assert scratch.ephemeral is None
    assert keys == msgspec.structs.replace(keys, name=names.text("keys"))


def test_alternatives_of_requests_are_hashed_as_the_names_in_them() -> None:
    names = Names(b"key")
    both = f"{names.text('gpu')}/{names.text('large')}"
    assert names.path("gpu/large") == both
    given = {"containerName": "c", "resourceName": "example.com/gpu", "requestName": "gpu/large"}
    claim = {"resourceClaimName": "made", "requestMappings": [given]}
    status = {"extendedResourceClaimStatus": claim}
    pod = names.hashed(msgspec.convert({"status": status}, Pod))
    hashed = {**given, "containerName": names.text("c"), "requestName": both}
    assert pod.status.extended_resource_claim_status == {
        "resourceClaimName": names.text("made"),
        "requestMappings": (hashed,),
    }


def test_what_is_absent_stays_absent() -> None:
    for kind in (PODS, PERSISTENT_VOLUMES):
        assert Names(b"key").hashed(kind.type()) == kind.type()
    assert Names(b"key").hashed(CSIDriver()) == CSIDriver()
