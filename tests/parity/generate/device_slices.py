"""Random ResourceSlices: pools of devices for one node, some or all, with every way to limit them.

Devices are few and alike, so that claims nearly fit and searches turn back.
"""

from __future__ import annotations

from tests.parity.generate.dice import ZONE, Dice, Json

GPU = "gpu.example.com"
NIC = "nic.example.com"
PCIE = "resource.kubernetes.io/pcieRoot"
TAINTS = ["broken", "old"]
CONDITIONS = ["dra.example.com/ready", "dra.example.com/prepared"]
FAILURES = ["dra.example.com/failed"]
_LIMITS = [
    "plain",
    "plain",
    "counters",
    "capacity",
    "capacity and counters",
    "taints",
    "conditions",
]


def slices(dice: Dice, nodes: list[str]) -> list[Json]:
    """Slices of some pools; some pools are incomplete, old or contradict themselves."""
    made: list[Json] = []
    for driver in (GPU, NIC):
        if dice.often(0.5 if driver == NIC else 0.95):
            for node in nodes:
                if dice.often(0.85):
                    made += _pool(dice, driver, f"{driver[:3]}-{node}", {"nodeName": node}, nodes)
        if dice.often(0.35):
            made += _pool(dice, driver, f"{driver[:3]}-rack", _reach(dice, nodes), nodes)
    return made


def _reach(dice: Dice, nodes: list[str]) -> Json:
    """Which nodes a slice, or a device, is for."""
    match dice.randrange(4):
        case 0:
            return {"nodeName": dice.choice(nodes)}
        case 1:
            return {"allNodes": True}
        case _:
            return {"nodeSelector": node_selector(dice)}


def node_selector(dice: Dice) -> Json:
    requirement = {"key": ZONE, "operator": "In", "values": [dice.choice(["z1", "z2"])]}
    if dice.often(0.3):
        requirement = {"key": "gpu", "operator": dice.choice(["Exists", "DoesNotExist"])}
    term = {"matchExpressions": [requirement]}
    return {"nodeSelectorTerms": [term] if dice.often(0.97) else [term, term]}


def _pool(dice: Dice, driver: str, name: str, reach: Json, nodes: list[str]) -> list[Json]:
    limit = dice.choice(_LIMITS)
    per_device = dice.often(0.2)
    count = dice.choice([1, 1, 2, 3])
    generation = dice.choice([1, 1, 1, 2])
    with_counters = "counters" in limit
    total = count + with_counters
    said = total + dice.choice([-1, 1]) if dice.often(0.03) else total
    pool = {"name": name, "generation": generation, "resourceSliceCount": said}
    made: list[Json] = []
    serial = 0
    for number in range(count):
        devices = []
        for _ in range(dice.choice([0, 2, 2, 3, 4])):
            devices.append(_device(dice, f"d{serial}", limit))
            serial += not dice.often(0.005)
        where: Json = {"perDeviceNodeSelection": True} if per_device else dict(reach)
        if per_device:
            for device in devices:
                device.update(reach if dice.often(0.5) else _reach(dice, nodes))
        made.append(_slice(f"{name}-{dice.choice('abc')}{number}", driver, pool, where, devices))
    if with_counters:
        counters = _slice(f"{name}-counters", driver, pool, dict(reach), [])
        counters["spec"]["sharedCounters"] = _counter_sets(dice)
        del counters["spec"]["devices"]
        made.insert(dice.choice([0, len(made)]), counters)
    if dice.often(0.08):
        # What is left of, or comes with, another generation.
        other = _slice(
            f"{name}-other", driver, dict(pool), dict(reach), [_device(dice, "x", "plain")]
        )
        other["spec"]["pool"]["generation"] += dice.choice([-1, 1])
        made.append(other)
    if dice.often(0.03):
        made.pop()
    return made


def _slice(name: str, driver: str, pool: Json, where: Json, devices: list[Json]) -> Json:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {"driver": driver, "pool": dict(pool), **where, "devices": devices},
    }


def _counter_sets(dice: Dice) -> list[Json]:
    sets = [
        {
            "name": "set0",
            "counters": {
                "memory": {"value": dice.choice(["40Gi", "80Gi", "10"])},
                "slots": {"value": dice.choice(["4", "7", "1500m"])},
            },
        },
        {"name": "set1", "counters": {"memory": {"value": "20Gi"}}},
    ]
    if dice.often(0.02):
        sets[1]["name"] = "set0"
    return sets


def _device(dice: Dice, name: str, limit: str) -> Json:
    device: Json = {"name": name}
    attributes: Json = {}
    if dice.often(0.95):
        attributes["model"] = {"string": dice.choice(["A", "A", "B"])}
    if dice.often(0.9):
        attributes["numa"] = {"int": dice.choice([0, 0, 1])}
    if dice.often(0.6):
        attributes[PCIE] = {"string": dice.choice(["r0", "r1"])}
    if dice.often(0.3):
        attributes["version"] = {"version": dice.choice(["1.2.3", "2.0.0"])}
    if dice.often(0.3):
        attributes["healthy"] = {"bool": dice.often(0.7)}
    if dice.often(0.05):
        attributes["numa"] = {"string": "0"}
    if "numa" not in attributes and dice.often(0.5):
        # Beside "numa" it would be the same name to CEL, and Go would take either.
        attributes[f"{GPU}/numa"] = {"int": 1}
    if attributes or dice.often(0.5):
        device["attributes"] = attributes
    if dice.often(0.4) or "capacity" in limit:
        device["capacity"] = {"memory": {"value": dice.choice(["40Gi", "80Gi"])}}
        if dice.often(0.4):
            device["capacity"]["cores"] = {"value": dice.choice(["10", "4"])}
    if "capacity" in limit:
        _share(dice, device)
    if "counters" in limit and dice.often(0.9):
        _consume(dice, device)
    if (limit == "taints" and dice.often(0.6)) or dice.often(0.02):
        device["taints"] = [taint(dice) for _ in range(dice.choice([1, 1, 2]))]
    if limit == "conditions" and dice.often(0.7):
        device["bindingConditions"] = CONDITIONS[: dice.randint(1, 2)]
        device["bindingFailureConditions"] = FAILURES
        if dice.often(0.5):
            device["bindsToNode"] = dice.choice([True, False])
    return device


def taint(dice: Dice) -> Json:
    made: Json = {
        "key": dice.choice(TAINTS),
        "effect": dice.choice(["NoSchedule", "NoSchedule", "NoExecute", "None"]),
    }
    if dice.often(0.5):
        made["value"] = dice.choice(["very", "a-bit"])
    return made


def _share(dice: Dice, device: Json) -> None:
    if dice.often(0.8):
        device["allowMultipleAllocations"] = dice.often(0.9)
    for name, capacity in device["capacity"].items():
        # Memory in GiB, cores by number.
        unit = "Gi" if name == "memory" else ""
        match dice.randrange(5):
            case 0:
                capacity["requestPolicy"] = {"default": f"{dice.choice([1, 4])}{unit}"}
            case 1:
                values = [f"{number}{unit}" for number in (1, 4, 8)]
                capacity["requestPolicy"] = {"default": values[0], "validValues": values}
            case 2:
                within: Json = {"min": f"2{unit}"}
                if dice.often(0.6):
                    within["max"] = f"{dice.choice([4, 8, 10])}{unit}"
                if dice.often(0.6):
                    within["step"] = f"2{unit}"
                capacity["requestPolicy"] = {"default": f"2{unit}", "validRange": within}


def _consume(dice: Dice, device: Json) -> None:
    consumed: Json = {"memory": {"value": dice.choice(["10Gi", "20Gi", "40Gi"])}}
    if dice.often(0.5):
        consumed["slots"] = {"value": dice.choice(["1", "2", "3"])}
    device["consumesCounters"] = [{"counterSet": "set0", "counters": consumed}]
    if dice.often(0.3):
        device["consumesCounters"].append(
            {"counterSet": "set1", "counters": {"memory": {"value": "10Gi"}}}
        )
    if dice.often(0.003):
        device["consumesCounters"][0]["counterSet"] = "unheard-of"
    elif dice.often(0.003):
        consumed["unheard-of"] = {"value": "1"}
