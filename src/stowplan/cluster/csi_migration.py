"""In-tree volume sources as the CSI volumes that have replaced them.

Clusters still hold volumes that name a cloud's disk directly (`awsElasticBlockStore`, ...), while
the CSI driver that took the disk over reports limits and labels its nodes with a topology of its
own. The volume plugins ask here for the driver, the handle and the topology of such a volume, as
kube-scheduler gets them from k8s.io/csi-translation-lib. Nothing here reads the cluster.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import unquote, urlsplit

import msgspec

from stowplan.api.objects import (
    LabelSelectorRequirement,
    NodeSelector,
    NodeSelectorTerm,
    Volume,
)
from stowplan.api.storage_objects import (
    CSINode,
    CSIVolumeSource,
    PersistentVolume,
    PersistentVolumeSpec,
    VolumeNodeAffinity,
)

AWS_EBS = "kubernetes.io/aws-ebs"
AZURE_DISK = "kubernetes.io/azure-disk"
AZURE_FILE = "kubernetes.io/azure-file"
CINDER = "kubernetes.io/cinder"
GCE_PD = "kubernetes.io/gce-pd"
PORTWORX = "kubernetes.io/portworx-volume"
VSPHERE = "kubernetes.io/vsphere-volume"

#: The CSI driver that has replaced an in-tree plugin.
DRIVERS = {
    AWS_EBS: "ebs.csi.aws.com",
    AZURE_DISK: "disk.csi.azure.com",
    AZURE_FILE: "file.csi.azure.com",
    CINDER: "cinder.csi.openstack.org",
    GCE_PD: "pd.csi.storage.gke.io",
    PORTWORX: "pxd.portworx.com",
    VSPHERE: "csi.vsphere.vmware.com",
}
#: The plugins whose volumes kube-scheduler treats as their driver's; the others stay in-tree to it.
SWITCHED_ON = frozenset([AWS_EBS, AZURE_DISK, CINDER, GCE_PD, PORTWORX])

#: The field of a volume or persistent volume that makes it belong to a plugin.
_SOURCES = {
    "aws_elastic_block_store": AWS_EBS,
    "azure_disk": AZURE_DISK,
    "azure_file": AZURE_FILE,
    "cinder": CINDER,
    "gce_persistent_disk": GCE_PD,
    "portworx_volume": PORTWORX,
    "vsphere_volume": VSPHERE,
}
#: Where a driver's nodes say in which zone they are.
_ZONE_KEYS = {
    AWS_EBS: "topology.ebs.csi.aws.com/zone",
    CINDER: "topology.cinder.csi.openstack.org/zone",
    GCE_PD: "topology.gke.io/zone",
    VSPHERE: "topology.csi.vmware.com/zone",
}
_VSPHERE_REGION_KEY = "topology.csi.vmware.com/region"
#: On a CSINode: the in-tree plugins, with commas between, that its kubelet serves by CSI drivers.
MIGRATED_ANNOTATION = "storage.alpha.kubernetes.io/migrated-plugins"

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
#: Between the zones in a label of a volume that is in several.
ZONE_DELIMITER = "__"

_EBS_VOLUME = re.compile(r"vol-[^/]*")
_ACCOUNT_SECRET = re.compile(r"azure-storage-account-(.+)-secret")
_UNSPECIFIED = "UNSPECIFIED"


class CannotTranslateError(ValueError):
    """A volume that its plugin's CSI driver does not know how to serve; says why."""


def plugin_of(source: Volume | PersistentVolumeSpec) -> str | None:
    """The in-tree plugin of a pod's volume or a persistent volume; None: it has no such source."""
    for field, plugin in _SOURCES.items():
        if getattr(source, field) is not None:
            return plugin
    return None


def is_migrated_on(csi_node: CSINode | None, plugin: str) -> bool:
    """Whether a node's kubelet says that it serves the plugin's volumes by the CSI driver."""
    if csi_node is None:
        return False
    plugins = (csi_node.metadata.annotations or {}).get(MIGRATED_ANNOTATION, "")
    return plugin in plugins.split(",")


def inline_handle(volume: Volume, namespace: str) -> str:
    """What the CSI driver calls a disk that a pod's volume names; raises CannotTranslateError."""
    if volume.aws_elastic_block_store is not None:
        return _ebs_handle(volume.aws_elastic_block_store.volume_id)
    if volume.azure_disk is not None:
        return _azure_disk_handle(volume.azure_disk.disk_uri, volume.azure_disk.kind)
    if volume.azure_file is not None:
        share = volume.azure_file
        account = _account_of(share.secret_name)
        return "#".join(["", account, share.share_name, volume.name, namespace or "default"])
    if volume.gce_persistent_disk is not None:
        return _gce_handle(volume.gce_persistent_disk.pd_name)
    if volume.vsphere_volume is not None:
        return volume.vsphere_volume.volume_path
    disk = volume.cinder or volume.portworx_volume
    assert disk is not None, "only volumes of in-tree plugins have a handle"
    return disk.volume_id


def translate(volume: PersistentVolume) -> PersistentVolume:
    """A persistent volume of an in-tree plugin as its CSI driver's; raises CannotTranslateError."""
    spec = volume.spec
    plugin = plugin_of(spec)
    assert plugin is not None, "only volumes of in-tree plugins are translated"
    modes = spec.access_modes
    if plugin == GCE_PD and modes is not None:
        # What the in-tree plugin never enforced, and its driver would refuse.
        reads_only = "ReadOnlyMany" in modes and not {"ReadWriteOnce", "ReadWriteMany"} & {*modes}
        modes = ("ReadOnlyMany",) if reads_only else ("ReadWriteOnce",)
    translated = msgspec.structs.replace(
        spec,
        csi=CSIVolumeSource(driver=DRIVERS[plugin], volume_handle=_handle(volume)),
        access_modes=modes,
        node_affinity=_translated_affinity(volume, plugin),
        **dict.fromkeys(_SOURCES),
    )
    return msgspec.structs.replace(volume, spec=translated)


# Handles


def _handle(volume: PersistentVolume) -> str:
    spec = volume.spec
    if spec.aws_elastic_block_store is not None:
        return _ebs_handle(spec.aws_elastic_block_store.volume_id)
    if spec.azure_disk is not None:
        return _azure_disk_handle(spec.azure_disk.disk_uri, spec.azure_disk.kind)
    if spec.azure_file is not None:
        share = spec.azure_file
        namespace = share.secret_namespace
        if namespace is None and spec.claim_ref is not None:
            namespace = spec.claim_ref.namespace
        if not namespace:
            raise CannotTranslateError(
                "could not find a secret namespace in PersistentVolumeSource or ClaimRef"
            )
        meta = volume.metadata
        group = (meta.annotations or {}).get("kubernetes.io/azure-file-resource-group", "")
        account = _account_of(share.secret_name)
        return "#".join([group, account, share.share_name, meta.name, namespace])
    if spec.gce_persistent_disk is not None:
        labels = volume.metadata.labels or {}
        zones = labels.get(BETA_ZONE) or labels.get(ZONE, "")
        return _gce_handle(spec.gce_persistent_disk.pd_name, zones.split(ZONE_DELIMITER))
    if spec.vsphere_volume is not None:
        return spec.vsphere_volume.volume_path
    disk = spec.cinder or spec.portworx_volume
    assert disk is not None
    return disk.volume_id


def _ebs_handle(volume_id: str) -> str:
    """`vol-...` as it is, or as the path of `aws://<zone>/vol-...`."""
    if not volume_id.startswith("aws://"):
        return volume_id
    problem = "failed to translate Kubernetes ID to EBS Volume ID Invalid"
    try:
        path = unquote(urlsplit(volume_id).path).strip("/")
    except ValueError as why:
        raise CannotTranslateError(f"{problem} disk name ({volume_id}): {why}") from why
    if not _EBS_VOLUME.fullmatch(path):
        raise CannotTranslateError(f"{problem} format for AWS volume ({volume_id})")
    return path


def _azure_disk_handle(uri: str, kind: str | None) -> str:
    if kind is not None and kind.lower() != "managed":
        raise CannotTranslateError(f"kind({kind}) is not supported in csi migration")
    return uri


def _gce_handle(disk: str, zones: Iterable[str] = ("",)) -> str:
    zones = list(zones)
    if len(zones) == 1:
        return f"projects/{_UNSPECIFIED}/zones/{zones[0] or _UNSPECIFIED}/disks/{disk}"
    return f"projects/{_UNSPECIFIED}/regions/{_gce_region(zones)}/disks/{disk}"


def _gce_region(zones: Iterable[str]) -> str:
    """`europe-west1` of `europe-west1-b` and its neighbours."""
    regions: set[str] = set()
    for zone in zones:
        parts = zone.split("-")
        if len(parts) != 3:
            raise CannotTranslateError(
                "failed to get region from zones: zone in unexpected format, "
                f"expected: {{locale}}-{{region}}-{{zone}}, got: {zone}"
            )
        regions.add("-".join(parts[:2]))
    if len(regions) != 1:
        listed = " ".join(f"{region}:{{}}" for region in sorted(regions))
        raise CannotTranslateError(
            "failed to get region from zones: "
            f"multiple or no regions gotten from zones, got: map[{listed}]"
        )
    return regions.pop()


def _account_of(secret: str) -> str:
    """The storage account that a secret's name tells of, if it does."""
    found = _ACCOUNT_SECRET.search(secret)
    return found[1] if found else secret


# Topology


def _translated_affinity(volume: PersistentVolume, plugin: str) -> VolumeNodeAffinity | None:
    """Zones under the driver's own key: those that the affinity names, or else the labels."""
    affinity = volume.spec.node_affinity
    zone_key = _ZONE_KEYS.get(plugin)
    if zone_key is None:
        return affinity
    labels = volume.metadata.labels or {}
    zone_label, region_label = _topology_labels(affinity, labels)
    if plugin == VSPHERE:
        affinity = _moved(affinity, zone_label, zone_key, [labels.get(zone_label, "")])
        region = labels.get(region_label, "")
        return _moved(affinity, region_label, _VSPHERE_REGION_KEY, [region])
    zones = labels.get(zone_label, "").split(ZONE_DELIMITER)
    affinity = _moved(affinity, zone_label, zone_key, zones)
    return _moved(affinity, region_label, REGION) if region_label == BETA_REGION else affinity


def _topology_labels(
    affinity: VolumeNodeAffinity | None, labels: dict[str, str]
) -> tuple[str, str]:
    """Which generation of zone and region labels a volume uses: its affinity tells first."""
    keys = {requirement.key for term in _terms(affinity) for requirement in _expressions(term)}
    for present in (keys, labels):
        for zone, region in ((ZONE, REGION), (BETA_ZONE, BETA_REGION)):
            if zone in present:
                return zone, region
    return ZONE, REGION


def _moved(
    affinity: VolumeNodeAffinity | None, old: str, new: str, otherwise: Iterable[str] = ()
) -> VolumeNodeAffinity | None:
    """The affinity with one key for another; if it has no values there, those `otherwise` given
    become a demand of every term."""
    terms = _terms(affinity)
    if any(r.key == old and r.values for term in terms for r in _expressions(term)):
        return _with_terms(_renamed(term, old, new) for term in terms)
    values = tuple(sorted({value.strip() for value in otherwise} - {""}))
    if not values:
        return affinity
    added = LabelSelectorRequirement(key=new, operator="In", values=values)
    return _with_terms(
        msgspec.structs.replace(term, match_expressions=(*_expressions(term), added))
        for term in terms or (NodeSelectorTerm(),)
    )


def _renamed(term: NodeSelectorTerm, old: str, new: str) -> NodeSelectorTerm:
    expressions = tuple(
        msgspec.structs.replace(requirement, key=new) if requirement.key == old else requirement
        for requirement in _expressions(term)
    )
    return msgspec.structs.replace(term, match_expressions=expressions)


def _with_terms(terms: Iterable[NodeSelectorTerm]) -> VolumeNodeAffinity:
    return VolumeNodeAffinity(required=NodeSelector(node_selector_terms=tuple(terms)))


def _terms(affinity: VolumeNodeAffinity | None) -> tuple[NodeSelectorTerm, ...]:
    required = affinity.required if affinity is not None else None
    return (required.node_selector_terms if required is not None else None) or ()


def _expressions(term: NodeSelectorTerm) -> tuple[LabelSelectorRequirement, ...]:
    return term.match_expressions or ()
