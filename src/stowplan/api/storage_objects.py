"""Volumes, claims and what drivers say of themselves: the fields that a scheduler reads.

The same rules as in `api.objects`: frozen, absent and `null` lists alike, quantities as text.
"""

from __future__ import annotations

import msgspec

from stowplan.api.objects import (
    AzureDisk,
    AzureFile,
    DiskWithId,
    GcePersistentDisk,
    Int32,
    LabelSelector,
    NodeSelector,
    ObjectMeta,
    ObjectReference,
    Quantities,
    ResourceRequirements,
    VsphereVolume,
    Wire,
)


class VolumeNodeAffinity(Wire, frozen=True):
    required: NodeSelector | None = None


class CSIVolumeSource(Wire, frozen=True):
    driver: str = ""
    volume_handle: str = ""


class PersistentVolumeSpec(Wire, frozen=True):
    """The in-tree sources are those that have moved to CSI drivers (`cluster.csi_migration`)."""

    capacity: Quantities | None = None
    access_modes: tuple[str, ...] | None = None
    claim_ref: ObjectReference | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    volume_attributes_class_name: str | None = None
    csi: CSIVolumeSource | None = None
    gce_persistent_disk: GcePersistentDisk | None = None
    aws_elastic_block_store: DiskWithId | None = None
    azure_disk: AzureDisk | None = None
    azure_file: AzureFile | None = None
    cinder: DiskWithId | None = None
    vsphere_volume: VsphereVolume | None = None
    portworx_volume: DiskWithId | None = None


class PersistentVolumeStatus(Wire, frozen=True):
    phase: str = ""


class PersistentVolume(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class PersistentVolumeClaimSpec(Wire, frozen=True):
    access_modes: tuple[str, ...] | None = None
    selector: LabelSelector | None = None
    resources: ResourceRequirements = ResourceRequirements()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimStatus(Wire, frozen=True):
    phase: str = ""


class PersistentVolumeClaim(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class TopologySelectorRequirement(Wire, frozen=True):
    key: str = ""
    values: tuple[str, ...] | None = None


class TopologySelectorTerm(Wire, frozen=True):
    match_label_expressions: tuple[TopologySelectorRequirement, ...] | None = None


class StorageClass(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologySelectorTerm, ...] | None = None


class CSINodeAllocatable(Wire, frozen=True):
    count: Int32 | None = None


class CSINodeDriver(Wire, frozen=True):
    name: str = ""
    node_id: str = msgspec.field(default="", name="nodeID")
    topology_keys: tuple[str, ...] | None = None
    allocatable: CSINodeAllocatable | None = None


class CSINodeSpec(Wire, frozen=True):
    drivers: tuple[CSINodeDriver, ...] | None = None


class CSINode(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(Wire, frozen=True):
    storage_capacity: bool | None = None


class CSIDriver(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    node_topology: LabelSelector | None = None
    storage_class_name: str = ""
    capacity: str | int | float | None = None
    maximum_volume_size: str | int | float | None = None


class VolumeAttachmentSource(Wire, frozen=True):
    persistent_volume_name: str | None = None
    inline_volume_spec: PersistentVolumeSpec | None = None


class VolumeAttachmentSpec(Wire, frozen=True):
    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeAttachment(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
