"""Nodes for the live comparison: few words, so that what pods ask for is often there."""

from __future__ import annotations

from typing import Any

from tests.parity.generate.dice import HOSTNAME, REGION, ZONE, Dice

Json = dict[str, Any]

GPU = "example.com/gpu"
HUGE = "hugepages-2Mi"
RESTARTS = "RestartAllContainersOnContainerExits"
#: The last node's newest version offers one: who places a pod that needs it has heard of all nodes.
LAST_NEWS = "example.com/last-news"
DISKS, POOLS, GENERATIONS = ["ssd", "hdd"], ["a", "b", "c"], ["3", "7", "12"]
TAINTS: list[Json] = [
    {"key": "dedicated", "value": "ml", "effect": "NoSchedule"},
    {"key": "dedicated", "value": "web", "effect": "NoSchedule"},
    {"key": "maintenance", "effect": "NoExecute"},
    {"key": "spot", "value": "yes", "effect": "PreferNoSchedule"},
    {"key": "old", "effect": "PreferNoSchedule"},
]
IMAGES = {"web": 400, "db:13": 900, "example.com/tool:v2": 1500, "tiny": 20}
_MIB = 1024 * 1024
_ZONES = {"z1": "east", "z2": "east", "z3": "west", "z4": "west"}


def nodes(dice: Dice, count: int) -> list[Json]:
    """As many nodes, in the order of their creation."""
    return [_node(dice, number) for number in range(count)]


def _node(dice: Dice, number: int) -> Json:
    # Not in the order of the alphabet: a list would be sorted by name, arrivals are not.
    name = f"{dice.choice('zmqa')}-node-{number}"
    offers: Json = {
        "cpu": dice.choice(["2", "3500m", "4", "8"]),
        "memory": dice.choice(["4Gi", "6G", "8Gi", "16Gi"]),
        "ephemeral-storage": dice.choice(["1Gi", "10Gi", "20Gi"]),
        "pods": dice.choice(["6", "12", "110"]),
    }
    if dice.often(0.35):
        offers[GPU] = dice.choice(["1", "2", "4"])
    if dice.often(0.3):
        offers[HUGE] = dice.choice(["64Mi", "256Mi"])
    status: Json = {"capacity": offers, "allocatable": offers, "images": _images(dice)}
    if dice.often(0.25):
        status["declaredFeatures"] = [RESTARTS]
    spec: Json = {}
    if dice.often(0.35):
        spec["taints"] = _distinct(dice.some(TAINTS, 2))
    if dice.often(0.06):
        spec["unschedulable"] = True
    metadata = {"name": name, "labels": _labels(dice, name)}
    return {"metadata": metadata, "spec": spec, "status": status}


def _labels(dice: Dice, name: str) -> Json:
    labels: Json = {}
    if dice.often(0.95):
        labels[HOSTNAME] = name
    if dice.often(0.9):
        zone = dice.choice(list(_ZONES))
        labels[ZONE] = zone
        if dice.often(0.9):
            labels[REGION] = _ZONES[zone]
    for key, values in (("disk", DISKS), ("pool", POOLS), ("gen", GENERATIONS)):
        if dice.often(0.8):
            labels[key] = dice.choice(values)
    return labels


def _images(dice: Dice) -> list[Json]:
    held = []
    for name, mib in IMAGES.items():
        if dice.often(0.45):
            full = name if ":" in name else f"{name}:latest"
            names = [f"{full.rpartition(':')[0]}@sha256:{'0' * 64}", full]
            held.append({"names": names, "sizeBytes": mib * _MIB + dice.randint(0, 9) * _MIB})
    return held


def _distinct(taints: list[Json]) -> list[Json]:
    """The API takes a key and an effect only once a node."""
    return list({(taint["key"], taint["effect"]): taint for taint in taints}.values())
