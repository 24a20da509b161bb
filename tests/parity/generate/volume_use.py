"""How pods use volumes: claims, ephemeral volumes and disks that they name, and what limits it.

`volume_use` gives a pod volumes. `volume_use_objects` brings what VolumeRestrictions, VolumeZone
and NodeVolumeLimits look up: CSINodes with limits, VolumeAttachments, claims that are bound to
volumes in zones or serve one pod only. Claims, volumes and classes in general are in `volumes`.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.parity.generate.dice import (
    BETA_REGION,
    BETA_ZONE,
    NAMESPACES,
    REGION,
    ZONE,
    Dice,
    Json,
    copied,
)

#: Claims, classes and volumes that `volumes` brings.
GENERAL_CLAIMS = [f"data{number}" for number in range(6)]
GENERAL_VOLUMES = [f"pv{number}" for number in range(10)]
#: Those of this module, in every namespace.
ZONED_CLAIMS = [f"zoned{number}" for number in range(4)]
LONE_CLAIMS = ["lone0", "lone1"]
DISKS = [f"disk{number}" for number in range(6)]
#: The namespace in which pods have ephemeral volumes, and the pods whose claims may exist.
EPHEMERAL_NAMESPACE = "default"
EPHEMERAL_PODS = [f"p{number}" for number in range(1, 13)]

DRIVERS = [
    "disks.example.com",
    "ebs.csi.aws.com",
    "pd.csi.storage.gke.io",
    "disk.csi.azure.com",
    "file.csi.azure.com",
    "cinder.csi.openstack.org",
    "csi.vsphere.vmware.com",
    "pxd.portworx.com",
]
PLUGINS = ["kubernetes.io/aws-ebs", "kubernetes.io/gce-pd", "kubernetes.io/cinder"]
_ZONES = ["z1", "z2", "z3", "z1__z2", "z1____z2", "z3__z3", "eu-a-1__eu-a-2", "eu-a-1__us-b-1"]
_REGIONS = ["r1", "r2", "r1__r2"]

#: What many pods want at once, so that they meet.
_POPULAR: list[Json] = [
    {"persistentVolumeClaim": {"claimName": LONE_CLAIMS[0]}},
    {"persistentVolumeClaim": {"claimName": LONE_CLAIMS[0]}},
    {"gcePersistentDisk": {"pdName": "a"}},
    {"awsElasticBlockStore": {"volumeID": "vol-1"}},
]


def volume_use(dice: Dice, pod: Json) -> None:
    """Give a pod one to three volumes, most of which matter to its place."""
    volumes = pod["spec"].setdefault("volumes", [])
    for number in range(dice.choice([1, 1, 1, 2, 3])):
        volumes.append({"name": f"u{number}", **_source(dice, pod)})


def volume_use_objects(dice: Dice, nodes: list[str]) -> list[Json]:
    """What limits the use of volumes on these nodes."""
    objects = [_csi_node(dice, name) for name in nodes if dice.often(0.8)]
    objects += [_attachment(dice, number, nodes) for number in range(dice.randint(0, 6))]
    objects += [_disk(dice, name) for name in DISKS if dice.often(0.95)]
    for namespace in NAMESPACES:
        for name in (*ZONED_CLAIMS, *LONE_CLAIMS):
            if dice.often(0.95):
                objects.append(_claim(dice, namespace, name))
    objects += [_ephemeral_claim(dice, name) for name in EPHEMERAL_PODS if dice.often(0.8)]
    return objects


# Volumes of pods


def _source(dice: Dice, pod: Json) -> Json:
    if dice.often(0.35):
        return copied(dice.choice(_POPULAR))
    roll = dice.random()
    if roll < 0.45:
        claim = dice.choice([*GENERAL_CLAIMS, *ZONED_CLAIMS, *ZONED_CLAIMS, *LONE_CLAIMS])
        source: Json = {"claimName": claim}
        if dice.often(0.2):
            source["readOnly"] = True
        return {"persistentVolumeClaim": source}
    if roll < 0.53 and pod["metadata"]["namespace"] == EPHEMERAL_NAMESPACE:
        return {"ephemeral": dice.choice([{"volumeClaimTemplate": {"spec": {}}}, {}])}
    if roll < 0.6:
        return dice.choice(
            [
                {"emptyDir": {}},
                {"configMap": {"name": "settings"}},
                {"csi": {"driver": DRIVERS[0]}},
                {"secret": {"secretName": "s"}},
            ]
        )
    return dice.choice(_INLINE)(dice)


def _gce(dice: Dice) -> Json:
    return {"gcePersistentDisk": {"pdName": dice.choice("aab"), **_read_only(dice)}}


def _aws(dice: Dice) -> Json:
    ids = ["vol-1", "vol-1", "vol-2", "aws://z1/vol-1", "aws:///vol-2", "2"]
    volume = "aws://z1/2" if dice.often(0.05) else dice.choice(ids)
    return {"awsElasticBlockStore": {"volumeID": volume, **_read_only(dice)}}


def _iscsi(dice: Dice) -> Json:
    source = {"targetPortal": dice.choice("xy"), "iqn": dice.choice("aab"), "lun": 0}
    return {"iscsi": {**source, "iscsiInterface": "default", **_read_only(dice)}}


def _rbd(dice: Dice) -> Json:
    source = {
        "monitors": dice.choice([["a"], ["b"], ["a", "b"], ["b", "c", "b"]]),
        "image": dice.choice(["web", "web", "db"]),
        "pool": dice.choice(["rbd", "rbd", "fast"]),
    }
    return {"rbd": {**source, "user": "admin", "keyring": "/etc/ceph/keyring", **_read_only(dice)}}


def _azure_disk(dice: Dice) -> Json:
    kind = dice.choice(["Managed", "managed"]) if dice.often(0.95) else "Shared"
    uri = dice.choice(["/disks/a", "/disks/b"])
    return {"azureDisk": {"diskName": "d", "diskURI": uri, "kind": kind, "readOnly": False}}


def _azure_file(dice: Dice) -> Json:
    secret = dice.choice(["azure-storage-account-x-secret", "other"])
    return {"azureFile": {"secretName": secret, "shareName": "share"}}


def _cinder(dice: Dice) -> Json:
    return {"cinder": {"volumeID": dice.choice("ab")}}


def _vsphere(dice: Dice) -> Json:
    return {"vsphereVolume": {"volumePath": dice.choice(["[a] x", "[b] y"])}}


def _portworx(dice: Dice) -> Json:
    return {"portworxVolume": {"volumeID": dice.choice("ab")}}


_INLINE: list[Callable[[Dice], Json]] = [
    *[_gce, _aws, _iscsi, _rbd] * 4,
    *[_azure_disk, _azure_file, _cinder, _vsphere, _portworx],
]


def _read_only(dice: Dice) -> Json:
    return {"readOnly": True} if dice.often(0.6) else {}


# What is looked up


def _csi_node(dice: Dice, name: str) -> Json:
    metadata: Json = {"name": name, "uid": f"uid-csi-{name}"}
    if dice.often(0.5):
        plugins = dice.sample(PLUGINS, dice.randint(0, len(PLUGINS)))
        metadata["annotations"] = {
            "storage.alpha.kubernetes.io/migrated-plugins": ",".join(plugins)
        }
    known = DRIVERS[:2] if dice.often(0.5) else dice.sample(DRIVERS, dice.randint(0, len(DRIVERS)))
    drivers: list[Json] | None = [_driver(dice, driver, name) for driver in known]
    if not known and dice.often(0.5):
        drivers = None
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": metadata,
        "spec": {"drivers": drivers},
    }


def _driver(dice: Dice, driver: str, node: str) -> Json:
    made: Json = {"name": driver, "nodeID": node, "topologyKeys": dice.choice([None, [ZONE]])}
    if dice.often(0.85):
        made["allocatable"] = {"count": dice.choice([0, 1, 1, 2, 2, 3, 5])}
    elif dice.often(0.5):
        made["allocatable"] = {}
    return made


def _attachment(dice: Dice, number: int, nodes: list[str]) -> Json:
    source: Json = {
        "persistentVolumeName": dice.choice([*DISKS, *DISKS, *GENERAL_VOLUMES, "nowhere"])
    }
    if dice.often(0.05):
        csi = {"driver": DRIVERS[0], "volumeHandle": "inline"}
        source = {"inlineVolumeSpec": {"csi": csi, "accessModes": ["ReadWriteOnce"]}}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": {"name": f"va{number}", "uid": f"uid-va{number}"},
        "spec": {
            "attacher": dice.choice([*DRIVERS[:2] * 3, *DRIVERS[2:4]]),
            "nodeName": dice.choice(nodes),
            "source": source,
        },
        "status": {"attached": dice.often(0.8)},
    }


def _disk(dice: Dice, name: str) -> Json:
    """A volume that a zoned or lone claim is bound to; some are known to two names."""
    labels: Json = {}
    for key in (ZONE, BETA_ZONE):
        if dice.often(0.35):
            labels[key] = dice.choice(_ZONES)
    for key in (REGION, BETA_REGION):
        if dice.often(0.25):
            labels[key] = dice.choice(_REGIONS)
    handle = dice.choice([name, name, "shared"])
    source = dice.choice(
        [
            *[{"csi": {"driver": DRIVERS[0], "volumeHandle": handle}}] * 4,
            *[{"csi": {"driver": DRIVERS[1], "volumeHandle": dice.choice(["vol-1", handle])}}] * 2,
            {"awsElasticBlockStore": {"volumeID": dice.choice(["vol-1", "aws://z1/vol-2"])}},
            {"gcePersistentDisk": {"pdName": dice.choice("ab")}},
            {"azureDisk": {"diskName": "d", "diskURI": "/disks/a", "kind": "Managed"}},
            {"azureDisk": {"diskName": "d", "diskURI": "/disks/a", "kind": "Shared"}},
            {"azureFile": {"secretName": "other", "shareName": "share"}},
            {"cinder": {"volumeID": "a"}},
            {"vsphereVolume": {"volumePath": "[a] x"}},
            {"portworxVolume": {"volumeID": "a"}},
            {"nfs": {"server": "files.example.com", "path": "/"}},
        ]
    )
    number = DISKS.index(name)
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels},
        "spec": {
            **source,
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "volumeMode": "Filesystem",
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {
                "namespace": NAMESPACES[0],
                "name": [*ZONED_CLAIMS, *LONE_CLAIMS][number],
            },
        },
        "status": {"phase": "Bound"},
    }


def _claim(dice: Dice, namespace: str, name: str) -> Json:
    """A claim that is bound; now and then to nothing, or not yet."""
    volume = DISKS[[*ZONED_CLAIMS, *LONE_CLAIMS].index(name)]
    mode = "ReadWriteOncePod" if name in LONE_CLAIMS else "ReadWriteOnce"
    annotations = {"pv.kubernetes.io/bind-completed": "yes"}
    spec: Json = {
        "accessModes": [mode],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": dice.choice(["", "late", "now"]),
        "volumeMode": "Filesystem",
        "volumeName": volume,
    }
    status = {"phase": "Bound"}
    if dice.often(0.05):
        spec["volumeName"] = "nowhere"
    elif dice.often(0.15):
        del spec["volumeName"]
        annotations, status = {}, {"phase": "Pending"}
        spec["storageClassName"] = dice.choice(["late", "late", "now", "static", "unheard-of"])
        if dice.often(0.2):
            annotations["volume.beta.kubernetes.io/storage-class"] = dice.choice(["late", ""])
        elif dice.often(0.1):
            del spec["storageClassName"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{namespace}-{name}",
            "annotations": annotations,
        },
        "spec": spec,
        "status": status,
    }


def _ephemeral_claim(dice: Dice, pod: str) -> Json:
    """The claim of a pod's first volume, if that is ephemeral; now and then somebody else's."""
    owner: Json = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": pod,
        "uid": f"uid-{pod}" if dice.often(0.95) else "uid-somebody",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    claim = _claim(dice, EPHEMERAL_NAMESPACE, dice.choice(ZONED_CLAIMS))
    claim["metadata"]["name"] = f"{pod}-u0"
    claim["metadata"]["uid"] = f"uid-{pod}-u0"
    claim["metadata"]["ownerReferences"] = [owner]
    return claim
