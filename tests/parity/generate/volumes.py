"""Random claims, volumes, classes and what CSI drivers say of themselves.

Which of several equally small volumes a claim gets is left to chance upstream, so sizes differ,
save for twins: volumes that differ in nothing but their name. For the same reason no claim is
promised two volumes that are not twins. Then whether a node does follows from the case alone.
Nothing here makes a plugin fail with an error: those are in the unit tests.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

from tests.parity.generate.dice import (
    BETA_ZONE,
    HOSTNAME,
    NAMESPACES,
    NODES,
    REGION,
    ZONE,
    Dice,
    Json,
)

CLAIMS = [f"data{number}" for number in range(6)]
VOLUMES = [f"pv{number}" for number in range(10)]
CLASSES = ["late", "static", "now"]
DRIVERS = ["disks.example.com", "ebs.csi.aws.com"]
#: Arguments of VolumeBinding; nothing of what it decides depends on them.
VOLUME_ARGUMENTS: list[Json] = [{"VolumeBinding": {"bindTimeoutSeconds": 30}}]

EBS_ZONE = "topology.ebs.csi.aws.com/zone"
GCE_ZONE = "topology.gke.io/zone"
CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"
IN_TREE = ["kubernetes.io/aws-ebs", "kubernetes.io/gce-pd", "kubernetes.io/azure-disk"]
LATER = "WaitForFirstConsumer"
GONE = "2026-01-01T00:00:00Z"
#: The volume that `claims` may add as an ephemeral one.
SCRATCH = "scratch"
ACCESS = ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"]
SIZES = ["1Gi", "2Gi", "2G", "5Gi", "0.5Gi", "7Gi", "1500m", "0"]


def volume_objects(dice: Dice, nodes: Sequence[str] = NODES) -> list[Json]:
    """Everything that volume plugins look up."""
    classes = [_storage_class(dice, name) for name in CLASSES if dice.often(0.95)]
    volumes = _volumes(dice)
    claims = [_claim(dice, name, space, nodes) for space in NAMESPACES for name in CLAIMS]
    claims += _ephemeral_claims(dice, nodes)
    return [
        *classes,
        *volumes,
        *claims,
        *(_driver(dice, name) for name in DRIVERS if dice.often(0.7)),
        *(_capacity(dice, f"pool{number}") for number in range(dice.randint(0, 5))),
        *(_csi_node(dice, name) for name in nodes if dice.often(0.8)),
    ]


def claims(dice: Dice, pod: Json) -> None:
    """Let a pod use some claims: mostly one or two, now and then the same one twice."""
    volumes = pod["spec"].setdefault("volumes", [])
    for number in range(dice.choice([1, 1, 1, 2, 2, 3, 4])):
        name = dice.choice(CLAIMS) if dice.often(0.97) else "nowhere"
        source = {"claimName": name, "readOnly": dice.often(0.1)}
        volumes.append({"name": f"v{number}", "persistentVolumeClaim": source})
    if dice.often(0.15):
        template = {"spec": _claim_spec(dice, "late")}
        volumes.append({"name": SCRATCH, "ephemeral": {"volumeClaimTemplate": template}})
    if dice.often(0.1):
        volumes.append({"name": "cache", "emptyDir": {}})
    if dice.often(0.1):
        volumes.append({"name": "inline", "csi": {"driver": dice.choice(DRIVERS)}})


def driver_labels(dice: Dice, node: Json) -> None:
    """The labels by which a CSI driver knows where a node is."""
    labels = node["metadata"].get("labels")
    if labels and dice.often(0.7):
        zone = labels.get(ZONE) or labels.get(BETA_ZONE) or dice.choice(["z1", "z2"])
        labels[dice.choice([EBS_ZONE, EBS_ZONE, GCE_ZONE])] = zone


# Classes, drivers and what they say of nodes


def _storage_class(dice: Dice, name: str) -> Json:
    made: Json = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": dice.choice(DRIVERS) if dice.often(0.85) else "kubernetes.io/aws-ebs",
        "volumeBindingMode": "Immediate" if name == "now" else LATER,
    }
    if name == "static":
        made["provisioner"] = "kubernetes.io/no-provisioner"
    if dice.often(0.4):
        made["allowedTopologies"] = [
            {
                "matchLabelExpressions": [
                    {"key": key, "values": dice.some(["z1", "z2", "n1"], 2) or ["z3"]}
                    for key in dice.sample([ZONE, HOSTNAME, EBS_ZONE], dice.choice([1, 1, 2]))
                ]
            }
            for _ in range(dice.randint(1, 2))
        ]
        if dice.often(0.1):
            made["allowedTopologies"] = dice.choice([[], [{}], None])
    return made


def _driver(dice: Dice, name: str) -> Json:
    spec: Json = {} if dice.often(0.1) else {"storageCapacity": dice.often(0.7)}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIDriver",
        "metadata": {"name": name},
        "spec": spec,
    }


def _capacity(dice: Dice, name: str) -> Json:
    made: Json = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": {"name": name, "namespace": dice.choice(["kube-system", *NAMESPACES])},
        "storageClassName": dice.choice(["late", "late", "late", "now"]),
    }
    if dice.often(0.9):
        made["capacity"] = dice.choice(["0", "1Gi", "2Gi", "6Gi", "100Gi"])
    if dice.often(0.3):
        made["maximumVolumeSize"] = dice.choice(["0", "1Gi", "5Gi", "100Gi"])
    if dice.often(0.9):
        made["nodeTopology"] = dice.choice(
            [
                {},
                {"matchLabels": {ZONE: dice.choice(["z1", "z2", "z3"])}},
                {"matchLabels": {HOSTNAME: dice.choice(NODES)}},
                {"matchLabels": {HOSTNAME: dice.choice(NODES), "disk": "ssd"}},
                {"matchExpressions": [{"key": ZONE, "operator": "Exists"}]},
                {"matchExpressions": [{"key": "disk", "operator": "NotIn", "values": ["hdd"]}]},
                {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["z1", "z3"]}]},
            ]
        )
    return made


def _csi_node(dice: Dice, name: str) -> Json:
    metadata: Json = {"name": name}
    if dice.often(0.6):
        metadata["annotations"] = {MIGRATED: ",".join(dice.some(IN_TREE, 3))}
    drivers = [
        {
            "name": driver,
            "nodeID": name,
            "topologyKeys": [EBS_ZONE] if driver.startswith("ebs") else [HOSTNAME],
            **({"allocatable": {"count": dice.choice([0, 1, 2, 25])}} if dice.often(0.7) else {}),
        }
        for driver in DRIVERS
        if dice.often(0.8)
    ]
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": metadata,
        "spec": {"drivers": drivers},
    }


# Volumes


def _volumes(dice: Dice) -> list[Json]:
    made: list[Json] = []
    # No two have the same size, and so the sizes tell which one is taken.
    amounts = dice.sample(range(512, 9 * 1024, 128), len(VOLUMES))
    promised: set[tuple[str, str]] = set()
    for name, amount in zip(VOLUMES, amounts, strict=True):
        if made and dice.often(0.15):
            twin = copy.deepcopy(dice.choice(made))
            twin["metadata"]["name"] = name
            made.append(twin)
        elif dice.often(0.95):
            made.append(_volume(dice, name, amount, promised))
    return made


def _volume(dice: Dice, name: str, mib: int, promised: set[tuple[str, str]]) -> Json:
    zone = dice.choice(["z1", "z2", "z3"])
    metadata: Json = {"name": name, "labels": {"disk": dice.choice(["ssd", "hdd"])}}
    if dice.often(0.4):
        metadata["labels"][dice.choice([ZONE, ZONE, BETA_ZONE])] = zone
    if dice.often(0.05):
        metadata["deletionTimestamp"] = GONE
    spec: Json = {
        "capacity": {"storage": f"{mib}Mi"},
        "accessModes": dice.sample(ACCESS, dice.choice([1, 2, 2, 3])),
        "storageClassName": dice.choice(["late", "late", "static", "static", "static", "now", ""]),
        **_source(dice, name),
    }
    if dice.often(0.05):
        metadata["annotations"] = {CLASS_ANNOTATION: dice.choice(["static", "late", ""])}
    if dice.often(0.6):
        spec["volumeMode"] = dice.choice(["Filesystem", "Filesystem", "Filesystem", "Block"])
    if dice.often(0.1):
        spec["volumeAttributesClassName"] = dice.choice(["gold", "silver", ""])
    if dice.often(0.75):
        spec["nodeAffinity"] = _affinity(dice, zone)
    phase = dice.choice(["Available"] * 7 + ["Bound", "Released", "Pending", "Failed", ""])
    if dice.often(0.25):
        claim = (dice.choice(NAMESPACES), dice.choice(CLAIMS))
        if claim not in promised:
            promised.add(claim)
            spec["claimRef"] = _reference(dice, *claim)
            phase = dice.choice(["Available", "Bound", "Released"])
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": metadata,
        "spec": spec,
        "status": {"phase": phase},
    }


def _reference(dice: Dice, namespace: str, name: str) -> Json:
    made = {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": name}
    uid = dice.choice(["", f"uid-{namespace}-{name}", f"uid-{namespace}-{name}", "uid-of-another"])
    return {**made, "uid": uid} if uid else made


def _source(dice: Dice, name: str) -> Json:
    return dice.choice(
        [
            {"local": {"path": f"/mnt/{name}"}},
            {"nfs": {"server": "files.example", "path": f"/{name}"}},
            {"csi": {"driver": DRIVERS[0], "volumeHandle": name}},
            {"csi": {"driver": DRIVERS[1], "volumeHandle": f"vol-{name}"}},
            {"awsElasticBlockStore": {"volumeID": f"vol-{name}"}},
            {"awsElasticBlockStore": {"volumeID": f"vol-{name}"}},
            {"gcePersistentDisk": {"pdName": name}},
            {"azureDisk": {"diskName": name, "diskURI": f"/disks/{name}", "kind": "Managed"}},
        ]
    )


def _affinity(dice: Dice, zone: str) -> Json:
    hosts = dice.some(NODES, 3) or ["n1"]
    terms = dice.choice(
        [
            [_term(HOSTNAME, "In", hosts)],
            [_term(HOSTNAME, "In", hosts)],
            [_term(HOSTNAME, "In", [dice.choice(NODES)])],
            [_term(ZONE, "In", [zone])],
            [_term(dice.choice([ZONE, BETA_ZONE, EBS_ZONE]), "In", [zone, "z3"])],
            [_term(ZONE, "In", [zone]), _term(HOSTNAME, "In", hosts)],
            [_term(ZONE, "NotIn", [zone])],
            [_term(REGION, "Exists"), _term(ZONE, "DoesNotExist")],
            [_term("cores", dice.choice(["Gt", "Lt"]), ["3"])],
            [
                {
                    "matchExpressions": [
                        *_term(ZONE, "In", [zone])["matchExpressions"],
                        *_term("disk", "In", ["ssd"])["matchExpressions"],
                    ]
                }
            ],
            # Fields of a node are not looked at when it is about a volume.
            [{"matchFields": [_term("metadata.name", "In", ["n1"])["matchExpressions"][0]]}],
        ]
    )
    return {"required": {"nodeSelectorTerms": terms}}


def _term(key: str, operator: str, values: list[str] | None = None) -> Json:
    requirement: Json = {"key": key, "operator": operator}
    if values:
        requirement["values"] = values
    return {"matchExpressions": [requirement]}


# Claims


def _claim(dice: Dice, name: str, namespace: str, nodes: Sequence[str]) -> Json:
    metadata: Json = {"name": name, "namespace": namespace, "uid": f"uid-{namespace}-{name}"}
    annotations: Json = {}
    spec = _claim_spec(dice, dice.choice(["late"] * 8 + ["static"] * 5 + ["now", ""]))
    phase = "Pending"
    if dice.often(0.4):
        spec["volumeName"] = dice.choice(VOLUMES) if dice.often(0.95) else "nowhere"
        phase = "Bound"
        if dice.often(0.95):
            annotations[BIND_COMPLETED] = "yes"
        if dice.often(0.03):
            phase = "Lost"
    elif dice.often(0.15):
        annotations[SELECTED_NODE] = dice.choice([*nodes, "nowhere", ""])
    if dice.often(0.03):
        metadata["deletionTimestamp"] = GONE
        metadata["finalizers"] = ["kubernetes.io/pvc-protection"]
    if dice.often(0.05):
        annotations[CLASS_ANNOTATION] = dice.choice(["late", "static"])
    if dice.often(0.02):
        spec["storageClassName"] = "never-made"
    if annotations:
        metadata["annotations"] = annotations
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": spec,
        "status": {"phase": phase},
    }


def _claim_spec(dice: Dice, storage_class: str) -> Json:
    spec: Json = {
        "accessModes": [dice.choice(ACCESS[:3])] if dice.often(0.9) else ACCESS[:2],
        "resources": {"requests": {"storage": dice.choice(SIZES)}},
        "storageClassName": storage_class,
    }
    if dice.often(0.6):
        spec["volumeMode"] = dice.choice(["Filesystem", "Filesystem", "Filesystem", "Block"])
    if dice.often(0.1):
        spec["volumeAttributesClassName"] = dice.choice(["gold", "silver", ""])
    if dice.often(0.15):
        spec["selector"] = dice.choice(
            [
                {},
                {"matchLabels": {"disk": "ssd"}},
                {"matchExpressions": [{"key": "disk", "operator": "NotIn", "values": ["ssd"]}]},
                {"matchExpressions": [{"key": ZONE, "operator": "Exists"}]},
            ]
        )
    if dice.often(0.02):
        spec["resources"] = {}
    return spec


def _ephemeral_claims(dice: Dice, nodes: Sequence[str]) -> list[Json]:
    """Claims that a controller has made for the ephemeral volumes of pods p1, p2, ..."""
    made = []
    for pod in (f"p{number}" for number in range(1, 11)):
        for namespace in NAMESPACES:
            if dice.often(0.2):
                continue
            claim = _claim(dice, f"{pod}-{SCRATCH}", namespace, nodes)
            owner = pod if dice.often(0.95) else "another"
            uid = f"uid-{owner}"
            reference: Json = {"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": uid}
            if dice.often(0.97):
                reference["controller"] = True
            claim["metadata"]["ownerReferences"] = [reference]
            made.append(claim)
    return made
