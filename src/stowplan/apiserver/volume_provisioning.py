"""A pretend external provisioner: the volume that a CSI driver would make for a claim.

`VolumeController` chooses the claims. A driver has unlimited capacity. After the delay, no volume
is created if the claim has one already or no longer needs one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stowplan.apiserver.history import Json, Record
from stowplan.apiserver.kinds import (
    CSI_NODES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
)
from stowplan.apiserver.store import Store
from stowplan.apiserver.volume_matching import (
    Key,
    annotated,
    annotations_of,
    class_of,
    is_delayed,
)
from stowplan.logs import get_logger, kv

log = get_logger(__name__)

#: The node that the scheduler wants a volume for.
SELECTED_NODE = "volume.kubernetes.io/selected-node"
_PROVISIONERS = (
    "volume.beta.kubernetes.io/storage-provisioner",
    "volume.kubernetes.io/storage-provisioner",
)
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
_IN_TREE = "kubernetes.io/"
#: Provisioners that were once part of Kubernetes, by the drivers that took over from them.
_DRIVERS = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/azure-file": "file.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
    "kubernetes.io/vsphere-volume": "csi.vsphere.vmware.com",
}


class _CannotProvision(Exception):
    """No volume can be made for the node that was selected."""


class Provisioner:
    """All external provisioners of the cluster. `later` calls a function after some seconds."""

    def __init__(
        self, store: Store, delay_s: float, later: Callable[[float, Callable[[], None]], None]
    ) -> None:
        self._store = store
        self._delay_s = delay_s
        self._later = later
        #: UIDs of the claims that a volume is being made for.
        self._in_the_making: set[str] = set()

    def begin(self, claim: Record) -> None:
        """Annotate the claim with its provisioner, and create the volume after a delay."""
        obj = claim.object
        driver = _driver_of(self._class(obj))
        if driver is None:
            return
        self._write(claim, dict.fromkeys(_PROVISIONERS, driver))
        key, uid = claim.key, obj["metadata"]["uid"]
        if _can_have_one(obj) and uid not in self._in_the_making:
            self._in_the_making.add(uid)
            self._later(self._delay_s, lambda: self._make(key, uid))

    def forget(self) -> None:
        """What was begun will not be called back."""
        self._in_the_making.clear()

    def _make(self, key: Key, uid: str) -> None:
        """If the volume is still wanted."""
        self._in_the_making.discard(uid)
        claim = self._store.get(PERSISTENT_VOLUME_CLAIMS, *key)
        if claim is None or claim.object["metadata"]["uid"] != uid:
            return
        obj = claim.object
        storage_class = self._class(obj)
        driver = _driver_of(storage_class)
        if storage_class is None or driver is None or not _can_have_one(obj):
            return
        selected = annotations_of(obj).get(SELECTED_NODE)
        if selected is None and is_delayed(storage_class):
            return
        try:
            affinity = self._affinity(storage_class, driver, selected)
        except _CannotProvision as problem:
            # The scheduler takes this for a sign to choose again.
            log.info("Made no volume", extra=kv(claim="/".join(key), reason=str(problem)))
            self._write(claim, {SELECTED_NODE: None})
            return
        if self._store.get(PERSISTENT_VOLUMES, "", _volume_name(obj)) is None:
            made = _new_volume(obj, storage_class, driver, affinity)
            self._store.create(PERSISTENT_VOLUMES, made)

    def _affinity(self, storage_class: Json, driver: str, node_name: str | None) -> Json | None:
        if node_name is None:
            return _affinity_anywhere(storage_class)
        node = self._store.get(NODES, "", node_name)
        if node is None:
            raise _CannotProvision(f"node {node_name} does not exist")
        csi_node = self._store.get(CSI_NODES, "", node_name)
        about = None if csi_node is None else csi_node.object
        return _affinity_for(storage_class, driver, node.object, about)

    def _class(self, claim: Json) -> Json | None:
        record = self._store.get(STORAGE_CLASSES, "", class_of(claim))
        return None if record is None else record.object

    def _write(self, claim: Record, marks: Mapping[str, str | None]) -> None:
        self._store.update(PERSISTENT_VOLUME_CLAIMS, annotated(claim.object, marks), claim)


def _driver_of(storage_class: Json | None) -> str | None:
    """Return the driver that provisions volumes of a class, or None."""
    if storage_class is None:
        return None
    provisioner: str = storage_class["provisioner"]
    if provisioner.startswith(_IN_TREE):
        # Includes kubernetes.io/no-provisioner, which has no driver.
        return _DRIVERS.get(provisioner)
    return provisioner


def _can_have_one(claim: Json) -> bool:
    """Whether a driver would make a volume for the claim; they know nothing of selectors."""
    spec = claim["spec"]
    is_leaving = "deletionTimestamp" in claim["metadata"]
    return not (is_leaving or "selector" in spec or spec.get("volumeName"))


def reference_to(claim: Json) -> Json:
    """What a claimRef says when it means one claim and no later one of its name."""
    metadata = claim["metadata"]
    return {
        "kind": PERSISTENT_VOLUME_CLAIMS.kind,
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "apiVersion": PERSISTENT_VOLUME_CLAIMS.api_version,
        "resourceVersion": metadata["resourceVersion"],
    }


def _volume_name(claim: Json) -> str:
    return f"pvc-{claim['metadata']['uid']}"


def _new_volume(claim: Json, storage_class: Json, driver: str, affinity: Json | None) -> Json:
    """The volume as its provisioner creates it: promised to the claim, not yet bound."""
    wanted, name = claim["spec"], _volume_name(claim)
    spec: Json = {
        "capacity": {"storage": wanted["resources"]["requests"]["storage"]},
        "csi": {"driver": driver, "volumeHandle": name},
        "accessModes": wanted["accessModes"],
        "claimRef": reference_to(claim),
        "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy", "Delete"),
        "storageClassName": class_of(claim),
        "volumeMode": wanted.get("volumeMode", "Filesystem"),
    }
    if storage_class.get("mountOptions"):
        spec["mountOptions"] = storage_class["mountOptions"]
    if affinity is not None:
        spec["nodeAffinity"] = affinity
    if wanted.get("volumeAttributesClassName"):
        spec["volumeAttributesClassName"] = wanted["volumeAttributesClassName"]
    return {
        "kind": PERSISTENT_VOLUMES.kind,
        "apiVersion": PERSISTENT_VOLUMES.api_version,
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: driver}},
        "spec": spec,
        "status": {"phase": "Pending"},
    }


def _affinity_anywhere(storage_class: Json) -> Json | None:
    """Where a volume may be that no node was selected for: wherever its class allows."""
    terms = [term for term in _allowed(storage_class) if term]
    return _affinity(terms) if terms else None


def _affinity_for(
    storage_class: Json, driver: str, node: Json, csi_node: Json | None
) -> Json | None:
    """Where a volume is that was made for a node: in that node's part of the topology.

    What a part is, the driver says in the node's CSINode; where it does not, the class's allowed
    topologies do by the labels they ask for. None: the volume is to be reached from everywhere.
    """
    labels = node["metadata"].get("labels") or {}
    terms = _allowed(storage_class)
    around = [term for term in terms if _has(labels, term)]
    if terms and not around:
        name = node["metadata"]["name"]
        raise _CannotProvision(f"node {name} is in none of the class's allowed topologies")
    keys = _topology_keys(driver, csi_node) or (around[0] if around else ())
    place = {key: [labels[key]] for key in sorted(keys) if key in labels}
    return _affinity([place]) if place else None


def _allowed(storage_class: Json) -> list[dict[str, list[str]]]:
    """The allowed values of labels, term by term; an empty term allows nothing."""
    return [
        {rule["key"]: rule["values"] for rule in term.get("matchLabelExpressions") or ()}
        for term in storage_class.get("allowedTopologies") or ()
    ]


def _has(labels: dict[str, str], term: dict[str, list[str]]) -> bool:
    return bool(term) and all(labels.get(key) in values for key, values in term.items())


def _topology_keys(driver: str, csi_node: Json | None) -> list[str]:
    for known in (csi_node or {}).get("spec", {}).get("drivers") or ():
        if known["name"] == driver:
            return known.get("topologyKeys") or []
    return []


def _affinity(places: list[dict[str, list[str]]]) -> Json:
    terms = [
        {
            "matchExpressions": [
                {"key": key, "operator": "In", "values": values} for key, values in place.items()
            ]
        }
        for place in places
    ]
    return {"required": {"nodeSelectorTerms": terms}}
