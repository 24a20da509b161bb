"""Random nodes: labels missing or odd, taints, allocatable of all sizes, images, features."""

from __future__ import annotations

from tests.parity.generate.dice import (
    BETA_REGION,
    BETA_ZONE,
    HOSTNAME,
    NODES,
    REGION,
    ZONE,
    Dice,
    Json,
)

UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
STORAGE = "ephemeral-storage"
GPU = "example.com/gpu"
NIC = "example.com/nic"
PAGES = "hugepages-2Mi"
MIB = 1 << 20
#: So much that a hundred times it is nearly all that an int64 holds. With more than 80 PiB a node,
#: upstream's scores overflow, and the cycle ends with an error about a score below zero; ours do
#: not.
HUGE = {
    "cpu": [f"{(1 << 56) - 3}m", f"{1 << 50}m", "1e6"],
    "memory": [str((1 << 56) - 3), "60Pi", "5000000000001m"],
    STORAGE: [str((1 << 56) - 3), "1Pi"],
    GPU: [str((1 << 56) - 3), "1k"],
}
IMAGES = {
    "registry.example/web:1": 30 * MIB,
    "registry.example/web:2": 300 * MIB,
    "registry.example/model:latest": 2000 * MIB,
    "registry.example/base@sha256:" + "a" * 64: 90 * MIB,
    "pause:latest": MIB,
    "registry.example:5000/größe": 700 * MIB,
}
FEATURES = [
    "UserNamespacesHostNetworkSupport",
    "RestartAllContainersOnContainerExits",
    "InPlacePodLevelResourcesVerticalScaling",
    "ExtendWebSocketsToKubelet",
]
#: What label values may look like besides plain words.
ODD_VALUES = ["", "0", "A.b_c-9", "x" * 63]


def node(dice: Dice, name: str, *, easy: bool = False) -> Json:
    """A node; an easy one refuses hardly any pod."""
    metadata: Json = {"name": name, "uid": f"uid-{name}"}
    if dice.often(0.9):
        metadata["labels"] = _labels(dice, name)
    elif dice.often(0.3):
        metadata["labels"] = None
    spec: Json = {}
    if not easy:
        spec = {"unschedulable": True} if dice.often(0.1) else {}
        if taints := [_taint(dice) for _ in range(dice.choice([0, 0, 0, 1, 2, 3]))]:
            if not dice.often(0.1):
                # An API server wants them unique.
                taints = list({(taint["key"], taint["effect"]): taint for taint in taints}.values())
            spec["taints"] = taints
    elif dice.often(0.5):
        twice = 2 if dice.often(0.1) else 1
        spec["taints"] = [{"key": "a", "value": "x", "effect": "PreferNoSchedule"}] * twice
    elif dice.often(0.1):
        spec["taints"] = None
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": spec,
        "status": _status(dice, easy=easy),
    }


def _labels(dice: Dice, name: str) -> Json:
    labels: Json = {"disk": dice.choice(["ssd", "hdd"])}
    if dice.often(0.95):
        # Of two nodes with one host name, upstream's rules see a single domain.
        labels[HOSTNAME] = name if dice.often(0.95) else dice.choice(NODES)
    if dice.often(0.6):
        labels["cores"] = dice.choice(["2", "4", "16", "many", "", "007"])
    if dice.often(0.7):
        labels[dice.choice([ZONE, ZONE, ZONE, BETA_ZONE])] = dice.choice(["z1", "z2", "z3"])
    if dice.often(0.3):
        labels[dice.choice([REGION, REGION, BETA_REGION])] = dice.choice(["r1", "r2"])
    if dice.often(0.02):
        # An API server does not take it, but a kubelet of old may have had it.
        labels["cores"] = "-3"
    if dice.often(0.1):
        labels[dice.choice(["disk", ZONE, "odd"])] = dice.choice(ODD_VALUES)
    return labels


def _taint(dice: Dice) -> Json:
    return {
        "key": dice.choice(["a", "b", "b", UNSCHEDULABLE]),
        "value": dice.choice(["", "x", "y"]),
        "effect": dice.choice(["NoSchedule", "NoExecute", "PreferNoSchedule"]),
    }


def _status(dice: Dice, *, easy: bool) -> Json:
    offers = {
        "cpu": dice.choice(["0", "900m", "2", "4", "4", "16"]) if not easy else "16",
        "memory": dice.choice(["0", "300Mi", "2Gi", "8Gi", "8Gi"]) if not easy else "32Gi",
        "pods": dice.choice(["0", "1", "3", "110"]) if not easy else "110",
    }
    if not easy and dice.often(0.05):
        del offers[dice.choice(list(offers))]
    for name, amounts in (
        (STORAGE, ["1Gi", "100Gi"]),
        (GPU, ["0", "1", "8"]),
        (PAGES, ["0", "64Mi"]),
    ):
        if dice.often(0.5):
            offers[name] = dice.choice(amounts)
    if dice.often(0.05):
        name = dice.choice(list(HUGE))
        offers[name] = dice.choice(HUGE[name])
    images = dice.sample(sorted(IMAGES), dice.randint(0, 4))
    return {
        "allocatable": offers,
        "capacity": offers,
        "images": [
            {"names": [image, *dice.some(["also:1", "web:1"], 1)], "sizeBytes": IMAGES[image]}
            for image in images
        ],
        "declaredFeatures": sorted(dice.sample(FEATURES, dice.randint(0, 3))),
    }
