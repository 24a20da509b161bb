"""What random pods ask of nodes: names, labels, tolerated taints."""

from __future__ import annotations

from tests.parity.generate.dice import HOSTNAME, NODES, REGION, ZONE, Dice, Json
from tests.parity.generate.nodes import ODD_VALUES, UNSCHEDULABLE


def constrain(dice: Dice, spec: Json, *, hard: bool) -> None:
    """Let the pod prefer some nodes and, if `hard`, insist on some."""
    if hard and dice.often(0.08):
        spec["nodeName"] = dice.choice(NODES)
    if hard and dice.often(0.25):
        spec["nodeSelector"] = dice.choice(
            [{"disk": "ssd"}, {"disk": "hdd", ZONE: "z1"}, {REGION: "r1"}, {}, None]
        )
    affinity: Json = {}
    if hard and dice.often(0.04):
        # By name, and so that no node can have all the names.
        names = dice.sample(NODES, dice.choice([1, 2]))
        fields = [{"key": "metadata.name", "operator": "In", "values": [name]} for name in names]
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {
            "nodeSelectorTerms": [{"matchFields": fields}]
        }
    elif hard and dice.often(0.3):
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {
            "nodeSelectorTerms": [_term(dice) for _ in range(dice.randint(1, 3))]
        }
    if dice.often(0.4):
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": dice.choice([1, 7, 100]), "preference": _term(dice)}
            for _ in range(dice.randint(1, 3))
        ]
    if affinity or dice.often(0.1):
        spec["affinity"] = {"nodeAffinity": affinity}


def _term(dice: Dice) -> Json:
    term: Json = {}
    if dice.often(0.85):
        term["matchExpressions"] = [_requirement(dice) for _ in range(dice.randint(1, 2))]
    if dice.often(0.2):
        term["matchFields"] = [
            {
                "key": "metadata.name",
                "operator": dice.choice(["In", "In", "NotIn"]),
                "values": [dice.choice(NODES)],
            }
            for _ in range(dice.choice([1, 1, 1, 2]))
        ]
    return term


def _requirement(dice: Dice) -> Json:
    key = dice.choice(["disk", "cores", ZONE, HOSTNAME, "unheard-of", "odd"])
    operator = dice.choice(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])
    if operator in ("Exists", "DoesNotExist"):
        return {"key": key, "operator": operator}
    if operator in ("Gt", "Lt"):
        return {"key": "cores", "operator": operator, "values": [dice.choice(["3", "0", "7"])]}
    words = {"disk": ["ssd", "hdd"], "cores": ["4", ""], ZONE: ["z1", "z2"], "odd": ODD_VALUES}
    values = words.get(key, NODES)
    return {"key": key, "operator": operator, "values": dice.some(values, 2) or [values[0]]}


def toleration(dice: Dice) -> Json:
    operator = dice.choice(["", "Equal", "Exists", "Exists"])
    tolerated: Json = {"operator": operator} if operator else {}
    key = dice.choice(["a", "b", UNSCHEDULABLE, ""])
    if key or operator != "Exists":
        tolerated["key"] = key or "a"
    if operator != "Exists":
        tolerated["value"] = dice.choice(["", "x", "y"])
    if dice.often(0.6):
        tolerated["effect"] = dice.choice(["NoSchedule", "NoExecute", "PreferNoSchedule"])
    return tolerated
